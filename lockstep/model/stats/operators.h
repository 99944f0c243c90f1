// What a block computes, keeps and moves, operator by operator: what plans for any cluster are
// made of. All amounts are of one sample of the whole model; ranks share them as each one says.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::model {

enum class OperatorKind : std::uint8_t {
  product,    // matrix product, m x k by k x n
  attention,  // scores, softmax and values together
  norm,
  pointwise,  // activation functions, residual sums, gates
  dropout,
  embedding,  // rows looked up
  loss,       // logits to loss, the product with the vocabulary not included
  convolution,
  router,  // which expert a token goes to, and its way there and back
};

/// Which part of it a rank of a tensor-parallel group of t has.
enum class Share : std::uint8_t {
  whole,     // all of it
  tensor,    // 1/t
  sequence,  // 1/t with sequence parallelism, else all
  /// 1/t. Each of e expert-parallel ranks has 1/e of the experts, who get the tokens of e ranks: of
  /// work and of what is kept that is as much as its own samples cause; of parameters 1/e.
  expert,
};

/// What is kept for backward, of one sample.
struct Kept {
  double elements = 0;  // in the compute type
  double bytes = 0;     // whatever the compute type: masks, statistics, fp32 copies
  Share share = Share::whole;
  bool of_scores = false;  // grows with the square of the sequence: gone with flash attention, and
                           // with selective recomputation
};

struct OperatorStats {
  std::string name;  // "qkv", "attention", "fc1"
  OperatorKind kind = OperatorKind::product;
  /// A product of one sample: m rows (tokens), inner size k, n columns; `times` of them.
  /// Convolution: m output pixels, n channels. Attention: m queries, n keys, k wide, `times` heads.
  /// Norm: m rows or pixels, n channels. Loss: m rows, n classes. Embedding: m rows, n wide.
  double m = 0;
  double n = 0;
  double k = 0;
  double times = 1;
  double kernel_area = 1;  // of a convolution: k / input channels
  Share share = Share::whole;
  bool splits_inner = false;  // tensor ranks share k (row split) instead of n (column split)
  bool causal = false;        // attention: only the lower half of the scores has a meaning
  double forward_flops = 0;   // 2 m n k times for a product, 4 for attention, 0 for what only moves
  double backward_flops = 0;  // twice as much
  double moved_elements = 0;  // read and written in forward, in the compute type, without weights
  double weight_elements = 0;  // read once, however many samples there are
  std::vector<Kept> kept{};
};

}  // namespace lockstep::model
