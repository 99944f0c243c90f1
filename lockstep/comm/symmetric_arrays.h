// The symmetric memory of a group whose ranks share a host, as tensors.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "lockstep/comm/group.h"
#include "lockstep/comm/shm/symmetric_memory.h"

namespace lockstep::comm {

/// Thread-safe, but arrays are made in one order on all ranks.
class SymmetricArrays {
 public:
  /// A zeroed tensor [count] on each rank, in memory that all of them reach. Collective, in the
  /// order of the group's collectives. Where /dev/shm has no room, plain memory on every rank.
  [[nodiscard]] at::Tensor zeros(Group& group, std::int64_t count, at::ScalarType dtype);

  struct Found {
    std::shared_ptr<const shm::SymmetricMemory> memory;  // null = the bytes lie elsewhere
    std::uint64_t number = 0;                            // the same on all ranks; 0 = none
  };
  /// Which of the arrays holds these bytes of this rank.
  [[nodiscard]] Found find(const void* data, std::size_t bytes) const;

 private:
  struct Entry {
    std::weak_ptr<const shm::SymmetricMemory> memory;  // its tensors keep it
    std::uint64_t number = 0;
  };

  mutable std::mutex mutex_;
  std::vector<Entry> entries_;
  std::uint64_t made_ = 0;
};

}  // namespace lockstep::comm
