// The memory of other ranks, read where it lies: one copy and no room in the segment.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>

#include "lockstep/comm/shm/segment.h"

namespace lockstep::comm::shm {

/// By process_vm_readv(2), where the kernel allows it: not under Yama's ptrace_scope 1, nor to a
/// process that is not dumpable. Other ranks may try to read this object's memory while it lives.
class PeerMemory {
 public:
  explicit PeerMemory(const Segment& segment);
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;

  /// Whether this rank reads the memory of every other one; found out at the first call.
  /// \pre all ranks have made theirs.
  [[nodiscard]] bool is_readable();
  /// False when not all bytes came: the other rank ended, or its memory is of a kind that is not
  /// read.
  [[nodiscard]] bool read(int from, std::uint64_t address, void* to, std::size_t bytes) const;
  /// Whether another rank's buffers have been its own until now: else what was read is no use.
  [[nodiscard]] bool still_holds(int rank) const;
  /// After a read that failed: is_readable() is false from now on.
  void give_up() { readable_ = false; }

 private:
  [[nodiscard]] bool proves(int rank) const;

  const Segment& segment_;
  const std::uint64_t proof_;
  std::optional<bool> readable_;
};

}  // namespace lockstep::comm::shm
