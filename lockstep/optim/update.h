// The one update kernel: SGD and AdamW on flat fp32 buffers, and the sums for clipping. Elementwise
// bits depend on the element alone, never on its position, the length or the shard.
#pragma once
#include <cstdint>
#include <span>

#include "lockstep/base/float16.h"
#include "lockstep/config/run_config.h"

namespace lockstep::optim {

/// A run of elements of one flat layout: pointers to the same elements in each buffer.
struct UpdateView {
  float* master = nullptr;           // parameters, fp32, updated
  const float* gradient = nullptr;   // summed, not yet divided
  float* moment1 = nullptr;          // momentum (sgd) or first moment; null when unused
  float* moment2 = nullptr;          // second moment (adamw); null for sgd
  std::uint16_t* compute = nullptr;  // copy of master (round to nearest even); null for fp32
  std::int64_t count = 0;
  config::Dtype compute_type = config::Dtype::bf16;  // of the copy: bf16, or fp16 with overflow
};

struct UpdateStep {
  config::OptimizerSection optimizer;
  double lr = 0;              // of this step, after the schedule
  double gradient_scale = 1;  // 1 / global weight x clip factor
  std::int64_t step = 1;      // 1 on the first update (AdamW bias correction; SGD first momentum)
};

/// One optimizer step on `view`. SGD as torch.optim.SGD (dampening 0, weight decay added to the
/// gradient, Nesterov); AdamW as torch.optim.AdamW (decoupled decay, Loshchilov & Hutter 2019).
void update(const UpdateView& view, const UpdateStep& step);

/// The L2 norm of flat gradients: fp64 sums per kChunkElements, added in chunk order. Runs must be
/// added in layout order; slot starts are multiples of kPadElements.
class NormSum {
 public:
  /// \param offset of the run in the layout; \param scale multiplied into each element first.
  void add(std::int64_t offset, std::span<const float> gradient, float scale);
  [[nodiscard]] double norm();  // finishes the last chunk

 private:
  static constexpr int kLanes = 16;
  double lanes_[kLanes] = {};
  std::int64_t chunk_ = -1;
  double total_ = 0;
  void finish_chunk();
};

/// into[i] += from[i]; the step of the reduction tree. \param count elements.
void add_into(float* into, const float* from, std::int64_t count);

/// into[i] = factor x from[i], or += with `add`: a gradient of a scaled loss on its way into its
/// bucket. \returns whether all of `from` was finite; what was not stays so in `into`.
[[nodiscard]] bool take_gradient(float* into, const float* from, std::int64_t count, float factor,
                                 bool add);
[[nodiscard]] bool take_gradient(float* into, const Fp16Bits* from, std::int64_t count,
                                 float factor, bool add);

}  // namespace lockstep::optim
