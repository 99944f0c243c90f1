#include "lockstep/engine/scale_watch.h"

#include <utility>

#include "lockstep/base/units.h"

namespace lockstep::engine {

std::string ScaleWatch::add(bool skipped, const optim::LossScale& scale) {
  ++steps_;
  if (!skipped) {
    if (!skips_.empty() && steps_ - skips_.back() >= kGood) told_many_ = told_minimum_ = false;
    return "";
  }
  skips_.push_back(steps_);
  if (skips_.size() > static_cast<std::size_t>(kSkips)) skips_.pop_front();
  const std::string now = format_shortest(scale.state().scale);
  if (scale.is_dynamic() && scale.at_minimum() && !std::exchange(told_minimum_, true)) {
    told_many_ = true;
    return "the loss scale is at its minimum of " + now;
  }
  const std::int64_t span = steps_ - skips_.front() + 1;
  const bool many = skips_.size() == static_cast<std::size_t>(kSkips) && span <= kSteps;
  if (!many || std::exchange(told_many_, true)) return "";
  return format_count(kSkips) + " of the last " + std::to_string(span) +
         " steps overflowed in fp16, the loss scale is " +
         (scale.is_dynamic() ? "down to " : "fixed at ") + now;
}

}  // namespace lockstep::engine
