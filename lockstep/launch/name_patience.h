// A name that is not known yet: a pod's comes when it starts.
#pragma once
#include <chrono>
#include <functional>
#include <string>

#include "lockstep/base/socket.h"

namespace lockstep::launch {

struct NamePatience {
  std::chrono::milliseconds limit{8'000};  // as of an address where nothing answers
  std::chrono::milliseconds pause{250};    // between two looks
  std::chrono::milliseconds tell_every{5'000};
};

/// What `look` returns; it is asked again while it throws an EnvironmentFault.
/// \throws EnvironmentFault of the last look, at the limit.
[[nodiscard]] std::string when_known(const std::function<std::string()>& look,
                                     const NamePatience& patience, const OnWaiting& on_waiting);

}  // namespace lockstep::launch
