// The phases of a step as a table, in the order they run.
#pragma once
#include <algorithm>
#include <array>

#include "lockstep/engine/values/step_report.h"

namespace lockstep::engine {

struct PhaseRow {
  const char* name;  // for people: "exposed sync"
  const char* key;   // in JSON: "sync_s"
  double PhaseTimes::*seconds;
};

inline constexpr auto kPhaseRows = std::to_array<PhaseRow>({
    {"data", "data_s", &PhaseTimes::data_s},
    {"forward", "forward_s", &PhaseTimes::forward_s},
    {"backward", "backward_s", &PhaseTimes::backward_s},
    {"exposed sync", "sync_s", &PhaseTimes::sync_s},
    {"optimizer", "optimizer_s", &PhaseTimes::optimizer_s},
});

/// Seconds of a step in no phase: logging, observers, checkpoints.
[[nodiscard]] inline double other_s(const PhaseTimes& times) {
  double rest_s = times.step_s;
  for (const PhaseRow& row : kPhaseRows) rest_s -= times.*row.seconds;
  return std::max(0.0, rest_s);
}

}  // namespace lockstep::engine
