#include "lockstep/comm/symmetric_arrays.h"

#include <ATen/Functions.h>
#include <ATen/ops/from_blob.h>

#include <iostream>
#include <optional>
#include <string>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/comm/records/purpose.h"
#include "lockstep/memory/category.h"

namespace lockstep::comm {
namespace {

using shm::SymmetricMemory;

constexpr std::uint64_t kNumbers = 63;  // of arrays, as a fingerprint tells them apart

/// Rank 0 makes the memory and tells the others where it is. nullopt where that is not possible on
/// some rank, with the reason on this one.
std::optional<SymmetricMemory> open_memory(Group& group, std::size_t bytes, std::string& reason) {
  std::optional<SymmetricMemory> memory;
  try {
    if (group.rank() == 0) memory = SymmetricMemory::create(0, group.size(), bytes);
  } catch (const EnvironmentFault& fault) {
    reason = fault.problems().front().what;
  }
  const std::string locator = broadcast_text(group, memory ? memory->locator() : "");
  try {
    if (!memory && !locator.empty()) {
      memory = SymmetricMemory::open(locator, group.rank(), group.size(), bytes);
    }
    if (memory && !memory->reserve()) {
      reason = "/dev/shm has no room for " + std::to_string(bytes) + " bytes a rank";
      memory.reset();
    }
  } catch (const EnvironmentFault& fault) {
    reason = fault.problems().front().what;
  }
  at::Tensor ready = at::full({1}, memory ? 1 : 0, at::kInt);
  group.all_reduce(ready, ReduceOp::min)->wait();
  if (ready.item<int>() == 0) return std::nullopt;
  memory->close_door();
  return memory;
}

}  // namespace

at::Tensor SymmetricArrays::zeros(Group& group, std::int64_t count, at::ScalarType dtype) {
  const Purpose purpose("symmetric memory");
  const std::size_t bytes = static_cast<std::size_t>(count) * c10::elementSize(dtype);
  std::string reason;
  std::optional<SymmetricMemory> opened = open_memory(group, bytes, reason);
  if (!opened) {
    if (!reason.empty()) {
      std::cerr << "lockstep: rank " + std::to_string(group.rank()) + ": " + reason +
                       "; what should lie there is copied through the group's own memory\n"
                << std::flush;
    }
    return at::zeros({count}, at::TensorOptions().dtype(dtype));
  }
  struct Owned {
    Owned(SymmetricMemory given, std::size_t size)
        : memory(std::move(given)),
          held(memory::category_of_thread(), static_cast<std::int64_t>(size)) {}
    SymmetricMemory memory;
    memory::Held held;
  };
  auto owned = std::make_shared<Owned>(std::move(*opened), bytes);
  const std::shared_ptr<const SymmetricMemory> memory(owned, &owned->memory);
  std::erase_if(entries_, [](const Entry& entry) { return entry.memory.expired(); });
  entries_.push_back({memory, static_cast<std::uint8_t>(made_++ % kNumbers + 1)});
  return at::from_blob(
      memory->array(group.rank()), {count}, [owned](void*) {}, at::TensorOptions().dtype(dtype));
}

SymmetricArrays::Found SymmetricArrays::find(const void* data, std::size_t bytes) const {
  for (const Entry& entry : entries_) {
    auto memory = entry.memory.lock();
    if (memory && memory->holds(data, bytes)) return {std::move(memory), entry.number};
  }
  return {};
}

}  // namespace lockstep::comm
