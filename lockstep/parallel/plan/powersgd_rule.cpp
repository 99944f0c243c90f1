#include "lockstep/parallel/plan/powersgd_rule.h"

#include <algorithm>

#include "lockstep/base/saturated.h"

namespace lockstep::parallel {

std::int64_t powersgd_rank(std::int64_t wanted, std::int64_t rows, std::int64_t columns) {
  const std::int64_t rank = std::min({wanted, rows, columns});
  const Saturated factors = (Saturated(rows) + columns) * rank;
  const Saturated whole = Saturated(rows) * columns;
  return factors.value() < whole.value() ? rank : 0;
}

std::int64_t powersgd_from(const config::RunConfig& config) {
  return config.parallel.powersgd_from.value_or(config.schedule.warmup_steps);
}

}  // namespace lockstep::parallel
