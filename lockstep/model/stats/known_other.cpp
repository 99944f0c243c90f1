#include <array>
#include <string>

#include "lockstep/model/stats/known_tables.h"

namespace lockstep::model {
namespace {

struct TransformerRow {
  std::string_view name;
  std::int64_t layers;
  std::int64_t width;
  std::int64_t heads;
  std::int64_t head_width;
  std::int64_t feed_forward;
  std::int64_t parameters;
};

constexpr std::string_view kBertSource =
    "Devlin et al. 2018, arXiv:1810.04805, section 3; with the pooler, without a masked-word head";
constexpr auto kBertRows = std::to_array<TransformerRow>({
    {"bert-base", 12, 768, 12, 64, 3072, 109'482'240},
    {"bert-large", 24, 1024, 16, 64, 4096, 335'141'888},
});

constexpr std::string_view kT5Source = "Raffel et al. 2020, arXiv:1910.10683, section 3.7";
constexpr auto kT5Rows = std::to_array<TransformerRow>({
    {"t5-small", 6, 512, 8, 64, 2048, 60'506'624},
    {"t5-base", 12, 768, 12, 64, 3072, 222'903'552},
    {"t5-large", 24, 1024, 16, 64, 4096, 737'668'096},
    {"t5-3b", 24, 1024, 32, 128, 16384, 2'851'598'336},
    {"t5-11b", 24, 1024, 128, 128, 65536, 11'307'321'344},
});

Architecture transformer(const TransformerRow& row) {
  Architecture a;
  a.name = std::string(row.name);
  a.layers = row.layers;
  a.width = row.width;
  a.heads = row.heads;
  a.kv_heads = row.heads;
  a.head_width = row.head_width;
  a.feed_forward = row.feed_forward;
  a.default_sequence = 512;
  a.dropout = 0.1;
  return a;
}

Architecture bert(const TransformerRow& row) {
  Architecture a = transformer(row);
  a.kind = ArchitectureKind::encoder;
  a.norm_after = true;
  a.max_positions = 512;
  a.token_types = 2;
  a.vocabulary = 30522;
  return a;
}

Architecture t5(const TransformerRow& row) {
  Architecture a = transformer(row);
  a.kind = ArchitectureKind::encoder_decoder;
  a.decoder_layers = row.layers;
  a.relu = true;
  a.rms_norm = true;
  a.biased = false;
  a.positions = Positions::relative;
  a.position_buckets = 32;
  a.vocabulary = 32128;
  return a;
}

struct ResnetRow {
  std::string_view name;
  bool bottleneck;
  std::array<std::int64_t, 4> blocks;
  std::int64_t parameters;
};

constexpr std::string_view kResnetSource =
    "He et al. 2016, arXiv:1512.03385, table 1, for ImageNet (224 x 224, 1000 classes)";
constexpr auto kResnetRows = std::to_array<ResnetRow>({
    {"resnet18", false, {2, 2, 2, 2}, 11'689'512},
    {"resnet34", false, {3, 4, 6, 3}, 21'797'672},
    {"resnet50", true, {3, 4, 6, 3}, 25'557'032},
    {"resnet101", true, {3, 4, 23, 3}, 44'549'160},
    {"resnet152", true, {3, 8, 36, 3}, 60'192'808},
});

Architecture resnet(const ResnetRow& row) {
  Architecture a;
  a.name = std::string(row.name);
  a.kind = ArchitectureKind::resnet;
  a.bottleneck = row.bottleneck;
  a.stage_blocks.assign(row.blocks.begin(), row.blocks.end());
  a.stage_widths = {64, 128, 256, 512};
  a.image_size = 224;
  a.classes = 1000;
  return a;
}

// Rows of the 26 tables: different values of each feature in the seven days of the Kaggle set, and
// in the 24 days of the other with at most 40 million a feature (MLPerf training, DLRM).
constexpr auto kCriteoKaggle = std::to_array<std::int64_t>(
    {1460,  583,     10131227, 2202608, 305,  24, 12517,   633, 3,  93145,  5683, 8351593, 3194, 27,
     14992, 5461306, 10,       5652,    2173, 4,  7046547, 18,  15, 286181, 105,  142572});
constexpr auto kCriteoTerabyte = std::to_array<std::int64_t>(
    {39884406, 39043,    17289,    7420,     20263,  3,     7120, 1543, 63,
     38532951, 2953546,  403346,   10,       2208,   11938, 155,  4,    976,
     14,       39979771, 25641295, 39664984, 585935, 12972, 108,  36});
constexpr std::int64_t kCriteoDense = 13;

template <std::size_t N>
Architecture tables(ArchitectureKind kind, const char* name,
                    const std::array<std::int64_t, N>& rows, std::int64_t width) {
  Architecture a;
  a.name = name;
  a.kind = kind;
  a.table_rows.assign(rows.begin(), rows.end());
  a.embedding_width = width;
  a.inputs = kCriteoDense;
  a.classes = 1;
  return a;
}

KnownModel dlrm_terabyte() {
  Architecture a = tables(ArchitectureKind::dlrm, "dlrm", kCriteoTerabyte, 128);
  a.bottom = {512, 256, 128};
  a.hidden = {1024, 1024, 512, 256};
  return {a, 24'036'595'969,
          "MLPerf training, recommendation: Criteo 1TB, 40 million rows a table"};
}

KnownModel dlrm_kaggle() {
  Architecture a = tables(ArchitectureKind::dlrm, "dlrm-kaggle", kCriteoKaggle, 16);
  a.bottom = {512, 256, 64, 16};
  a.hidden = {512, 256};
  return {a, 540'677'217, "github.com/facebookresearch/dlrm, bench/dlrm_s_criteo_kaggle.sh"};
}

KnownModel wide_deep() {
  Architecture a = tables(ArchitectureKind::wide_deep, "wide_deep", kCriteoKaggle, 32);
  a.hidden = {1024, 512, 256};
  return {a, 1'115'687'744,
          "Cheng et al. 2016, arXiv:1606.07792, figure 4, on Criteo's Kaggle set"};
}

}  // namespace

void append_other_models(std::vector<KnownModel>& models) {
  for (const auto& row : kBertRows) models.push_back({bert(row), row.parameters, kBertSource});
  for (const auto& row : kT5Rows) models.push_back({t5(row), row.parameters, kT5Source});
  for (const auto& row : kResnetRows) {
    models.push_back({resnet(row), row.parameters, kResnetSource});
  }
  models.push_back(dlrm_terabyte());
  models.push_back(dlrm_kaggle());
  models.push_back(wide_deep());
}

}  // namespace lockstep::model
