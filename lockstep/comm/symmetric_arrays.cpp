#include "lockstep/comm/symmetric_arrays.h"

#include <ATen/Functions.h>
#include <ATen/ops/from_blob.h>

#include <iostream>
#include <optional>
#include <string>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/comm/records/disagreement.h"
#include "lockstep/comm/records/purpose.h"
#include "lockstep/memory/category.h"

namespace lockstep::comm {
namespace {

using shm::SymmetricMemory;

/// \throws Disagreement where the ranks ask for arrays of several sizes.
bool all_are_ready(Group& group, bool is_ready, std::int64_t bytes) {
  at::Tensor least = at::empty({3}, at::kLong);
  auto* values = least.data_ptr<std::int64_t>();
  values[0] = is_ready ? 1 : 0;
  values[1] = bytes;
  values[2] = -bytes;
  group.all_reduce(least, ReduceOp::min)->wait();
  if (values[1] != -values[2]) {
    throw Disagreement("some rank asks for " + std::to_string(values[1]) +
                       " bytes of symmetric memory, another for " + std::to_string(-values[2]) +
                       "; rank " + std::to_string(group.rank()) + " for " + std::to_string(bytes));
  }
  return values[0] == 1;
}

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
  if (!all_are_ready(group, memory.has_value(), static_cast<std::int64_t>(bytes))) {
    return std::nullopt;
  }
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
  const std::lock_guard lock(mutex_);
  std::erase_if(entries_, [](const Entry& entry) { return entry.memory.expired(); });
  entries_.push_back({memory, ++made_});
  return at::from_blob(
      memory->array(group.rank()), {count}, [owned](void*) {}, at::TensorOptions().dtype(dtype));
}

SymmetricArrays::Found SymmetricArrays::find(const void* data, std::size_t bytes) const {
  const std::lock_guard lock(mutex_);
  for (const Entry& entry : entries_) {
    auto memory = entry.memory.lock();
    if (memory && memory->holds(data, bytes)) return {std::move(memory), entry.number};
  }
  return {};
}

}  // namespace lockstep::comm
