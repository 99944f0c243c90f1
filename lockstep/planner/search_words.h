// What a search says about layouts.
#pragma once
#include <cstdint>
#include <string>

#include "lockstep/planner/search.h"

namespace lockstep::planner {

/// As `lockstep plan` takes it: "--data 16 --tensor 8 ...".
[[nodiscard]] std::string flags_of(const parallel::Layout& layout);

/// "does not fit: 93.0 GB of 80.0 GB, most of it activations (58.2 GB)".
[[nodiscard]] std::string does_not_fit(const parallel::MemoryPlan& memory, std::int64_t device);

/// "14.2 s a step against 13.5 s, 5.2 % more: waiting for other stages takes 0.4 s more".
[[nodiscard]] std::string slower_than(const parallel::TimePrediction& best,
                                      const parallel::TimePrediction& time);

/// "computes 78.2 % of a step, then most goes to ...; 61.0 GB of 80.0 GB".
[[nodiscard]] std::string good_because(const RankedLayout& ranked, std::int64_t device);

}  // namespace lockstep::planner
