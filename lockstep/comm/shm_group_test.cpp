// What only shared memory promises.
#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <csignal>
#include <cstdlib>

#include "lockstep/base/error.h"
#include "lockstep/comm/group.h"
#include "lockstep/comm/records/disagreement.h"
#include "tests/support/problem_of.h"
#include "tests/support/rank_processes.h"

namespace lockstep::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using test::problem_of;
using testing::HasSubstr;

TEST(ShmGroup, IsWhatRanksOfOneHostGet) {
  test::run_ranks(2, [](Group& group) { EXPECT_EQ(group.backend(), "shm"); });
}

TEST(ShmGroup, WhatNobodyKeepsIsReducedAllTheSameAndItsMemoryStaysTaken) {
  test::run_ranks(2, [](Group& group) {
    constexpr std::int64_t kCount = std::int64_t{1} << 20;  // 4 MiB: in steps, by another thread
    for (int i = 0; i < 10; ++i) {
      (void)group.all_reduce(at::full({kCount}, 1.0F), ReduceOp::sum);
      const auto other = at::full({kCount}, 7.0F);  // in that memory, if it were free
      auto next = at::full({kCount}, group.rank() + static_cast<float>(i));
      group.all_reduce(next, ReduceOp::sum)->wait();
      EXPECT_TRUE(at::equal(next, at::full({kCount}, 2.0F * static_cast<float>(i) + 1)));
      EXPECT_TRUE(at::equal(other, at::full({kCount}, 7.0F)));
    }
    (void)group.all_reduce(at::full({kCount}, 1.0F), ReduceOp::sum);  // in flight at the end
  });
}

/// Sums of 1 + rank, in symmetric memory and beside it.
void expect_symmetric_sums(Group& group) {
  const std::int64_t count = 100'000;
  const at::Tensor array = group.symmetric_zeros(count, at::kFloat);
  EXPECT_EQ(at::count_nonzero(array).item<std::int64_t>(), 0);
  const float all = static_cast<float>(group.size() * (group.size() + 1)) / 2;
  for (int round = 0; round < 5; ++round) {
    array.fill_(1.0F + static_cast<float>(group.rank()));
    auto first = group.all_reduce(array.narrow(0, 0, 40'000), ReduceOp::sum);
    auto small = group.all_reduce(array.narrow(0, 40'000, 7), ReduceOp::sum);
    auto second = group.all_reduce(array.narrow(0, 40'007, count - 40'007), ReduceOp::sum);
    first->wait();
    small->wait();
    second->wait();
    EXPECT_TRUE(at::all(array == all).item<bool>());
  }
}

TEST(ShmGroup, SumsSymmetricMemoryWhereItLies) {
  for (const int ranks : {1, 2, 4}) test::run_ranks(ranks, expect_symmetric_sums);
}

TEST(ShmGroup, SymmetricMemoryOutlivesItsTensorsWhileACollectiveUsesIt) {
  test::run_ranks(2, [](Group& group) {
    for (int i = 0; i < 70; ++i) {  // more than there are numbers for
      auto array = group.symmetric_zeros(50'000, at::kFloat);
      array.fill_(1);
      auto work = group.all_reduce(array, ReduceOp::sum);
      if (i % 2 == 0) array.reset();
      work->wait();
      EXPECT_TRUE(!array.defined() || at::all(array == 2).item<bool>());
    }
  });
}

TEST(ShmGroup, WhereThereIsNoRoomSymmetricMemoryIsPlainMemory) {
  test::run_ranks(2, [](Group& group) {
    if (group.rank() == 0) {  // it cannot make the memory
      std::signal(SIGXFSZ, SIG_IGN);
      const rlimit files{4096, 4096};
      ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &files), 0);
    }
    expect_symmetric_sums(group);
  });
}

TEST(ShmGroup, SymmetricMemoryHasOneSizeOnAllRanks) {
  test::run_ranks(2, [](Group& group) {
    EXPECT_THAT(problem_of<Disagreement>([&] {
                  (void)group.symmetric_zeros(1000 + group.rank(), at::kFloat);
                }).what,
                HasSubstr("some rank asks for 4000 bytes of symmetric memory, another for 4004"));
  });
}

TEST(ShmGroup, ADeadlineNamesWhoHasNotEntered) {
  test::run_ranks(
      2,
      [](Group& outer) {
        GroupOptions options;
        options.rank = outer.rank();
        options.size = outer.size();
        options.store_port = std::stoi(std::getenv("LOCKSTEP_TEST_PORT"));
        options.name = "own";
        options.deadline = milliseconds(1000);
        const auto group = make_shm_group(options);
        if (options.rank == 0) {
          auto tensor = at::ones({8});
          const auto problem =
              problem_of<PeerLost>([&] { group->all_reduce(tensor, ReduceOp::sum)->wait(); });
          EXPECT_THAT(problem.what, HasSubstr("all_reduce #1: rank 1 has not entered it"));
        }
        outer.barrier();
      },
      Backend::gloo);
}

}  // namespace
}  // namespace lockstep::comm
