// Which samples make up which step: a pure function of (seed, position), equal on every rank.
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

/// Not thread-safe: step_ids() keeps the permutation of the epoch it was last asked for.
class Sampler {
 public:
  /// \param dataset_size samples; \param global_batch samples a step; the last step of an epoch may
  /// have fewer (every sample once an epoch). \throws UsageError (LS-2008) for fewer than 1 sample.
  Sampler(std::int64_t dataset_size, std::uint64_t seed, std::int64_t global_batch);

  /// Ids of the step at `position`, from the epoch's permutation; never crosses an epoch.
  [[nodiscard]] std::vector<std::int64_t> step_ids(const Position& position) const;
  /// The position after that step.
  [[nodiscard]] Position after(const Position& position) const;
  [[nodiscard]] std::int64_t dataset_size() const { return dataset_size_; }

 private:
  std::int64_t dataset_size_;
  std::uint64_t seed_;
  std::int64_t global_batch_;
  mutable std::int64_t cached_epoch_ = -1;  // one permutation is kept
  mutable std::vector<std::uint32_t> permutation_;
};

/// Key of the augmentation of an epoch: Dataset::collate draws from (key, sample id). Never 0.
[[nodiscard]] std::uint64_t augment_key(std::uint64_t seed, std::int64_t epoch);

/// Part `leaf` of `leaves` of a step's ids, cut by index as evenly as possible: sizes differ by at
/// most 1 and the first parts are the larger ones, so that only the last ones can be empty.
[[nodiscard]] std::span<const std::int64_t> part_of(std::span<const std::int64_t> ids,
                                                    std::int64_t leaf, std::int64_t leaves);

}  // namespace lockstep::data
