#include <algorithm>
#include <string>

#include "lockstep/base/nearest.h"
#include "lockstep/model/stats/families.h"

namespace lockstep::model {
namespace {

// T tokens of a sample, C model width, V vocabulary.

void add_norm(BlockStats& block, const std::string& name, std::int64_t width) {
  block.parameters.push_back({block.name + "." + name + ".weight", {width}, Split::none, true});
  block.parameters.push_back({block.name + "." + name + ".bias", {width}, Split::none, true});
}

/// Column-split layers share their bias out with their rows; row-split ones keep it whole.
void add_linear(BlockStats& block, const std::string& name, std::int64_t inputs,
                std::int64_t outputs, Split split) {
  const Split bias_split = split == Split::column ? Split::column : Split::none;
  const std::string prefix = block.name + "." + name;
  block.parameters.push_back({prefix + ".weight", {outputs, inputs}, split, false});
  block.parameters.push_back({prefix + ".bias", {outputs}, bias_split, false});
}

BlockStats embed(std::int64_t seq_len, std::int64_t width, const config::ModelSection& config) {
  BlockStats block;
  block.name = "embed";
  block.parameters = {{"embed.wte.weight", {config.vocab_size, width}, Split::vocab, false},
                      {"embed.wpe.weight", {seq_len, width}, Split::none, false}};
  const double output = static_cast<double>(seq_len) * static_cast<double>(width);
  block.activation_elements = output;  // kept by the next norm
  block.peak_temporary_elements = output;
  block.widened_elements = output;
  return block;
}

BlockStats transformer(const std::string& name, std::int64_t seq_len,
                       const config::ModelSection& config) {
  const std::int64_t width = config.width;
  BlockStats block;
  block.name = name;
  add_norm(block, "ln1", width);
  add_linear(block, "qkv", width, 3 * width, Split::column);
  add_linear(block, "proj", width, width, Split::row);
  add_norm(block, "ln2", width);
  add_linear(block, "fc1", width, 4 * width, Split::column);
  add_linear(block, "fc2", 4 * width, width, Split::row);
  const auto tokens = static_cast<double>(seq_len);
  const auto channels = static_cast<double>(width);
  // 12 C^2 weights a token; causal attention: two products over half of T x T.
  block.forward_flops = 24 * tokens * channels * channels + 2 * tokens * tokens * channels;
  // Kept: both norms, q, k, v, attention, the sum h, fc1 and GELU (4 C each), the output.
  block.activation_elements = 16 * tokens * channels;
  block.activation_fp32_bytes = 4 * tokens * 4;  // two statistics of each norm
  const auto heads = static_cast<double>(config.heads);
  const bool keeps_shares = seq_len <= kMostAttended;
  if (keeps_shares) {
    block.activation_elements += heads * static_cast<double>(kept_shares(seq_len));
  } else {
    block.activation_fp32_bytes += 4 * tokens * heads;  // one logarithm a row
  }
  // Dropout keeps its two masks and the unmasked projections are gone.
  if (config.dropout > 0) block.activation_elements += 2 * tokens * channels;
  // Backward of fc2 holds the residual's gradient and GELU's beside its weight's; with GELU's, its
  // output has gone. Attention's holds those of q, k and v twice, of the residual and of one
  // block's shares, and the 9 C that were kept behind it have gone.
  const auto block_keys = static_cast<double>(std::min(kQueryBlock, seq_len));
  block.peak_temporary_elements = 5 * tokens * channels;
  block.between_temporary_elements =
      tokens * std::max(5 * channels, keeps_shares ? heads * block_keys : 0);
  // Backward of fc2 widens what went in and the gradient of what came out. That of attention
  // widens q, k, v, their gradients and that of the output, and shares and their gradients of one
  // block; beside it there are neither those 9 C nor 4 C of GELU's (of half the width).
  const double wide_attention =
      keeps_shares ? 7 * channels + 2 * heads * block_keys : 11 * channels;
  block.widened_elements = tokens * std::max(5 * channels, wide_attention - 6.5 * channels);
  return block;
}

BlockStats head(std::int64_t seq_len, const config::ModelSection& config) {
  BlockStats block;
  block.name = "head";
  add_norm(block, "ln", config.width);
  const auto tokens = static_cast<double>(seq_len);
  const auto channels = static_cast<double>(config.width);
  const auto vocabulary = static_cast<double>(config.vocab_size);
  block.forward_flops = 2 * tokens * channels * vocabulary;
  block.activation_elements = tokens * (channels + vocabulary);  // normed input, logits
  block.activation_fp32_bytes = 4 * tokens * 3;  // the norm's statistics, the loss's logarithm
  block.peak_temporary_elements = tokens * vocabulary;
  block.widened_elements = tokens * (channels + vocabulary);
  return block;
}

}  // namespace

std::int64_t kept_shares(std::int64_t tokens) {
  std::int64_t shares = 0;
  for (std::int64_t first = 0; first < tokens; first += kQueryBlock) {
    const std::int64_t end = std::min(first + kQueryBlock, tokens);
    shares += (end - first) * end;
  }
  return shares;
}

ModelStats gpt_stats(const config::ModelSection& config, std::int64_t seq_len) {
  ModelStats stats;
  stats.family = "gpt";
  stats.counts_tokens = true;
  stats.tokens_per_sample = seq_len;
  stats.input_bytes_per_sample = seq_len * 2 * 8;  // tokens and next tokens, int64
  stats.blocks.push_back(embed(seq_len, config.width, config));
  for (std::int64_t i = 0; i < config.layers; ++i) {
    stats.blocks.push_back(transformer("blocks." + std::to_string(i), seq_len, config));
  }
  stats.blocks.push_back(head(seq_len, config));
  return stats;
}

std::vector<Problem> check_gpt(const config::ModelSection& config) {
  std::vector<Problem> problems;
  require_at_least(problems, "layers", config.layers, 1);
  require_at_least(problems, "width", config.width, 1);
  require_at_least(problems, "heads", config.heads, 1);
  require_at_least(problems, "vocab_size", config.vocab_size, 2);
  if (config.heads > 0 && config.width > 0 && config.width % config.heads != 0) {
    const std::int64_t below = config.width - config.width % config.heads;
    problems.push_back({"LS-6003", "model.heads",
                        std::to_string(config.heads) + " heads do not divide width " +
                            std::to_string(config.width),
                        "use " + nearest_divisors(config.width, config.heads) +
                            " heads, or a width such as " +
                            std::to_string(below > 0 ? below : config.heads) + " or " +
                            std::to_string(below + config.heads)});
  }
  if (config.dropout < 0 || config.dropout >= 1) {
    problems.push_back({"LS-6004", "model.dropout", "dropout is " + std::to_string(config.dropout),
                        "use a share from 0 up to, but not, 1"});
  }
  return problems;
}

}  // namespace lockstep::model
