// SIGTERM, SIGINT and SIGUSR1 as a wish to stop soon and in order, so that state can be saved.
#pragma once
#include "lockstep/base/error.h"
#include "lockstep/engine/observer.h"

namespace lockstep::worker {

/// From now on, until a StopObserver is made, a signal ends the process at once: there is nothing
/// to save. Called again it has other last words.
/// \param words are printed on standard error, as `exit` is the exit code. \param json as JSON.
void leave_on_stop(const Problem& words, Exit exit, bool json);

/// Made when there may soon be something to save. From then on the first signal is remembered and a
/// second one ends the process. One a process.
class StopObserver : public engine::Observer {
 public:
  StopObserver();
  [[nodiscard]] engine::Answer on_step(const engine::StepReport& report,
                                       const engine::TrainState& state) override;
  [[nodiscard]] bool stops_now() const override;
};

}  // namespace lockstep::worker
