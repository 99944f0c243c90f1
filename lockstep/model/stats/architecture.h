// A network as papers and config.json files describe it, before anything is counted.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::model {

enum class ArchitectureKind : std::uint8_t {
  decoder,          // GPT, Llama, mixtures of experts
  encoder,          // BERT
  encoder_decoder,  // T5
  resnet,
  mlp,
  dlrm,
  wide_deep,
};

/// Where a transformer's sense of order comes from; ALiBi (Press et al. 2022) has no parameters and
/// counts as none.
enum class Positions : std::uint8_t { learned, rotary, relative, none };

/// Mixture of experts: in every `every`-th block the feed-forward part stands `experts` times.
struct Experts {
  std::int64_t experts = 0;  // 0 = none
  std::int64_t per_token = 1;
  std::int64_t shared = 0;       // experts that every token passes
  bool shared_gate = false;      // a learned share of those in the sum (Qwen2-MoE)
  std::int64_t width = 0;        // hidden width of one expert; 0 = Architecture::feed_forward
  std::int64_t every = 1;        // blocks every - 1, 2 every - 1, ...
  std::int64_t dense_first = 0;  // first blocks without experts
  [[nodiscard]] bool in_block(std::int64_t block) const {
    return experts > 0 && block >= dense_first && (block + 1) % every == 0;
  }
};

struct Architecture {
  std::string name;  // "llama-3-8b", "config.json", "7e9 parameters"
  ArchitectureKind kind = ArchitectureKind::decoder;
  // Transformers.
  std::int64_t layers = 0;
  std::int64_t decoder_layers = 0;  // encoder_decoder only; `layers` are the encoder's
  std::int64_t width = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;    // = heads without grouped queries
  std::int64_t head_width = 0;  // = width / heads in most
  std::int64_t feed_forward = 0;
  bool gated = false;  // SwiGLU, GEGLU: three matrices instead of two
  bool relu = false;   // its output is enough for backward, and the next product keeps that
  bool rms_norm = false;
  bool norm_bias = true;    // of norms that are not rms_norm
  bool norm_after = false;  // BERT: norms behind the sums, none at the end
  bool one_norm = false;    // attention and feed-forward side by side behind one (Falcon-7B)
  bool qk_norm = false;     // RMS norms of each head's queries and keys (Qwen3)
  bool biased = true;       // linear layers have biases
  bool biased_qkv = false;  // only these have (Qwen2)
  bool tied = true;         // the head uses the embedding's matrix
  Positions positions = Positions::learned;
  std::int64_t max_positions = 0;  // rows of a learned table; as many as tokens, if those are more
  std::int64_t position_buckets = 0;  // rows of the relative table of one stack
  std::int64_t token_types = 0;       // BERT
  std::int64_t vocabulary = 0;
  double dropout = 0;                         // of the embedding and before each sum
  std::optional<double> attention_dropout{};  // of attention's shares; unset = dropout
  Experts experts{};
  std::int64_t default_sequence = 0;  // tokens of a sample where the user says none
  // resnet.
  std::vector<std::int64_t> stage_blocks{};
  std::vector<std::int64_t> stage_widths{};
  bool bottleneck = false;  // three convolutions a block, the last four times as wide
  bool small_stem = false;  // 3 x 3 on each pixel (CIFAR) instead of 7 x 7 and a pool
  std::int64_t image_size = 0;
  std::int64_t image_channels = 3;
  std::int64_t classes = 0;
  // mlp, dlrm, wide_deep.
  std::int64_t inputs = 0;                 // dense features
  std::vector<std::int64_t> hidden{};      // widths of the (top) layers
  std::vector<std::int64_t> bottom{};      // dlrm: layers below the interaction
  std::vector<std::int64_t> table_rows{};  // embedding tables
  std::int64_t embedding_width = 0;        // transformers: where it is not `width` (OPT-350M)
};

}  // namespace lockstep::model
