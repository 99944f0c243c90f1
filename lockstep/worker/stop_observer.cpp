#include "lockstep/worker/stop_observer.h"

#include <signal.h>

namespace lockstep::worker {
namespace {

volatile sig_atomic_t stop_requested = 0;

void remember(int /*signal*/) { stop_requested = 1; }

}  // namespace

StopObserver::StopObserver() {
  struct sigaction action {};
  action.sa_handler = remember;
  action.sa_flags = static_cast<int>(SA_RESTART | SA_RESETHAND);
  ::sigaction(SIGTERM, &action, nullptr);
  ::sigaction(SIGINT, &action, nullptr);
}

engine::Answer StopObserver::on_step(const engine::StepReport& /*report*/,
                                     const engine::TrainState& /*state*/) {
  return stops_now() ? engine::Answer::stop : engine::Answer::go_on;
}

bool StopObserver::stops_now() const { return stop_requested != 0; }

}  // namespace lockstep::worker
