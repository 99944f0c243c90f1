// SIGTERM and SIGINT as a vote to stop at the next step edge, so that state can be saved.
#pragma once
#include "lockstep/engine/observer.h"

namespace lockstep::worker {

/// The first signal is remembered; a second one ends the process at once. One instance a process.
class StopObserver : public engine::Observer {
 public:
  StopObserver();
  [[nodiscard]] engine::Answer on_step(const engine::StepReport& report,
                                       const engine::TrainState& state) override;
};

}  // namespace lockstep::worker
