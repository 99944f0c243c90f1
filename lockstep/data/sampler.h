// Which samples make up which step: a pure function of (seed, position). Every rank computes the same.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::data {

/// Where training stands in the data: a value that checkpoints carry.
struct Position {
  std::int64_t epoch = 0;
  std::int64_t sample = 0;  // of this epoch's permutation already consumed, over all ranks
  friend bool operator==(const Position&, const Position&) = default;
};

class Sampler {
 public:
  /// \param dataset_size samples; \param global_batch samples a step; the last step of an epoch may
  /// have fewer (every sample once an epoch).
  Sampler(std::int64_t dataset_size, std::uint64_t seed, std::int64_t global_batch);

  /// Ids of the step that starts at `position`, from the epoch's permutation; never crosses an epoch.
  [[nodiscard]] std::vector<std::int64_t> step_ids(const Position& position) const;
  /// The position after that step.
  [[nodiscard]] Position after(const Position& position) const;
  [[nodiscard]] std::int64_t steps_per_epoch() const;
  /// The position after `steps` steps from the start.
  [[nodiscard]] Position at_step(std::int64_t steps) const;

 private:
  std::int64_t dataset_size_;
  std::uint64_t seed_;
  std::int64_t global_batch_;
  mutable std::int64_t cached_epoch_ = -1;   // one permutation is kept
  mutable std::vector<std::int64_t> permutation_;
};

/// Part `leaf` of `leaves` of a step's ids, cut by index as evenly as possible; may be empty.
[[nodiscard]] std::span<const std::int64_t> part_of(std::span<const std::int64_t> ids,
                                                    std::int64_t leaf, std::int64_t leaves);

}  // namespace lockstep::data
