// The layers that blocks are put together from: each adds its parameters, its operator and what
// that keeps for backward. What is kept follows Korthikanti et al. 2022 (arXiv:2205.05198, section
// 4.1): an input that two operators keep counts once, means and deviations of norms not at all.
#pragma once
#include <cstdint>
#include <string>

#include "lockstep/model/stats/model_stats.h"

namespace lockstep::model {

/// A matrix product with weights.
struct LinearLayer {
  std::string name;
  std::int64_t inputs = 0;
  std::int64_t outputs = 0;
  Split split = Split::none;
  bool biased = false;
  double rows = 0;          // tokens of a sample that pass it
  bool keeps_input = true;  // no other operator does
  bool has_weight = true;   // false: it uses a matrix that another block owns
};
void add_linear(BlockStats& block, const LinearLayer& layer);

struct NormLayer {
  std::string name;
  std::int64_t width = 0;
  bool biased = true;
  double rows = 0;
  Share share = Share::sequence;
};
void add_norm(BlockStats& block, const NormLayer& layer);

struct AttentionLayer {
  double queries = 0;  // tokens of a sample
  double keys = 0;
  double heads = 0;
  double kv_heads = 0;
  double head_width = 0;
  double dropout = 0;
  bool causal = false;
};
/// Without the products before and behind it.
void add_attention(BlockStats& block, const AttentionLayer& layer);

/// A convolution and its batch norm; `side` pixels squared come out. What is kept: its output, by
/// the norm.
struct ConvolutionLayer {
  std::string name;
  std::string norm;
  std::int64_t inputs = 0;  // channels
  std::int64_t outputs = 0;
  std::int64_t kernel = 1;
  std::int64_t in_side = 0;
  std::int64_t side = 0;
};
void add_convolution(BlockStats& block, const ConvolutionLayer& layer);

/// Operators without parameters that go over `elements` numbers `passes` times (reads and writes).
void add_pointwise(BlockStats& block, const std::string& name, Share share, double elements,
                   double passes, double kept_elements = 0);
/// A mask of one byte an element; nothing where `probability` is 0.
void add_dropout(BlockStats& block, const std::string& name, double elements, double probability);
/// Logits to loss: keeps them in fp32.
void add_loss(BlockStats& block, double rows, double classes, Share share);

/// Sums of the operators into the block's own amounts; the last thing done to a block.
void finish(BlockStats& block);

}  // namespace lockstep::model
