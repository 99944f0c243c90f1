#include <array>
#include <string>

#include "lockstep/model/stats/known_tables.h"

namespace lockstep::model {
namespace {

struct Row {
  std::string_view name;
  std::int64_t layers;
  std::int64_t width;
  std::int64_t heads;
  std::int64_t kv_heads;
  std::int64_t feed_forward;
  std::int64_t vocabulary;
  std::int64_t parameters;
};

struct Family {
  std::string_view source;
  std::int64_t sequence;
  bool tied = false;
  bool biased_qkv = false;
  Experts experts{};
};

Architecture decoder(const Row& row, const Family& family) {
  Architecture a;
  a.name = std::string(row.name);
  a.layers = row.layers;
  a.width = row.width;
  a.heads = row.heads;
  a.kv_heads = row.kv_heads;
  a.head_width = row.width / row.heads;
  a.feed_forward = row.feed_forward;
  a.gated = true;
  a.rms_norm = true;
  a.biased = false;
  a.biased_qkv = family.biased_qkv;
  a.tied = family.tied;
  a.positions = Positions::rotary;
  a.vocabulary = row.vocabulary;
  a.experts = family.experts;
  a.default_sequence = family.sequence;
  return a;
}

template <std::size_t N>
void append(std::vector<KnownModel>& models, const Family& family, const std::array<Row, N>& rows) {
  for (const Row& row : rows) {
    models.push_back({decoder(row, family), row.parameters, family.source});
  }
}

constexpr Family kLlama1{"Touvron et al. 2023, arXiv:2302.13971, table 2", 2048};
constexpr auto kLlama1Rows = std::to_array<Row>({
    {"llama-7b", 32, 4096, 32, 32, 11008, 32000, 6'738'415'616},
    {"llama-13b", 40, 5120, 40, 40, 13824, 32000, 13'015'864'320},
    {"llama-30b", 60, 6656, 52, 52, 17920, 32000, 32'528'943'616},
    {"llama-65b", 80, 8192, 64, 64, 22016, 32000, 65'285'660'672},
});

constexpr Family kLlama2{"Touvron et al. 2023, arXiv:2307.09288; huggingface.co/meta-llama", 4096};
constexpr auto kLlama2Rows = std::to_array<Row>({
    {"llama-2-7b", 32, 4096, 32, 32, 11008, 32000, 6'738'415'616},
    {"llama-2-13b", 40, 5120, 40, 40, 13824, 32000, 13'015'864'320},
    {"llama-2-70b", 80, 8192, 64, 8, 28672, 32000, 68'976'648'192},
});

constexpr Family kCodeLlama{"Roziere et al. 2023, arXiv:2308.12950; huggingface.co/codellama",
                            4096};
constexpr auto kCodeLlamaRows =
    std::to_array<Row>({{"llama-2-34b", 48, 8192, 64, 8, 22016, 32000, 33'743'970'304}});

constexpr Family kLlama3{"Grattafiori et al. 2024, arXiv:2407.21783, table 3", 8192};
constexpr auto kLlama3Rows = std::to_array<Row>({
    {"llama-3-8b", 32, 4096, 32, 8, 14336, 128256, 8'030'261'248},
    {"llama-3-70b", 80, 8192, 64, 8, 28672, 128256, 70'553'706'496},
    {"llama-3-405b", 126, 16384, 128, 8, 53248, 128256, 405'853'388'800},
    {"llama-3.1-8b", 32, 4096, 32, 8, 14336, 128256, 8'030'261'248},
    {"llama-3.1-70b", 80, 8192, 64, 8, 28672, 128256, 70'553'706'496},
    {"llama-3.1-405b", 126, 16384, 128, 8, 53248, 128256, 405'853'388'800},
});

constexpr Family kLlama32{"huggingface.co/meta-llama/Llama-3.2-1B, Llama-3.2-3B", 8192, true};
constexpr auto kLlama32Rows = std::to_array<Row>({
    {"llama-3.2-1b", 16, 2048, 32, 8, 8192, 128256, 1'235'814'400},
    {"llama-3.2-3b", 28, 3072, 24, 8, 8192, 128256, 3'212'749'824},
});

constexpr Family kMistral{"Jiang et al. 2023, arXiv:2310.06825, table 1", 8192};
constexpr auto kMistralRows =
    std::to_array<Row>({{"mistral-7b", 32, 4096, 32, 8, 14336, 32000, 7'241'732'096}});

constexpr Family kMixtral{"Jiang et al. 2024, arXiv:2401.04088, table 1; mistral.ai",
                          8192,
                          false,
                          false,
                          {.experts = 8, .per_token = 2}};
constexpr auto kMixtralRows = std::to_array<Row>({
    {"mixtral-8x7b", 32, 4096, 32, 8, 14336, 32000, 46'702'792'704},
    {"mixtral-8x22b", 56, 6144, 48, 8, 16384, 32000, 140'620'634'112},
});

constexpr Family kDeepSeekMoe{
    "Dai et al. 2024, arXiv:2401.06066; its config.json",
    4096,
    false,
    false,
    {.experts = 64, .per_token = 6, .shared = 2, .width = 1408, .dense_first = 1}};
constexpr auto kDeepSeekMoeRows =
    std::to_array<Row>({{"deepseek-moe-16b", 28, 2048, 16, 16, 10944, 102400, 16'375'728'128}});

constexpr Family kQwenMoe{
    "huggingface.co/Qwen/Qwen1.5-MoE-A2.7B",
    4096,
    false,
    true,
    {.experts = 60, .per_token = 4, .shared = 4, .shared_gate = true, .width = 1408}};
constexpr auto kQwenMoeRows =
    std::to_array<Row>({{"qwen1.5-moe-a2.7b", 24, 2048, 16, 16, 5632, 151936, 14'315'784'192}});

constexpr Family kQwenTied{"Qwen team 2024, arXiv:2412.15115; huggingface.co/Qwen", 4096, true,
                           true};
constexpr auto kQwenTiedRows = std::to_array<Row>({
    {"qwen2.5-0.5b", 24, 896, 14, 2, 4864, 151936, 494'032'768},
    {"qwen2.5-1.5b", 28, 1536, 12, 2, 8960, 151936, 1'543'714'304},
    {"qwen2.5-3b", 36, 2048, 16, 2, 11008, 151936, 3'085'938'688},
});

constexpr Family kQwen{"Qwen team 2024, arXiv:2412.15115; huggingface.co/Qwen", 4096, false, true};
constexpr auto kQwenRows = std::to_array<Row>({
    {"qwen2.5-7b", 28, 3584, 28, 4, 18944, 152064, 7'615'616'512},
    {"qwen2.5-14b", 48, 5120, 40, 8, 13824, 152064, 14'770'033'664},
    {"qwen2.5-32b", 64, 5120, 40, 8, 27648, 152064, 32'763'876'352},
    {"qwen2.5-72b", 80, 8192, 64, 8, 29568, 152064, 72'706'203'648},
});

/// Queries share keys and values; attention and feed-forward stand side by side.
Architecture falcon(std::string_view name, std::int64_t layers, std::int64_t width,
                    std::int64_t kv_heads) {
  Architecture a;
  a.name = std::string(name);
  a.layers = layers;
  a.width = width;
  a.head_width = 64;
  a.heads = width / a.head_width;
  a.kv_heads = kv_heads;
  a.feed_forward = 4 * width;
  a.one_norm = kv_heads == 1;
  a.biased = false;
  a.positions = Positions::rotary;
  a.vocabulary = 65024;
  a.default_sequence = 2048;
  return a;
}

}  // namespace

void append_llama_models(std::vector<KnownModel>& models) {
  append(models, kLlama1, kLlama1Rows);
  append(models, kLlama2, kLlama2Rows);
  append(models, kCodeLlama, kCodeLlamaRows);
  append(models, kLlama3, kLlama3Rows);
  append(models, kLlama32, kLlama32Rows);
  append(models, kMistral, kMistralRows);
  append(models, kMixtral, kMixtralRows);
  append(models, kDeepSeekMoe, kDeepSeekMoeRows);
  append(models, kQwenMoe, kQwenMoeRows);
  append(models, kQwenTied, kQwenTiedRows);
  append(models, kQwen, kQwenRows);
  constexpr std::string_view kFalcon =
      "Almazrouei et al. 2023, arXiv:2311.16867; huggingface.co/tiiuae";
  models.push_back({falcon("falcon-7b", 32, 4544, 1), 6'921'720'704, kFalcon});
  models.push_back({falcon("falcon-40b", 60, 8192, 8), 41'303'293'952, kFalcon});
}

}  // namespace lockstep::model
