// Waiting on a word that other processes change.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>

namespace lockstep::comm::shm {

/// Sleeps while `word` is `expected`, at most `limit`; may return early.
void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected,
                std::chrono::microseconds limit);
void futex_wake(const std::atomic<std::uint32_t>& word);

}  // namespace lockstep::comm::shm
