// Ranks as threads over one piece of memory, for tests of what is torch-free.
#pragma once
#include <exception>
#include <functional>
#include <new>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/comm/shm/engine.h"

namespace lockstep::comm::shm::testing {

inline constexpr std::size_t kSmallPiece = 4096;  // many steps for little data

/// Memory of a group, ready for its ranks to attach.
class ThreadMemory {
 public:
  explicit ThreadMemory(const Layout& layout)
      : bytes_(layout.total_bytes()),
        data_(static_cast<std::byte*>(::operator new(bytes_, kAlignment))) {
    Segment::format(bytes(), layout);
  }
  ThreadMemory(const ThreadMemory&) = delete;
  ThreadMemory& operator=(const ThreadMemory&) = delete;
  ~ThreadMemory() { ::operator delete(data_, kAlignment); }

  [[nodiscard]] std::span<std::byte> bytes() const { return {data_, bytes_}; }

 private:
  static constexpr auto kAlignment = std::align_val_t(kPage);  // as a mapping is

  std::size_t bytes_;
  std::byte* data_;
};

/// Rings as small as may be: the end of them comes after a few steps.
inline Layout small_layout(int ranks) {
  return {ranks, kSmallPiece * static_cast<std::size_t>(ranks < 3 ? 8 : 4 * ranks), kSmallPiece};
}

/// Runs body(engine, segment) on `ranks` threads; returns what each threw ("" = nothing). A rank
/// that throws ends the group, so that no other waits for it.
inline std::vector<std::string> run_ranks(
    int ranks, const std::function<void(Engine&, const Segment&)>& body) {
  const ThreadMemory memory(small_layout(ranks));
  std::vector<std::string> errors(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      const Segment segment(memory.bytes(), r, ranks);
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
  return errors;
}

}  // namespace lockstep::comm::shm::testing
