// The shm backend beside upstream's Gloo on the same ranks.
#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <vector>

#include "lockstep/comm/gloo_mesh.h"
#include "tests/support/shm_backends.h"

namespace lockstep::comm {
namespace {

using namespace std::chrono_literals;
using c10d::Backend;
using test::join_shm;
using test::open_store;
using test::TensorLists;
using test::Tensors;
using test::values_of;
using Ops = c10d::ReduceOp;

Tensors random_all_to_all(Backend& backend, const at::Tensor& mine, unsigned seed) {
  const int me = backend.getRank();
  const int n = backend.getSize();
  std::vector<std::int64_t> sent;
  std::vector<std::int64_t> received;
  if (seed % 2 == 0) {
    auto input = at::cat(Tensors(static_cast<std::size_t>(n), mine));
    auto output = at::zeros_like(input);
    backend.alltoall_base(output, input, received, sent, {})->wait();
    return {output};
  }
  const auto rows = [&](int from, int to) {
    return (from * 13 + to * 5 + static_cast<int>(seed % 50)) % 70;
  };
  std::int64_t all_sent = 0;
  std::int64_t all_received = 0;
  for (int r = 0; r < n; ++r) {
    sent.push_back(rows(me, r));
    received.push_back(rows(r, me));
    all_sent += sent.back();
    all_received += received.back();
  }
  auto input = values_of(me, all_sent * 4, mine.scalar_type()).view({-1, 4});
  auto output = at::zeros({all_received, 4}, mine.scalar_type());
  backend.alltoall_base(output, input, received, sent, {})->wait();
  return {output};
}

/// One call with random arguments, the same for any backend; returns all that came out.
Tensors random_call(Backend& backend, unsigned seed) {
  std::mt19937 random(seed);
  const int me = backend.getRank();
  const int n = backend.getSize();
  const std::int64_t count = random() % 3 == 0 ? 1 + random() % 40'000 : 1 + random() % 60;
  const auto dtype = std::vector{at::kFloat, at::kDouble, at::kLong, at::kInt}[random() % 4];
  const int root = static_cast<int>(random() % static_cast<unsigned>(n));
  const auto op = Ops(std::vector{Ops::SUM, Ops::MIN, Ops::MAX}[random() % 3]);
  const auto mine = values_of(me, count, dtype, seed);
  const auto all = [&] {
    Tensors parts;
    for (int r = 0; r < n; ++r) parts.push_back(at::zeros({count}, dtype));
    return parts;
  };
  Tensors one{mine};
  switch (random() % 8) {
    case 0: {
      c10d::AllreduceOptions options;
      options.reduceOp = op;
      backend.allreduce(one, options)->wait();
      return one;
    }
    case 1: {
      c10d::BroadcastOptions options;
      options.rootRank = root;
      backend.broadcast(one, options)->wait();
      return one;
    }
    case 2: {
      c10d::ReduceOptions options;
      options.reduceOp = op;
      options.rootRank = root;
      backend.reduce(one, options)->wait();
      return me == root ? one : Tensors{};
    }
    case 3: {
      TensorLists gathered{all()};
      backend.allgather(gathered, one, {})->wait();
      return gathered.front();
    }
    case 4: {
      c10d::GatherOptions options;
      options.rootRank = root;
      TensorLists gathered;
      if (me == root) gathered.push_back(all());
      backend.gather(gathered, one, options)->wait();
      return me == root ? gathered.front() : Tensors{};
    }
    case 5: {
      c10d::ScatterOptions options;
      options.rootRank = root;
      TensorLists parts;
      if (me == root) {
        parts.emplace_back();
        for (int r = 0; r < n; ++r) parts.front().push_back(values_of(r, count, dtype, seed));
      }
      Tensors out{at::zeros({count}, dtype)};
      backend.scatter(out, parts, options)->wait();
      return out;
    }
    default:
      return random_all_to_all(backend, mine, seed);
  }
}

TEST(ShmBackend, TwoHundredRandomCallsGiveWhatGlooGives) {
  test::run_ranks(3, [](Group& group) {
    const auto shm = join_shm(group.rank(), group.size(), "g");
    GroupOptions options;
    options.rank = group.rank();
    options.size = group.size();
    options.deadline = 30s;
    const auto gloo = connect_gloo(open_store(), options, "reference", "127.0.0.1");
    for (unsigned seed = 1; seed <= 200; ++seed) {
      const Tensors got = random_call(*shm, seed);
      const Tensors expected = random_call(*gloo, seed);
      ASSERT_EQ(got.size(), expected.size()) << seed;
      for (std::size_t i = 0; i < got.size(); ++i) {
        ASSERT_TRUE(at::equal(got[i], expected[i])) << "call " << seed << ", tensor " << i;
      }
    }
  });
}

}  // namespace
}  // namespace lockstep::comm
