// SIGTERM and SIGINT as a wish to stop soon and in order, so that state can be saved.
#pragma once
#include "lockstep/engine/observer.h"

namespace lockstep::worker {

/// Made when training begins: before, there is nothing to save, and a signal ends the process at
/// once. From then on the first one is remembered and a second one ends it. One a process.
class StopObserver : public engine::Observer {
 public:
  StopObserver();
  [[nodiscard]] engine::Answer on_step(const engine::StepReport& report,
                                       const engine::TrainState& state) override;
  [[nodiscard]] bool stops_now() const override;
};

}  // namespace lockstep::worker
