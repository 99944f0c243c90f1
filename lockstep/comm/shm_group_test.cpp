// What only shared memory promises: who ended, who disagrees, and that nobody is kept waiting.
#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/comm/group.h"
#include "lockstep/comm/records/disagreement.h"
#include "tests/support/rank_processes.h"

namespace lockstep::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::HasSubstr;

template <class Fault>
Problem problem_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Fault& fault) {
    return fault.problems().front();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

TEST(ShmGroup, IsWhatRanksOfOneHostGet) {
  test::run_ranks(2, [](Group& group) { EXPECT_EQ(group.backend(), "shm"); });
}

/// A test of the last collective of a group: run_ranks ends with a barrier, so the group under test
/// is one beside it.
void on_own_group(int size, const std::function<void(Group&)>& body) {
  test::run_ranks(
      size,
      [&](Group& outer) {
        GroupOptions options;
        options.rank = outer.rank();
        options.size = outer.size();
        options.store_port = std::stoi(std::getenv("LOCKSTEP_TEST_PORT"));
        options.name = "own";
        options.deadline = std::chrono::seconds(20);
        const auto group = make_shm_group(options);
        body(*group);
      },
      Backend::gloo);
}

TEST(ShmGroup, OtherDtypesAreRefusedOnEveryRankAndNoValueIsReturned) {
  on_own_group(2, [](Group& group) {
    auto tensor = group.rank() == 0 ? at::ones({4}, at::kFloat) : at::ones({4}, at::kInt);
    const auto start = steady_clock::now();
    const auto problem =
        problem_of<Disagreement>([&] { group.all_reduce(tensor, ReduceOp::sum)->wait(); });
    EXPECT_LT(steady_clock::now() - start, std::chrono::seconds(5));
    EXPECT_EQ(problem.code, "LS-4013");
    EXPECT_THAT(problem.what, HasSubstr("rank 0 entered all_reduce (sum) of 4 float32"));
    EXPECT_THAT(problem.what, HasSubstr("rank 1 entered all_reduce (sum) of 4 int32"));
    EXPECT_TRUE(at::equal(tensor, at::ones_like(tensor)));
    EXPECT_THROW((void)group.all_reduce(tensor, ReduceOp::sum), Error);
  });
}

TEST(ShmGroup, EightRanksWithTwoMissingElementsAreRefusedAsNcclIssue1417ShouldHaveBeen) {
  on_own_group(8, [](Group& group) {
    auto tensor = at::ones({group.rank() == 5 ? 409598 : 409600});
    const auto problem =
        problem_of<Disagreement>([&] { group.all_reduce(tensor, ReduceOp::sum)->wait(); });
    EXPECT_THAT(problem.what, HasSubstr("409600"));
    EXPECT_THAT(problem.what, HasSubstr("409598"));
  });
}

TEST(ShmGroup, AnotherOrderOfCollectivesIsRefused) {
  on_own_group(2, [](Group& group) {
    auto small = at::ones({4});
    auto large = at::ones({100'000});
    EXPECT_THROW(
        {
          auto first = group.all_reduce(group.rank() == 0 ? small : large, ReduceOp::sum);
          auto second = group.all_reduce(group.rank() == 0 ? large : small, ReduceOp::sum);
          first->wait();
          second->wait();
        },
        Disagreement);
  });
}

TEST(ShmGroup, ARankThatLeavesIsNamedByThoseWhoStillNeedIt) {
  on_own_group(3, [](Group& group) {
    group.barrier();
    if (group.rank() == 2) return;
    auto tensor = at::ones({50'000});
    const auto start = steady_clock::now();
    const auto problem =
        problem_of<PeerLost>([&] { group.all_reduce(tensor, ReduceOp::sum)->wait(); });
    EXPECT_THAT(problem.what, HasSubstr("rank 2 has left the group"));
    EXPECT_LT(steady_clock::now() - start, std::chrono::seconds(10));
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
        options.deadline = milliseconds(200);
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
