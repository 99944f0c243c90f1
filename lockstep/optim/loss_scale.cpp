#include "lockstep/optim/loss_scale.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "lockstep/base/error.h"

namespace lockstep::optim {

LossScale::LossScale(const LossScaleOptions& options)
    : options_(options), state_{options.fixed.value_or(options.initial), 0} {
  LOCKSTEP_CHECK(state_.scale > 0, "a loss scale must be above 0");
}

void LossScale::set_state(const LossScaleState& state) {
  if (is_dynamic() && state.scale > 0) state_ = state;
}

double LossScale::factor(std::int64_t weight) const {
  LOCKSTEP_CHECK(weight > 0, "the loss of a batch without samples cannot be scaled");
  return state_.scale / static_cast<double>(std::bit_ceil(static_cast<std::uint64_t>(weight)));
}

void LossScale::update(bool finite) {
  if (!finite) {
    state_.good_steps = 0;
    if (is_dynamic()) {
      state_.scale = std::max(state_.scale * options_.backoff, options_.minimum);
    }
    return;
  }
  ++state_.good_steps;
  if (!is_dynamic() || state_.good_steps < options_.growth_interval) return;
  state_.good_steps = 0;
  const double grown = state_.scale * options_.growth;
  if (grown <= std::numeric_limits<float>::max()) state_.scale = grown;
}

bool LossScale::at_minimum() const { return !is_dynamic() || state_.scale <= options_.minimum; }

}  // namespace lockstep::optim
