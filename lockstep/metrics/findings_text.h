// What a run found out about its ranks and gradients, in a sentence each.
#pragma once
#include <cstddef>
#include <string>

#include "lockstep/engine/values/step_report.h"
#include "lockstep/engine/values/straggler.h"

namespace lockstep::metrics {

/// "rank 1 (host node7) computes 23 % longer than the others, mostly in backward: the others wait
/// 9.1 ms a step for it". \param ranks of the run. \param host empty = not said.
[[nodiscard]] std::string straggler_text(const engine::Straggler& straggler, std::size_t ranks,
                                         const std::string& host);

/// "worst relative difference 3.1e-07 (layers.2.weight) to the undivided batch on rank 0".
[[nodiscard]] std::string gradient_check_text(const engine::GradientCheckReport& check);

}  // namespace lockstep::metrics
