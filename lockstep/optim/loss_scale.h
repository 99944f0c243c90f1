// The factor of the loss in fp16 training: as large as its gradients allow, so that small ones do
// not vanish (Micikevicius et al. 2018, section 3.2). Pure arithmetic: every rank does the same.
#pragma once
#include <cstdint>
#include <optional>

namespace lockstep::optim {

/// Values of torch.amp.GradScaler (PyTorch 2.11), which has no minimum.
struct LossScaleOptions {
  std::optional<double> fixed;  // this factor always; unset = dynamic
  double initial = 65536;
  double growth = 2;
  double backoff = 0.5;
  std::int64_t growth_interval = 2000;  // good steps in a row after which the scale grows
  double minimum = 1;
  /// Samples or tokens of a global batch, where the caller knows it; 0 = each micro-batch is taken
  /// for an equal part.
  std::int64_t batch_weight = 0;
};

/// So many skipped steps in a row mean that no scale helps.
inline constexpr std::int64_t kMaxSkippedSteps = 10;

/// What must be saved for the scale to go on as if nothing had happened.
struct LossScaleState {
  double scale = 0;
  std::int64_t good_steps = 0;  // since the last change
  bool operator==(const LossScaleState&) const = default;
};

class LossScale {
 public:
  explicit LossScale(const LossScaleOptions& options);

  [[nodiscard]] const LossScaleState& state() const { return state_; }
  /// A fixed scale keeps its own number.
  void set_state(const LossScaleState& state);

  /// What a loss summed over a batch of `weight` samples or tokens is multiplied by: scale / 2^k
  /// with 2^k the power of two from `weight` up, so that gradients are about as large as those of
  /// scale x mean loss, and dividing by it again is exact.
  [[nodiscard]] double factor(std::int64_t weight) const;

  /// After a step: whether its gradients were finite on all ranks.
  void update(bool finite);

  [[nodiscard]] bool is_dynamic() const { return !options_.fixed; }
  /// True when it cannot get smaller.
  [[nodiscard]] bool at_minimum() const;
  [[nodiscard]] const LossScaleOptions& options() const { return options_; }

 private:
  LossScaleOptions options_;
  LossScaleState state_;
};

}  // namespace lockstep::optim
