// Runs a list of blocks: the one loop where strategies gather parameters, recompute and cut.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "lockstep/model/model.h"

namespace lockstep::parallel {

/// What a block's random draws depend on, besides its index: equal however work is spread over
/// ranks.
struct DrawKey {
  std::uint64_t seed = 0;
  std::int64_t step = 0;
  std::int64_t leaf = 0;  // virtual rank
};

class BlockRunner {
 public:
  explicit BlockRunner(std::vector<std::shared_ptr<model::Block>> blocks)
      : blocks_(std::move(blocks)) {}
  virtual ~BlockRunner() = default;

  /// Output of the last block. Blocks that draw random numbers find the default generator seeded
  /// from (key, block index).
  [[nodiscard]] virtual at::Tensor forward(at::Tensor input, const DrawKey& key);
  void set_training(bool training);

  /// From now on, or no longer: looks whether the output of each block is finite, which costs a
  /// pass over it.
  void watch_outputs(bool watched) { watched_ = watched; }
  /// The first block of the last watched forward whose output was not finite.
  [[nodiscard]] std::optional<std::size_t> first_not_finite() const { return first_not_finite_; }

 protected:
  [[nodiscard]] const std::vector<std::shared_ptr<model::Block>>& blocks() const { return blocks_; }

 private:
  std::vector<std::shared_ptr<model::Block>> blocks_;
  bool watched_ = false;
  std::optional<std::size_t> first_not_finite_;
};

}  // namespace lockstep::parallel
