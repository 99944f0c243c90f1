// What only groups over several hosts promise; what every group promises: group_test.cpp. The hosts
// are pretended: tests/fault/two_hosts_test.cpp has two networks.
#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/comm/group.h"
#include "lockstep/comm/records/disagreement.h"
#include "lockstep/comm/tree_sum.h"
#include "tests/support/problem_of.h"
#include "tests/support/rank_processes.h"

namespace lockstep::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using testing::HasSubstr;

// Of groups that a rank does not come to. A rank that is slow on a busy machine is no such rank.
constexpr milliseconds kDeadline{2000};

test::HostOf blocks_of(int ranks) {
  return [ranks](int rank) { return std::string(1, static_cast<char>('A' + rank / ranks)); };
}

at::Tensor values_of(int rank, std::int64_t count, at::ScalarType dtype) {
  const auto whole = (at::arange(count, at::kLong) * 7919 + rank * 104'729) % 1'000'003;
  return (whole.to(at::kFloat) / 997.0F + static_cast<float>(rank) * 1e-4F).to(dtype);
}

void expect_tree_bits(Group& group) {
  EXPECT_EQ(group.backend(), "shm+gloo");
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    for (const std::int64_t count : {3, 50'001, 1'100'003}) {
      std::vector<at::Tensor> rows;
      for (int r = 0; r < group.size(); ++r) rows.push_back(values_of(r, count, dtype));
      auto tensor = rows[static_cast<std::size_t>(group.rank())].clone();
      group.all_reduce(tensor, ReduceOp::sum, Order::tree)->wait();
      EXPECT_TRUE(at::equal(tensor, tree_sum_rows(at::stack(rows))))
          << c10::toString(dtype) << " x " << count;
    }
  }
}

TEST(HierarchicalGroup, TreesOfEightRanksHaveTheSameBitsOnTwoAndFourHosts) {
  test::run_ranks(8, expect_tree_bits, Backend::automatic, blocks_of(4));
  test::run_ranks(8, expect_tree_bits, Backend::automatic, blocks_of(2));
}

TEST(HierarchicalGroup, SumsInPartsEqualThoseOfIntegers) {
  for (const int on_first : {2, 3}) {  // two and two, three and one
    test::run_ranks(
        4,
        [](Group& group) {
          for (const std::int64_t count : {1, 8'193, 1'100'001, 3'000'007}) {
            const auto index = at::arange(count, at::kInt);
            auto tensor = index * (group.rank() + 1);
            group.all_reduce(tensor, ReduceOp::sum)->wait();
            EXPECT_TRUE(at::equal(tensor, index * 10)) << count;
          }
        },
        Backend::automatic,
        [on_first](int rank) { return std::string(rank < on_first ? "A" : "B"); });
  }
}

TEST(HierarchicalGroup, EveryRankCanBeTheRoot) {
  for (const int on_first : {2, 3}) {
    test::run_ranks(
        4,
        [](Group& group) {
          for (int root = 0; root < group.size(); ++root) {
            auto tensor = at::full({70'000}, group.rank(), at::kInt);
            group.broadcast(tensor, root)->wait();
            EXPECT_TRUE(at::equal(tensor, at::full({70'000}, root, at::kInt))) << root;
          }
        },
        Backend::automatic,
        [on_first](int rank) { return std::string(rank < on_first ? "A" : "B"); });
  }
}

GroupOptions options_of(const Group& outer, const std::string& name, const test::HostOf& host_of) {
  GroupOptions options;
  options.rank = outer.rank();
  options.size = outer.size();
  options.store_port = std::stoi(std::getenv("LOCKSTEP_TEST_PORT"));
  options.name = name;
  options.host_id = host_of(outer.rank());
  options.deadline = seconds(20);
  return options;
}

/// run_ranks ends with a barrier, so the group under test is beside its own.
void on_own_group(int size, const test::HostOf& host_of, milliseconds deadline,
                  const std::function<void(Group&)>& body) {
  test::run_ranks(
      size,
      [&](Group& outer) {
        GroupOptions options = options_of(outer, "own", host_of);
        options.deadline = deadline;
        {
          const auto group = make_group(options);
          body(*group);
          outer.barrier();
        }
      },
      Backend::gloo);
}

template <class Fault>
std::string what_of(const std::function<void()>& action) {
  return test::problem_of<Fault>(action).what;
}

TEST(HierarchicalGroup, ARankThatDoesNotComeIsNamedByItsHostInTheNumbersOfTheGroup) {
  on_own_group(4, blocks_of(2), kDeadline, [](Group& group) {
    group.barrier();
    if (group.rank() == 3) return;
    auto tensor = at::ones({8});
    const auto start = steady_clock::now();
    const auto what = what_of<PeerLost>([&] { group.all_reduce(tensor, ReduceOp::sum)->wait(); });
    EXPECT_LT(steady_clock::now() - start, seconds(10));
    EXPECT_THAT(what, HasSubstr("all_reduce #2"));
    EXPECT_THAT(what, HasSubstr("on host B: "));
    EXPECT_THAT(what, HasSubstr("rank 3 has not entered it"));
    if (group.rank() < 2) {
      EXPECT_THAT(what, HasSubstr("has lost host B (ranks 2 and 3)"));
    }
    EXPECT_THROW((void)group.all_reduce(tensor, ReduceOp::sum), PeerLost);
  });
}

TEST(HierarchicalGroup, ASumAmongAllRanksBlamesARankOfTheOwnHostAsSuch) {
  const auto three_and_one = [](int rank) { return std::string(rank < 3 ? "A" : "B"); };
  on_own_group(4, three_and_one, kDeadline, [](Group& group) {
    if (group.rank() == 1) return;
    auto tensor = at::ones({8});
    const auto what =
        what_of<PeerLost>([&] { group.all_reduce(tensor, ReduceOp::sum, Order::tree)->wait(); });
    EXPECT_THAT(what, HasSubstr(group.rank() == 3 ? "has lost host A (ranks 0, 1 and 2): "
                                                  : "on host A: "));
    EXPECT_THAT(what, HasSubstr("rank 1 "));
  });
}

TEST(HierarchicalGroup, RanksOfAHostThatDisagreeAreNamedOnAllHosts) {
  on_own_group(4, blocks_of(2), seconds(20), [](Group& group) {
    auto tensor = at::ones({group.rank() == 3 ? 9 : 8});
    const auto what =
        what_of<Disagreement>([&] { group.all_reduce(tensor, ReduceOp::sum)->wait(); });
    EXPECT_THAT(what, HasSubstr("rank 2 entered all_reduce (sum) of 8 float32"));
    EXPECT_THAT(what, HasSubstr("rank 3 entered all_reduce (sum) of 9 float32"));
  });
}

using Calls = std::function<void(Group&)>;

void reduce(Group& group, std::int64_t count, Order order = Order::any) {
  auto tensor = at::ones({count});
  group.all_reduce(tensor, ReduceOp::sum, order)->wait();
}

Calls broadcast_from(int root) {
  return [root](Group& group) { group.broadcast(at::ones({100'000}), root)->wait(); };
}

/// What hosts A and B enter; step by step they could be taken for the same, or wait for each other.
const std::vector<std::pair<Calls, Calls>> kDisagreements{
    {[](Group& group) { reduce(group, 2 << 20); },  // in two parts of 4 MiB
     [](Group& group) {
       reduce(group, 1 << 20);
       reduce(group, 1 << 20);
     }},
    {broadcast_from(1), broadcast_from(2)},  // over two lanes
    {[](Group& group) { reduce(group, 4); },
     [](Group& group) {
       group.reduce_scatter(at::empty({1}), at::ones({4, 1}), ReduceOp::sum)->wait();
     }},
    {[](Group& group) { reduce(group, 100, Order::tree); },  // among all ranks, unless it nests
     [](Group& group) { reduce(group, 100); }},
    {[](Group& group) { group.barrier(); }, broadcast_from(0)},
    {[](Group& group) {
       group.all_gather(at::empty({4, 50'000}), at::ones({50'000}))->wait();
     },
     [](Group& group) { group.barrier(); }},
};

TEST(HierarchicalGroup, WhatHostsEnterIsComparedAsAWhole) {
  for (const int on_first : {2, 3}) {
    const auto host_of = [on_first](int rank) { return std::string(rank < on_first ? "A" : "B"); };
    test::run_ranks(
        4,
        [&](Group& outer) {
          for (std::size_t i = 0; i < kDisagreements.size(); ++i) {
            const auto group = make_group(options_of(outer, "own" + std::to_string(i), host_of));
            outer.barrier();
            const auto& calls = kDisagreements[i];
            const auto start = steady_clock::now();
            const auto what = what_of<Disagreement>(
                [&] { (host_of(outer.rank()) == "A" ? calls.first : calls.second)(*group); });
            EXPECT_LT(steady_clock::now() - start, seconds(1)) << i;
            EXPECT_THAT(what, testing::ContainsRegex("between hosts: collective #1: rank [0-2] "
                                                     "entered .*, rank [23] entered "))
                << i;
            outer.barrier();
          }
        },
        Backend::gloo);
  }
}

TEST(HierarchicalGroup, ARankMayCloseWhileOthersAreInTheLastStepOfWhatItWaitedFor) {
  test::run_ranks(
      4,
      [&](Group& outer) {
        for (int i = 0; i < 10; ++i) {
          auto group = make_group(options_of(outer, "own" + std::to_string(i), blocks_of(2)));
          auto tensor = at::ones({(3 << 20) + 5});
          group->all_reduce(tensor, ReduceOp::sum)->wait();
          group.reset();
          EXPECT_TRUE(at::all(tensor == 4).item<bool>()) << i;
        }
      },
      Backend::gloo);
}

TEST(HierarchicalGroup, CollectivesInFlightFailWithTheOneThatFailed) {
  on_own_group(3, blocks_of(2), kDeadline, [](Group& group) {
    if (group.rank() == 2) return;
    auto first = at::ones({8});
    auto second = at::ones({8});
    auto one = group.all_reduce(first, ReduceOp::sum);
    auto other = group.all_reduce(second, ReduceOp::sum);
    EXPECT_THROW(other->wait(), PeerLost);
    EXPECT_THAT(what_of<PeerLost>([&] { one->wait(); }), HasSubstr("host B (rank 2)"));
  });
}

}  // namespace
}  // namespace lockstep::comm
