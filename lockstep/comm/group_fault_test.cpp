// Groups that end badly, on every backend: who disagrees and who left is named on every rank, and
// nobody is handed a value or kept waiting.
#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/comm/group.h"
#include "lockstep/comm/records/disagreement.h"
#include "lockstep/comm/records/purpose.h"
#include "tests/support/rank_processes.h"

namespace lockstep::comm {
namespace {

using std::chrono::steady_clock;
using testing::ContainsRegex;
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

class FaultsOfEveryBackend : public testing::TestWithParam<Backend> {};
INSTANTIATE_TEST_SUITE_P(Groups, FaultsOfEveryBackend, testing::Values(Backend::gloo, Backend::shm),
                         [](const auto& info) {
                           return std::string(info.param == Backend::shm ? "shm" : "gloo");
                         });

/// A test of the last collective of a group: run_ranks ends with a barrier, so the group under test
/// is one beside it.
void on_own_group(int size, Backend backend, const std::function<void(Group&)>& body) {
  test::run_ranks(
      size,
      [&](Group& outer) {
        GroupOptions options;
        options.rank = outer.rank();
        options.size = outer.size();
        options.store_port = std::stoi(std::getenv("LOCKSTEP_TEST_PORT"));
        options.name = "own";
        options.deadline = std::chrono::seconds(20);
        options.backend = backend;
        const auto group = make_group(options);
        body(*group);
      },
      backend == Backend::shm ? Backend::gloo : Backend::shm);
}

TEST_P(FaultsOfEveryBackend, OtherDtypesAreRefusedOnEveryRankAndNoValueIsReturned) {
  on_own_group(2, GetParam(), [](Group& group) {
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

TEST_P(FaultsOfEveryBackend,
       EightRanksWithTwoMissingElementsAreRefusedAsNcclIssue1417ShouldHaveBeen) {
  on_own_group(8, GetParam(), [](Group& group) {
    auto tensor = at::ones({group.rank() == 5 ? 409598 : 409600});
    const auto problem =
        problem_of<Disagreement>([&] { group.all_reduce(tensor, ReduceOp::sum)->wait(); });
    EXPECT_THAT(problem.what, HasSubstr("409600"));
    EXPECT_THAT(problem.what, HasSubstr("409598"));
  });
}

TEST_P(FaultsOfEveryBackend, AnotherOrderOfCollectivesIsRefused) {
  on_own_group(2, GetParam(), [](Group& group) {
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

TEST_P(FaultsOfEveryBackend, ARankThatLeavesIsNamedByThoseWhoStillNeedIt) {
  on_own_group(3, GetParam(), [](Group& group) {
    group.barrier();
    if (group.rank() == 2) return;
    auto tensor = at::ones({50'000});
    const auto start = steady_clock::now();
    const auto problem =
        problem_of<PeerLost>([&] { group.all_reduce(tensor, ReduceOp::sum)->wait(); });
    EXPECT_THAT(problem.what, ContainsRegex("rank 2.* has left the group"));
    EXPECT_LT(steady_clock::now() - start, std::chrono::seconds(10));
  });
}

TEST_P(FaultsOfEveryBackend, OtherReductionsRootsAndOperationsAreRefusedWithTheirCallSites) {
  using Call = std::function<std::unique_ptr<Work>(Group&, at::Tensor)>;
  const std::vector<Call> calls{
      [](Group& group, at::Tensor t) { return group.all_reduce(t, ReduceOp::sum); },
      [](Group& group, at::Tensor t) { return group.all_reduce(t, ReduceOp::max); },
      [](Group& group, at::Tensor t) { return group.broadcast(t, 0); },
      [](Group& group, at::Tensor t) { return group.broadcast(t, 1); }};
  for (std::size_t i = 0; i < calls.size(); ++i) {
    on_own_group(2, GetParam(), [&](Group& group) {
      const bool first = group.rank() == 0;
      const Purpose purpose(first ? "bucket 0: fc.weight" : "bucket 1: conv.weight");
      const auto& call = calls[first ? i : (i + 1) % calls.size()];
      const auto problem = problem_of<Disagreement>([&] { call(group, at::ones({64}))->wait(); });
      EXPECT_THAT(problem.what, HasSubstr("at bucket 0: fc.weight"));
      EXPECT_THAT(problem.what, HasSubstr("at bucket 1: conv.weight"));
    });
  }
}

TEST_P(FaultsOfEveryBackend, SizesThatDifferBehindCollectivesInFlightAreRefused) {
  on_own_group(4, GetParam(), [](Group& group) {
    std::vector<at::Tensor> tensors;
    std::vector<std::unique_ptr<Work>> works;
    const auto problem = problem_of<Disagreement>([&] {
      for (int i = 0; i < 12; ++i) {
        const bool odd_one = i == 7 && group.rank() == 2;
        tensors.push_back(at::ones({odd_one ? 3000 : 300'000}));
        works.push_back(
            group.all_reduce(tensors.back(), ReduceOp::sum, i % 2 == 0 ? Order::tree : Order::any));
      }
      for (auto& work : works) work->wait();
    });
    EXPECT_THAT(problem.what, HasSubstr("collective #8: "));
    EXPECT_THAT(problem.what, HasSubstr("rank 2 entered all_reduce (sum) of 3000 float32"));
  });
}

TEST_P(FaultsOfEveryBackend, ARankWhoseProcessEndsIsNamedLongBeforeTheDeadline) {
  test::run_ranks(
      3,
      [](Group& group) {
        auto tensor = at::ones({1'000'000});
        if (group.rank() == 1) {
          group.all_reduce(tensor, ReduceOp::sum)->wait();
          std::_Exit(0);  // to the others the same as kill -9
        }
        const auto start = steady_clock::now();
        const auto problem = problem_of<PeerLost>([&] {
          for (int i = 0; i < 100; ++i) group.all_reduce(tensor, ReduceOp::sum)->wait();
        });
        EXPECT_THAT(problem.what, ContainsRegex("rank 1 \\(process [0-9]+.*\\) ended"));
        EXPECT_LT(steady_clock::now() - start, std::chrono::seconds(5)) << "the deadline is 30 s";
        std::fflush(stdout);
        std::_Exit(HasFailure() ? 1 : 0);  // what is left of the group has no barrier to end with
      },
      GetParam());
}

}  // namespace
}  // namespace lockstep::comm
