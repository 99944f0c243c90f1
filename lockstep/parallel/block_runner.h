// Runs a list of blocks: the one loop where strategies gather parameters, recompute and cut.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
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

 protected:
  [[nodiscard]] const std::vector<std::shared_ptr<model::Block>>& blocks() const { return blocks_; }

 private:
  std::vector<std::shared_ptr<model::Block>> blocks_;
};

}  // namespace lockstep::parallel
