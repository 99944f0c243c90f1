// Groups of the shm backend on ranks of a test, and values whose sums are exact.
#pragma once
#include <ATen/Functions.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <vector>

#include "lockstep/comm/shm_backend.h"
#include "lockstep/comm/store_adapter.h"
#include "tests/support/rank_processes.h"

namespace lockstep::test {

using Tensors = std::vector<at::Tensor>;
using TensorLists = std::vector<Tensors>;

/// The store of run_ranks.
inline c10::intrusive_ptr<c10d::Store> open_store() {
  return c10::make_intrusive<comm::StoreAdapter>(
      "127.0.0.1", std::atoi(std::getenv("LOCKSTEP_TEST_PORT")), std::chrono::seconds(30));
}

/// \param name of the group.
inline c10::intrusive_ptr<comm::ShmBackend> join_shm(
    int rank, int size, const std::string& name,
    std::chrono::milliseconds timeout = std::chrono::seconds(30)) {
  const auto store = open_store();
  c10d::PrefixStore prefixed("shm-backend", store);
  return c10::make_intrusive<comm::ShmBackend>(prefixed, rank, size, timeout, name);
}

/// Runs body on `size` ranks, each with its end of one group.
inline void on_ranks(int size, const std::function<void(comm::ShmBackend&)>& body) {
  run_ranks(size, [&](comm::Group& group) {
    const auto backend = join_shm(group.rank(), group.size(), "g");
    body(*backend);
  });
}

/// Integers, exact in every dtype whatever the order of adding.
inline at::Tensor values_of(int rank, std::int64_t count, at::ScalarType dtype,
                            std::int64_t salt = 0) {
  if (dtype == at::kBool) return (at::arange(count, at::kLong) + rank + salt).remainder(3) == 0;
  const auto values = (at::arange(count, at::kLong) * 7 + rank * 3 + salt).remainder(8) + 1;
  return values.to(dtype);
}

}  // namespace lockstep::test
