#include <string>
#include <utility>

#include "lockstep/base/saturated.h"
#include "lockstep/model/stats/architecture_stats.h"

namespace lockstep::model {
namespace {

// Far beyond any network there is, and small enough that products of a few of them are exact.
constexpr std::int64_t kMostLayers = 10'000;
constexpr std::int64_t kMostWidth = 10'000'000;
constexpr std::int64_t kMostRows = 100'000'000'000;
constexpr std::int64_t kMostTables = 10'000;

class Check {
 public:
  explicit Check(const Architecture& architecture) : a_(architecture) {}

  std::vector<Problem> run() {
    switch (a_.kind) {
      case ArchitectureKind::decoder:
      case ArchitectureKind::encoder:
      case ArchitectureKind::encoder_decoder:
        transformer();
        break;
      case ArchitectureKind::resnet:
        resnet();
        break;
      case ArchitectureKind::mlp:
      case ArchitectureKind::dlrm:
      case ArchitectureKind::wide_deep:
        tabular();
        break;
    }
    return std::move(problems_);
  }

 private:
  void between(const char* name, std::int64_t value, std::int64_t least, std::int64_t most) {
    if (value >= least && value <= most) return;
    problems_.push_back(
        {"LS-6001", a_.name, std::string(name) + " is " + std::to_string(value),
         "use a number from " + std::to_string(least) + " to " + std::to_string(most)});
  }

  void all_between(const char* name, const std::vector<std::int64_t>& values, std::int64_t most) {
    between((std::string("number of ") + name).c_str(), static_cast<std::int64_t>(values.size()), 0,
            kMostTables);
    for (const std::int64_t value : values) {
      if (value < 1 || value > most) return between(name, value, 1, most);
    }
  }

  void share(const char* name, double value) {
    if (value >= 0 && value < 1) return;
    problems_.push_back({"LS-6004", a_.name, std::string(name) + " is " + std::to_string(value),
                         "use a share from 0 up to, but not, 1"});
  }

  void transformer() {
    between("layers", a_.layers, 1, kMostLayers);
    if (a_.kind == ArchitectureKind::encoder_decoder) {
      between("decoder_layers", a_.decoder_layers, 1, kMostLayers);
    }
    between("width", a_.width, 1, kMostWidth);
    between("heads", a_.heads, 1, kMostWidth);
    between("kv_heads", a_.kv_heads, 1, kMostWidth);
    between("head_width", a_.head_width, 1, kMostWidth);
    between("feed_forward", a_.feed_forward, 1, kMostWidth);
    between("vocabulary", a_.vocabulary, 2, kMostRows);
    between("max_positions", a_.max_positions, 0, kMostRows);
    between("position_buckets", a_.position_buckets, 0, kMostWidth);
    between("token_types", a_.token_types, 0, kMostWidth);
    between("embedding_width", a_.embedding_width, 0, kMostWidth);
    between("tokens of a sample", a_.default_sequence, 1, kMostRows);
    share("dropout", a_.dropout);
    if (a_.attention_dropout) share("attention_dropout", *a_.attention_dropout);
    experts();
    if (problems_.empty() && a_.heads % a_.kv_heads != 0) {
      problems_.push_back({"LS-6003", a_.name,
                           std::to_string(a_.kv_heads) +
                               " heads of keys and values do not divide " +
                               std::to_string(a_.heads) + " heads",
                           "use a number of kv_heads that divides the heads"});
    }
  }

  void experts() {
    const Experts& e = a_.experts;
    between("experts", e.experts, 0, kMostTables);
    if (e.experts == 0) return;
    between("experts of a token", e.per_token, 1, e.experts);
    between("shared experts", e.shared, 0, kMostTables);
    between("width of an expert", e.width, 0, kMostWidth);
    between("blocks from one with experts to the next", e.every, 1, kMostLayers);
    between("first blocks without experts", e.dense_first, 0, kMostLayers);
  }

  void resnet() {
    all_between("stage_blocks", a_.stage_blocks, kMostLayers);
    Saturated blocks;
    for (const std::int64_t count : a_.stage_blocks) blocks += count;
    between("blocks in all", blocks.value(), 1, kMostLayers);
    all_between("stage_widths", a_.stage_widths, kMostWidth);
    between("image_size", a_.image_size, 8, kMostWidth);
    between("image_channels", a_.image_channels, 1, kMostWidth);
    between("classes", a_.classes, 2, kMostRows);
    if (a_.stage_blocks.empty() || a_.stage_blocks.size() != a_.stage_widths.size()) {
      problems_.push_back({"LS-6001", a_.name,
                           std::to_string(a_.stage_blocks.size()) + " numbers of blocks and " +
                               std::to_string(a_.stage_widths.size()) + " widths of stages",
                           "give one of either for each stage"});
    }
  }

  void tabular() {
    const bool tables = a_.kind != ArchitectureKind::mlp;
    between("inputs", a_.inputs, 1, kMostRows);
    between("classes", a_.classes, 1, kMostRows);
    between("embedding_width", a_.embedding_width, tables ? 1 : 0, kMostWidth);
    all_between("hidden", a_.hidden, kMostWidth);
    all_between("bottom", a_.bottom, kMostWidth);
    all_between("table_rows", a_.table_rows, kMostRows);
    const bool dlrm = a_.kind == ArchitectureKind::dlrm;
    if (dlrm && (a_.bottom.empty() || a_.bottom.back() != a_.embedding_width)) {
      problems_.push_back(
          {"LS-6001", a_.name,
           "the bottom layers do not end in embedding_width, " + std::to_string(a_.embedding_width),
           "make the last of them as wide as the tables"});
    }
  }

  const Architecture& a_;
  std::vector<Problem> problems_;
};

}  // namespace

std::vector<Problem> check_architecture(const Architecture& architecture) {
  return Check(architecture).run();
}

}  // namespace lockstep::model
