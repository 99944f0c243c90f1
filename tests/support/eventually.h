// Waiting for what another process or thread does.
#pragma once
#include <chrono>
#include <thread>

namespace lockstep::test {

/// True once `condition` holds, which is looked at every `pause`; gives up after a minute.
template <typename Condition>
[[nodiscard]] bool eventually(const Condition& condition,
                              std::chrono::milliseconds pause = std::chrono::milliseconds(5)) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(pause);
  }
  return true;
}

}  // namespace lockstep::test
