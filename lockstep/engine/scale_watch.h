// Tells early when the loss scale of fp16 training collapses: one skipped step now and then is how
// the scale finds its size, many close together are trouble.
#pragma once
#include <cstdint>
#include <deque>
#include <string>

#include "lockstep/optim/loss_scale.h"

namespace lockstep::engine {

class ScaleWatch {
 public:
  /// After each step, updated or skipped, with the scale that the next one will have.
  /// \returns what is wrong, once until it has become good again; empty = nothing.
  [[nodiscard]] std::string add(bool skipped, const optim::LossScale& scale);

  static constexpr std::int64_t kSkips = 4;   // of the last ...
  static constexpr std::int64_t kSteps = 20;  // ... are too many
  static constexpr std::int64_t kGood = 100;  // steps without a skip end the trouble

 private:
  std::int64_t steps_ = 0;
  std::deque<std::int64_t> skips_;  // the last kSkips of them, as values of steps_
  bool told_many_ = false;
  bool told_minimum_ = false;
};

}  // namespace lockstep::engine
