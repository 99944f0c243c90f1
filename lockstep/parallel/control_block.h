// The few numbers that ride at the end of the last gradient bucket, so that loss, weight, votes,
// times and module buffers need no collective of their own.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace lockstep::parallel {

/// Times of one rank's previous step in seconds: step, data, forward, backward, sync, optimizer.
using RankTimes = std::array<float, 6>;

/// Where the numbers of a rank's step first were not finite. It travels as one number.
struct NotFiniteAt {
  enum class Kind : std::uint8_t { nowhere, loss, output, gradient };
  Kind kind = Kind::nowhere;
  std::int64_t index = 0;  // of the block (output) or the parameter (gradient)

  [[nodiscard]] float to_number() const;
  [[nodiscard]] static NotFiniteAt from_number(float number);
};

/// What this rank adds to the sum of one step.
struct StepControl {
  int stop_votes = 0;
  int restore_votes = 0;
  RankTimes times{};
  int abandon_votes = 0;  // 1 = this rank left micro-batches out: the step must not count
  NotFiniteAt not_finite{};
  float breach = 0;      // of a static graph: StaticGraph::breach
  int memory_votes = 0;  // 1 = this rank ran out of memory: the step must be repeated, cut finer
};

/// The same numbers summed over all ranks and micro-batches: equal on every rank.
struct StepSums {
  double loss_sum = 0;      // nats; loss_sum / weight is the mean
  std::int64_t weight = 0;  // samples or tokens of the global batch
  int stop_votes = 0;
  int restore_votes = 0;
  int abandon_votes = 0;
  int memory_votes = 0;
  int memory_rank = -1;                 // the one that ran out of memory, where it was only one
  std::vector<RankTimes> times;         // one per rank
  std::vector<NotFiniteAt> not_finite;  // one per rank; looked for where the loss is scaled
  std::int64_t micro_batches = 0;       // that had samples, of all ranks
  std::optional<std::size_t> overflown_bucket;  // Exchange::overflown
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
  /// By parameter: how many micro-batches of all ranks gave it a gradient.
  [[nodiscard]] std::span<const float> uses(std::span<const float> block) const;
  /// By rank: what each says about its static graph.
  [[nodiscard]] std::span<const float> breaches(std::span<const float> block) const;
  [[nodiscard]] std::span<float> buffers(std::span<float> block) const;

 private:
  int ranks_;
  std::size_t times_offset_;
  std::size_t not_finite_offset_;
  std::size_t breaches_offset_;
  std::size_t used_offset_;
  std::size_t buffers_offset_;
  std::size_t buffer_floats_;
  std::int64_t size_;
};

}  // namespace lockstep::parallel
