// Waits until somebody listens at an endpoint.
#pragma once
#include <chrono>

#include "lockstep/base/socket.h"
#include "lockstep/rendezvous/endpoint.h"

namespace lockstep::rendezvous {

struct ReachTimes {
  std::chrono::milliseconds join{600'000};    // while it is refused: who listens may start later
  std::chrono::milliseconds hopeless{8'000};  // while nothing answers, or there is no way
};

/// \returns false when `stop_fd` became readable first. \throws EnvironmentFault saying why not.
[[nodiscard]] bool reach(const Endpoint& endpoint, const ReachTimes& times,
                         const OnWaiting& on_waiting, int stop_fd);

}  // namespace lockstep::rendezvous
