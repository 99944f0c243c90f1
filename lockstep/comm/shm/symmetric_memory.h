// Symmetric memory: one array for each rank of a group, all of one size, that every rank of the
// group reads and writes. What lives in it is reduced where it lies.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "lockstep/comm/shm/layout.h"
#include "lockstep/comm/shm/shared_memory.h"

namespace lockstep::comm::shm {

class SymmetricMemory {
 public:
  /// Room for `ranks` arrays of `bytes`, without pages yet: each rank reserves those of its own.
  /// \throws EnvironmentFault (LS-4010).
  [[nodiscard]] static SymmetricMemory create(int rank, int ranks, std::size_t bytes);
  /// What another rank made. \throws EnvironmentFault, PeerLost (LS-4011).
  [[nodiscard]] static SymmetricMemory open(const std::string& locator, int rank, int ranks,
                                            std::size_t bytes);

  /// Takes the pages of this rank's array, zeroed, on the memory node that this thread runs on.
  /// \returns false when /dev/shm has no room for them.
  [[nodiscard]] bool reserve() const;

  [[nodiscard]] std::string locator() const { return memory_.locator(); }
  void close_door() { memory_.close_door(); }

  [[nodiscard]] std::byte* array(int rank) const {
    return memory_.data() + static_cast<std::size_t>(rank) * stride_;
  }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }  // of one array
  /// Whether these bytes lie in this rank's own array.
  [[nodiscard]] bool holds(const void* data, std::size_t bytes) const;
  [[nodiscard]] std::size_t offset_of(const void* data) const;  // \pre holds()

 private:
  SymmetricMemory(SharedMemory memory, int rank, std::size_t bytes);

  SharedMemory memory_;
  int rank_;
  std::size_t bytes_;
  std::size_t stride_;
};

/// Where the buffer of an all_reduce lies, as a rank tells the others in its slot.
struct SymmetricPlace {
  std::uint64_t number = 0;  // of the memory; 0 = elsewhere
  std::uint64_t offset = 0;  // bytes, in the rank's own array
};
void write_place(Slot& slot, const SymmetricPlace& place);
[[nodiscard]] SymmetricPlace read_place(const Slot& slot);

}  // namespace lockstep::comm::shm
