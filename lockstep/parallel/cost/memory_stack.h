// What a software stack adds to the memory that a training itself needs.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

namespace lockstep::parallel {

enum class LossMemory : std::uint8_t {
  in_place,  // logits become probabilities become gradients (Megatron's split cross entropy)
  copied,    // each is an array of its own (PyTorch's cross_entropy)
};

/// How gradients reach the other data ranks.
enum class GradientExchange : std::uint8_t {
  in_place,  // from the buffer that they are summed in
  bucketed,  // a bucket at a time: MemoryStack::bucket_bytes
  copied,    // all of them in one flat copy
};

struct MemoryStack {
  std::string_view name;     // as in tables of published runs
  std::string_view source;   // of its numbers
  double runtime_bytes = 0;  // context of the device, libraries; on a CPU the system too
  double group_bytes = 0;    // that the communication library takes for each kind of group
  double slack = 0;          // of what is allocated and freed in a step: share kept beside
  /// What a rank keeps beside activations where tensor ranks exchange, as a share of them: the
  /// stack's one fitted constant, half of it with a single micro-batch a step. 0 = none.
  double kept_by_exchange = 0;
  double mask_bytes = 1;       // of a number's dropout mask
  double extra_scores = 0;     // arrays of attention's scores beside those that papers count
  double score_gradients = 2;  // such arrays in backward of attention: before and after softmax
  bool keeps_outputs = false;  // of a stage, until their backward
  LossMemory loss = LossMemory::copied;
  GradientExchange exchange = GradientExchange::bucketed;
  double bucket_bytes = 0;  // of gradients on their way; 0 = all of them, or a layer's with ZeRO
  double gathered_elements = 0;    // ZeRO-3: most weights at once; 0 = two blocks and the ends
  double persistent_elements = 0;  // ZeRO-3: parameters of at most so many stay whole
  bool activations_alone = false;  // a paper's formula: layers only, no working memory
};

[[nodiscard]] std::span<const MemoryStack> memory_stacks();
/// By name; null when there is none.
[[nodiscard]] const MemoryStack* find_memory_stack(std::string_view name);
/// What is assumed where nobody names one: "Megatron-Core 0.8" with tensor or pipeline ranks, else
/// "PyTorch".
[[nodiscard]] const MemoryStack& usual_memory_stack(bool splits_layers = false);

}  // namespace lockstep::parallel
