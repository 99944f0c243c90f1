// A plan in a few lines for people.
#pragma once
#include <string>

#include "lockstep/metrics/text_style.h"
#include "lockstep/parallel/plan/parallel_plan.h"

namespace lockstep::metrics {

/// What will run where, the batch, memory a rank by category (largest first), and the expected
/// step; wrapped at `width` columns.
[[nodiscard]] std::string plan_text(const parallel::ParallelPlan& plan, const std::string& title,
                                    std::size_t width, const TextStyle& style);

}  // namespace lockstep::metrics
