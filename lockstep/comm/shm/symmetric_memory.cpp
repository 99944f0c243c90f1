#include "lockstep/comm/shm/symmetric_memory.h"

#include <cstdint>
#include <cstring>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::comm::shm {
namespace {

std::size_t stride_of(std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

}  // namespace

SymmetricMemory::SymmetricMemory(SharedMemory memory, int rank, std::size_t bytes)
    : memory_(std::move(memory)), rank_(rank), bytes_(bytes), stride_(stride_of(bytes)) {}

SymmetricMemory SymmetricMemory::create(int rank, int ranks, std::size_t bytes) {
  const std::size_t total = static_cast<std::size_t>(ranks) * stride_of(bytes);
  return {SharedMemory::create(total, SharedMemory::Pages::later), rank, bytes};
}

SymmetricMemory SymmetricMemory::open(const std::string& locator, int rank, int ranks,
                                      std::size_t bytes) {
  SharedMemory memory = SharedMemory::open(locator, SharedMemory::Pages::later);
  const std::size_t total = static_cast<std::size_t>(ranks) * stride_of(bytes);
  if (memory.bytes() != total) {
    throw EnvironmentFault({"LS-4011", locator,
                            "the symmetric memory of another rank has " +
                                std::to_string(memory.bytes()) + " bytes, expected " +
                                std::to_string(total),
                            "give the same model and batch to every rank"});
  }
  return {std::move(memory), rank, bytes};
}

bool SymmetricMemory::reserve() const {
  return memory_.reserve(static_cast<std::size_t>(rank_) * stride_, stride_);
}

bool SymmetricMemory::holds(const void* data, std::size_t bytes) const {
  // As numbers: `data` may point anywhere.
  const auto begin = reinterpret_cast<std::uintptr_t>(array(rank_));
  const auto at = reinterpret_cast<std::uintptr_t>(data);
  return at >= begin && at - begin <= bytes_ && bytes <= bytes_ - (at - begin);
}

std::size_t SymmetricMemory::offset_of(const void* data) const {
  return static_cast<std::size_t>(static_cast<const std::byte*>(data) - array(rank_));
}

void write_place(Slot& slot, const SymmetricPlace& place) {
  static_assert(sizeof place <= kInlineBytes);
  std::memcpy(slot.payload, &place, sizeof place);
}

SymmetricPlace read_place(const Slot& slot) {
  SymmetricPlace place;
  std::memcpy(&place, slot.payload, sizeof place);
  return place;
}

}  // namespace lockstep::comm::shm
