// Copies into memory that another core reads next, in the way that is cheaper at the moment.
#pragma once
#include <cstddef>
#include <cstdint>

namespace lockstep::comm::shm {

/// Cores that share a cache pass lines on quickly: plain stores are fastest, for the reader too.
/// Between cores that do not (or while a hypervisor has placed them so), a plain store first
/// fetches a line that the reader's cache holds and costs 3 to 14 times as much as one that goes to
/// memory. Which of the two holds changes while a program runs, so the writer measures its copies.
class RingWriter {
 public:
  /// What is copied is ordered before whatever the caller publishes next.
  void copy(void* out, const void* in, std::size_t bytes);

  /// Plain stores are in use: the reader is near.
  [[nodiscard]] bool near() const { return near_; }

  /// Notes what a copy cost and decides on the next ones; ns a KiB.
  void note(bool cached, double cost);
  /// Whether the next copy goes past the caches.
  [[nodiscard]] bool streams_next() const;

 private:
  void switch_to(bool near);

  bool near_ = true;
  std::uint32_t copies_ = 0;  // since the last switch
  double cached_cost_ = 0;    // smoothed; 0 = not known yet
  double streamed_cost_ = 0;
};

}  // namespace lockstep::comm::shm
