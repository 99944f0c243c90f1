// Ranks as threads over one piece of memory, for tests of what is torch-free.
#pragma once
#include <algorithm>
#include <exception>
#include <functional>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/comm/shm/engine.h"

namespace lockstep::comm::shm::testing {

inline constexpr std::size_t kSmallPiece = 4096;  // many steps for little data

/// Runs body(engine, segment) on `ranks` threads; returns what each threw ("" = nothing). A rank
/// that throws ends the group, so that no other waits for it.
inline std::vector<std::string> run_ranks(
    int ranks, const std::function<void(Engine&, const Segment&)>& body) {
  const std::size_t ring_bytes = kSmallPiece * static_cast<std::size_t>(ranks < 3 ? 8 : 4 * ranks);
  const Layout layout(ranks, ring_bytes, kSmallPiece);
  // Page-aligned as a mapping is.
  const std::size_t bytes = layout.total_bytes();
  auto* const memory = static_cast<std::byte*>(::operator new(bytes, std::align_val_t(kPage)));
  std::fill(memory, memory + bytes, std::byte{});
  Segment::format({memory, bytes}, layout);
  std::vector<std::string> errors(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      const Segment segment({memory, bytes}, r, ranks);
      Engine engine(segment, {.crowded = true, .name = "test"});
      try {
        body(engine, segment);
      } catch (const std::exception& error) {
        errors[static_cast<std::size_t>(r)] = error.what();
        segment.abort("rank " + std::to_string(r) + " failed");
      }
    });
  }
  for (auto& thread : threads) thread.join();
  ::operator delete(memory, std::align_val_t(kPage));
  return errors;
}

}  // namespace lockstep::comm::shm::testing
