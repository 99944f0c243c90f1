#include "lockstep/worker/stop_observer.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <string>

namespace lockstep::worker {
namespace {

struct LastWords {
  std::string text;
  int exit_code = 0;
};

volatile sig_atomic_t stop_requested = 0;
std::atomic<const LastWords*> last_words{nullptr};

void remember(int /*signal*/) { stop_requested = 1; }

/// Takes no lock and no memory: the process may be anywhere.
void leave(int /*signal*/) {
  const LastWords* words = last_words.load();
  [[maybe_unused]] const auto written =
      ::write(STDERR_FILENO, words->text.data(), words->text.size());
  ::_exit(words->exit_code);
}

void handle_stop(void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = static_cast<int>(SA_RESTART | SA_RESETHAND);
  ::sigaction(SIGTERM, &action, nullptr);
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGUSR1, &action, nullptr);  // Slurm, before the time of a job is up
}

}  // namespace

void leave_on_stop(const Problem& words, Exit exit, bool json) {
  const std::vector<Problem> problems{words};
  // Never freed: a handler may be reading those of before.
  last_words = new LastWords{json ? to_json_text(problems) + "\n" : to_text(problems),
                             static_cast<int>(exit)};
  handle_stop(leave);
}

StopObserver::StopObserver() { handle_stop(remember); }

engine::Answer StopObserver::on_step(const engine::StepReport& /*report*/,
                                     const engine::TrainState& /*state*/) {
  return stops_now() ? engine::Answer::stop : engine::Answer::go_on;
}

bool StopObserver::stops_now() const { return stop_requested != 0; }

}  // namespace lockstep::worker
