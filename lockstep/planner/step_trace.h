// A simulated step in Chrome's trace format (chrome://tracing, ui.perfetto.dev).
#pragma once
#include <cstdint>
#include <string>

#include "lockstep/planner/step_events.h"

namespace lockstep::planner {

/// A process for each stage and a thread for each of its lanes, all of them named; times in
/// microseconds. \param devices_per_stage that do the same, named too.
[[nodiscard]] std::string chrome_trace(const StepEvents& step, std::int64_t devices_per_stage);

}  // namespace lockstep::planner
