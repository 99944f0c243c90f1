#include "lockstep/launch/name_patience.h"

#include <algorithm>
#include <thread>

#include "lockstep/base/error.h"

namespace lockstep::launch {

std::string when_known(const std::function<std::string()>& look, const NamePatience& patience,
                       const OnWaiting& on_waiting) {
  const auto start = std::chrono::steady_clock::now();
  auto tell_at = start + patience.tell_every;
  while (true) {
    try {
      return look();
    } catch (const EnvironmentFault& fault) {
      const auto now = std::chrono::steady_clock::now();
      if (now >= start + patience.limit) throw;
      if (on_waiting && now >= tell_at) {
        tell_at = now + patience.tell_every;
        const Problem& problem = fault.problems().front();
        on_waiting(problem.where + ": " + problem.what);
      }
    }
    std::this_thread::sleep_for(patience.pause);
  }
}

}  // namespace lockstep::launch
