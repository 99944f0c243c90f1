#include "lockstep/rendezvous/round_failures.h"

#include <algorithm>
#include <tuple>

namespace lockstep::rendezvous {

void sort_by_cause(std::vector<Failure>& failures) {
  std::stable_sort(failures.begin(), failures.end(), [](const Failure& one, const Failure& other) {
    return std::tuple(one.consequence, one.seconds) < std::tuple(other.consequence, other.seconds);
  });
}

std::string text_of(const Failure& failure) {
  return "rank " + std::to_string(failure.rank) + " on " + failure.host + " (pid " +
         std::to_string(failure.pid) + "): " +
         (failure.because.empty() ? "exit code " + std::to_string(failure.exit_code)
                                  : failure.because);
}

Exit exit_after(const std::optional<Failure>& first, bool ours) {
  if (!first || !ours || first->signal != 0) return Exit::failed;
  switch (const auto exit = static_cast<Exit>(first->exit_code)) {
    case Exit::usage:
    case Exit::environment:
    case Exit::bad_data:
    case Exit::peer_lost:
    case Exit::bug:
    case Exit::requeue:
      return exit;
    case Exit::ok:
    case Exit::failed:
      break;
  }
  return Exit::failed;
}

}  // namespace lockstep::rendezvous
