// The few numbers that ride at the end of the last gradient bucket, so that loss, weight, votes,
// times and module buffers need no collective of their own.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::parallel {

/// Times of one rank's previous step in seconds: step, data, forward, backward, sync, optimizer.
using RankTimes = std::array<float, 6>;

/// What this rank adds to the sum of one step.
struct StepControl {
  int stop_votes = 0;
  int restore_votes = 0;
  RankTimes times{};
  int abandon_votes = 0;  // 1 = this rank left micro-batches out: the step must not count
};

/// The same numbers summed over all ranks and micro-batches: equal on every rank.
struct StepSums {
  double loss_sum = 0;      // nats; loss_sum / weight is the mean
  std::int64_t weight = 0;  // samples or tokens of the global batch
  int stop_votes = 0;
  int restore_votes = 0;
  int abandon_votes = 0;
  std::vector<RankTimes> times;  // one per rank
};

/// A view of fp32 elements that are summed like gradients. Weights are exact up to 2^36.
class ControlBlock {
 public:
  /// \param ranks of the group; \param parameters of the model; \param buffer_floats of its
  /// buffers.
  ControlBlock(int ranks, std::size_t parameters, std::int64_t buffer_floats);

  [[nodiscard]] std::int64_t size() const { return size_; }  // elements, a multiple of the padding

  void set_loss(std::span<float> block, double loss_sum, std::int64_t weight) const;
  void set_control(std::span<float> block, int rank, const StepControl& control) const;
  void set_used(std::span<float> block, std::size_t parameter, bool used) const;

  [[nodiscard]] StepSums sums(std::span<const float> block) const;
  /// Whether any micro-batch on any rank gave this parameter a gradient.
  [[nodiscard]] bool used(std::span<const float> block, std::size_t parameter) const;
  [[nodiscard]] std::span<float> buffers(std::span<float> block) const;

 private:
  int ranks_;
  std::size_t times_offset_;
  std::size_t used_offset_;
  std::size_t buffers_offset_;
  std::size_t buffer_floats_;
  std::int64_t size_;
};

}  // namespace lockstep::parallel
