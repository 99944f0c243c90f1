// Connects to an endpoint once, or waits until somebody listens there.
#pragma once
#include <chrono>
#include <string>

#include "lockstep/base/fd.h"
#include "lockstep/base/socket.h"
#include "lockstep/rendezvous/endpoint.h"

namespace lockstep::rendezvous {

/// How one attempt to connect ended.
struct Tried {
  Fd connected{};
  Unreached unreached = Unreached::other;  // without a connection
  std::string text{};                      // what was met, for people
};

/// Resolves, and connects unless the deadline comes or `stop_fd` (-1 = none) is readable first.
[[nodiscard]] Tried try_to_connect(const Endpoint& endpoint, Deadline deadline, int stop_fd);

struct ReachTimes {
  std::chrono::milliseconds join{600'000};    // while it is refused: who listens may start later
  std::chrono::milliseconds hopeless{8'000};  // while nothing answers, or there is no way
};

/// \returns false when `stop_fd` became readable first. \throws EnvironmentFault saying why not.
[[nodiscard]] bool reach(const Endpoint& endpoint, const ReachTimes& times,
                         const OnWaiting& on_waiting, int stop_fd);

}  // namespace lockstep::rendezvous
