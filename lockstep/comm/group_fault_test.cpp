// Groups that end badly, on every backend: who disagrees and who left is named on every rank, and
// nobody is handed a value or kept waiting.
#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/comm/group.h"
#include "lockstep/comm/records/disagreement.h"
#include "lockstep/comm/records/purpose.h"
#include "lockstep/store/client.h"
#include "tests/support/problem_of.h"
#include "tests/support/rank_processes.h"

namespace lockstep::comm {
namespace {

using std::chrono::steady_clock;
using test::problem_of;
using testing::ContainsRegex;
using testing::HasSubstr;

enum class Kind : std::uint8_t { gloo, shm, hosts };

/// Two hosts of the same number of ranks.
std::string host_of(int rank, int size) { return rank < size / 2 ? "A" : "B"; }

class FaultsOfEveryBackend : public testing::TestWithParam<Kind> {
 protected:
  /// As many ranks as it takes for two sides that disagree: each is a rank, or a host.
  static int two_sides() { return GetParam() == Kind::hosts ? 4 : 2; }
  static bool is_first_side(const Group& group) { return group.rank() < group.size() / 2; }

  static GroupOptions options_of(const Group& outer, const std::string& name) {
    GroupOptions options;
    options.rank = outer.rank();
    options.size = outer.size();
    options.store_port = std::stoi(std::getenv("LOCKSTEP_TEST_PORT"));
    options.name = name;
    options.deadline = kDeadline;
    if (GetParam() == Kind::gloo) options.backend = Backend::gloo;
    if (GetParam() == Kind::shm) options.backend = Backend::shm;
    if (GetParam() == Kind::hosts) options.host_id = host_of(outer.rank(), outer.size());
    return options;
  }

  using Body = std::function<void(std::unique_ptr<Group> group, Group& outer)>;
  /// A test of the last collective of a group: run_ranks ends with a barrier, so the groups under
  /// test are beside its own, one for each body and one after the other.
  static void on_own_groups(int size, const std::vector<Body>& bodies) {
    test::run_ranks(
        size,
        [&](Group& outer) {
          for (std::size_t i = 0; i < bodies.size(); ++i) {
            auto group = make_group(options_of(outer, "own" + std::to_string(i)));
            outer.barrier();
            bodies[i](std::move(group), outer);
            outer.barrier();
          }
        },
        GetParam() == Kind::gloo ? Backend::shm : Backend::gloo);
  }
  static void on_own_group(int size, const std::function<void(Group&)>& body) {
    on_own_groups(size, {[&](const auto& group, auto&) { body(*group); }});
  }

  static constexpr std::chrono::seconds kDeadline{20};
};
std::string name_of(const testing::TestParamInfo<Kind>& info) {
  return info.param == Kind::gloo ? "gloo" : info.param == Kind::shm ? "shm" : "hosts";
}

INSTANTIATE_TEST_SUITE_P(Groups, FaultsOfEveryBackend,
                         testing::Values(Kind::gloo, Kind::shm, Kind::hosts), name_of);

/// What all promise, from the fault to the error on every rank.
constexpr std::chrono::seconds kAtOnce{1};

TEST_P(FaultsOfEveryBackend, OtherDtypesAreRefusedOnEveryRankAndNoValueIsReturned) {
  on_own_group(two_sides(), [](Group& group) {
    auto tensor = is_first_side(group) ? at::ones({4}, at::kFloat) : at::ones({4}, at::kInt);
    const auto start = steady_clock::now();
    const auto problem =
        problem_of<Disagreement>([&] { group.all_reduce(tensor, ReduceOp::sum)->wait(); });
    EXPECT_LT(steady_clock::now() - start, kAtOnce);
    EXPECT_EQ(problem.code, "LS-4013");
    EXPECT_THAT(problem.what, ContainsRegex("rank [01] entered all_reduce \\(sum\\) of 4 float32"));
    EXPECT_THAT(problem.what, ContainsRegex("rank [123] entered all_reduce \\(sum\\) of 4 int32"));
    if (GetParam() != Kind::hosts) {  // there it holds the sum of the own host
      EXPECT_TRUE(at::equal(tensor, at::ones_like(tensor)));
    }
    EXPECT_THROW((void)group.all_reduce(tensor, ReduceOp::sum), Error);
  });
}

TEST_P(FaultsOfEveryBackend,
       EightRanksWithTwoMissingElementsAreRefusedAsNcclIssue1417ShouldHaveBeen) {
  on_own_group(8, [](Group& group) {
    auto tensor = at::ones({group.rank() == 5 ? 409598 : 409600});
    const auto problem =
        problem_of<Disagreement>([&] { group.all_reduce(tensor, ReduceOp::sum)->wait(); });
    EXPECT_THAT(problem.what, HasSubstr("409600"));
    EXPECT_THAT(problem.what, HasSubstr("rank 5 entered all_reduce (sum) of 409598"));
  });
}

TEST_P(FaultsOfEveryBackend, AnotherOrderOfCollectivesIsRefused) {
  on_own_group(two_sides(), [](Group& group) {
    auto small = at::ones({4});
    auto large = at::ones({100'000});
    EXPECT_THROW(
        {
          const bool first_side = is_first_side(group);
          auto first = group.all_reduce(first_side ? small : large, ReduceOp::sum);
          auto second = group.all_reduce(first_side ? large : small, ReduceOp::sum);
          first->wait();
          second->wait();
        },
        Disagreement);
  });
}

TEST_P(FaultsOfEveryBackend, ARankThatLeavesIsNamedByThoseWhoStillNeedIt) {
  const Body body = [](std::unique_ptr<Group> group, Group&) {
    group->barrier();
    if (group->rank() == 2) return group.reset();
    auto tensor = at::ones({50'000});
    const auto start = steady_clock::now();
    const auto problem =
        problem_of<PeerLost>([&] { group->all_reduce(tensor, ReduceOp::sum)->wait(); });
    EXPECT_THAT(problem.what, ContainsRegex("rank 2.* has left the group"));
    EXPECT_LT(steady_clock::now() - start, kDeadline / 2);
  };
  on_own_groups(3, {body});
}

TEST_P(FaultsOfEveryBackend, OtherReductionsRootsAndOperationsAreRefusedWithTheirCallSites) {
  using Call = std::function<std::unique_ptr<Work>(Group&, at::Tensor)>;
  const std::vector<Call> calls{
      [](Group& group, at::Tensor t) { return group.all_reduce(t, ReduceOp::sum); },
      [](Group& group, at::Tensor t) { return group.all_reduce(t, ReduceOp::max); },
      [](Group& group, at::Tensor t) { return group.broadcast(t, 0); },
      [](Group& group, at::Tensor t) { return group.broadcast(t, 1); }};
  std::vector<Body> bodies;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    bodies.emplace_back([&, i](std::unique_ptr<Group> group, Group& outer) {
      const bool first = is_first_side(*group);
      const Purpose purpose(first ? "bucket 0: fc.weight" : "bucket 1: conv.weight");
      const auto& call = calls[first ? i : (i + 1) % calls.size()];
      const auto start = steady_clock::now();
      const auto problem = problem_of<Disagreement>([&] { call(*group, at::ones({64}))->wait(); });
      EXPECT_LT(steady_clock::now() - start, kAtOnce);
      EXPECT_THAT(problem.what, HasSubstr("at bucket 0: fc.weight"));
      EXPECT_THAT(problem.what, HasSubstr("at bucket 1: conv.weight"));
      outer.barrier();
    });
  }
  on_own_groups(two_sides(), bodies);
}

TEST_P(FaultsOfEveryBackend, SizesThatDifferBehindCollectivesInFlightAreRefused) {
  on_own_group(4, [](Group& group) {
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

/// Issues what nobody answers and closes the group, while one thread waits already.
void close_in_flight(std::unique_ptr<Group> group) {
  std::vector<std::unique_ptr<Work>> works;
  for (int i = 0; i < 6; ++i) works.push_back(group->all_reduce(at::ones({50'000}), ReduceOp::sum));
  auto waiting = std::async(std::launch::async, [&] { EXPECT_THROW(works[2]->wait(), PeerLost); });
  group.reset();
  for (const std::size_t i : {0, 1, 3, 4, 5}) EXPECT_THROW(works[i]->wait(), PeerLost);
  waiting.get();
}

TEST_P(FaultsOfEveryBackend, AGroupThatGoesFailsItsWorksInFlightAtOnce) {
  const Body body = [](std::unique_ptr<Group> group, Group& outer) {
    group->barrier();
    outer.barrier();
    const auto start = steady_clock::now();
    if (group->rank() == 0) close_in_flight(std::move(group));
    outer.barrier();
    if (group != nullptr) {
      const auto problem = problem_of<PeerLost>([&] {  // Gloo may have moved the data of all six
        for (int i = 0; i < 7; ++i) group->all_reduce(at::ones({50'000}), ReduceOp::sum)->wait();
      });
      EXPECT_THAT(problem.what, ContainsRegex("rank 0.* (has left|closed) the group"));
    }
    EXPECT_LT(steady_clock::now() - start, kDeadline / 2);
  };
  on_own_groups(two_sides(), {body});
}

TEST_P(FaultsOfEveryBackend, ARankKilledInMidCollectiveIsNamedByAllOthersWithinASecond) {
  constexpr int kVictim = 3;
  const auto store = [] {
    const int port = std::stoi(std::getenv("LOCKSTEP_TEST_PORT"));
    return store::Client("127.0.0.1", port, std::chrono::seconds(10));
  };
  test::run_ranks(
      4,
      [&](Group& outer) {
        const auto group = make_group(options_of(outer, "own"));
        auto tensor = at::ones({2'000'000});
        group->all_reduce(tensor, ReduceOp::sum)->wait();
        std::thread killer;
        if (group->rank() == kVictim) {
          killer = std::thread([&] {
            std::this_thread::sleep_for(std::chrono::milliseconds(50));  // they are at it by then
            const auto now = std::to_string(steady_clock::now().time_since_epoch().count());
            store().set("killed", {now.begin(), now.end()});
            ::kill(::getpid(), SIGKILL);
          });
        }
        const auto problem = problem_of<PeerLost>([&] {
          for (;;) group->all_reduce(tensor, ReduceOp::sum)->wait();
        });
        const auto noticed = steady_clock::now().time_since_epoch();
        const auto text = store().get("killed", std::chrono::seconds(1));
        const steady_clock::duration killed(std::stoll(std::string(text.begin(), text.end())));
        EXPECT_LT(noticed - killed, kAtOnce);
        EXPECT_THAT(problem.what, ContainsRegex("rank 3 \\(process [0-9]+.*\\) ended"));
        std::fflush(stdout);
        std::_Exit(HasFailure() ? 1 : 0);  // what is left of the group has no barrier to end with
      },
      GetParam() == Kind::gloo ? Backend::shm : Backend::gloo, {}, kVictim);
}

}  // namespace
}  // namespace lockstep::comm
