// What only shared memory promises.
#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/comm/group.h"
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
