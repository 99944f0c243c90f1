// How a Gloo group begins and ends, well or badly: ranks are threads, each with a group of its own.
#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <future>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/comm/group.h"
#include "lockstep/comm/records/flight_folder.h"
#include "lockstep/comm/records/purpose.h"
#include "lockstep/store/client.h"
#include "lockstep/store/server.h"
#include "tests/support/problem_of.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using test::problem_of;
using testing::HasSubstr;
using Body = std::function<void(const GroupOptions&)>;

GroupOptions options_for(int size, int port) {
  GroupOptions options;
  options.size = size;
  options.store_port = port;
  options.join_deadline = seconds(20);
  options.deadline = seconds(20);
  return options;
}

void on_ranks(GroupOptions options, const Body& body) {
  std::vector<std::future<void>> ranks;
  for (int r = 0; r < options.size; ++r) {
    options.rank = r;
    ranks.push_back(std::async(std::launch::async, body, options));
  }
  for (auto& rank : ranks) rank.get();
}

void expect_sum_of_ones(Group& group) {
  auto tensor = at::ones({3});
  group.all_reduce(tensor, ReduceOp::sum)->wait();
  EXPECT_EQ(tensor[0].item<float>(), static_cast<float>(group.size()));
}

TEST(GlooGroup, OfOneRankNeedsNoStore) {
  const auto group = make_gloo_group({});
  auto tensor = at::ones({3});
  group->all_reduce(tensor, ReduceOp::sum, Order::tree)->wait();
  group->broadcast(tensor, 0)->wait();
  auto output = at::empty({1, 3});
  group->all_gather(output, tensor)->wait();
  group->barrier();
  EXPECT_TRUE(at::equal(output, at::ones({1, 3})));
  EXPECT_EQ(group->backend(), "gloo");
  EXPECT_EQ(group->payload_bytes(), 36);
}

TEST(GlooGroup, JoinsThroughAUnixSocketServedByTheFirstRank) {
  auto options = options_for(2, 0);
  options.store_host =
      "unix:" + testing::TempDir() + "group-" + std::to_string(::getpid()) + ".sock";
  on_ranks(options, [](GroupOptions own) {
    own.host_store = own.rank == 0;
    const auto group = make_gloo_group(own);
    expect_sum_of_ones(*group);
    group->barrier();
  });
}

TEST(GlooGroup, SeveralGroupsShareOneStoreUnderDifferentNames) {
  const store::Server server("127.0.0.1", 0);
  on_ranks(options_for(2, server.port()), [](GroupOptions own) {
    const auto world = make_gloo_group(own);
    own.name = "second";
    const auto second = make_gloo_group(own);
    expect_sum_of_ones(*second);
    expect_sum_of_ones(*world);
    world->barrier();
  });
}

TEST(GlooGroup, NamesTheRanksThatNeverJoined) {
  const store::Server server("127.0.0.1", 0);
  auto options = options_for(4, server.port());
  options.rank = 1;
  options.join_deadline = milliseconds(200);
  const auto problem = problem_of<PeerLost>([&] { (void)make_gloo_group(options); });
  EXPECT_EQ(problem.code, "LS-4001");
  EXPECT_EQ(problem.where, "rank 1 of 4, group world");
  EXPECT_EQ(problem.what, "ranks 0, 2, 3 did not join within 200 ms");
}

TEST(GlooGroup, RefusesASecondProcessUnderTheSameRank) {
  const store::Server server("127.0.0.1", 0);
  auto options = options_for(2, server.port());
  {
    store::Client other("127.0.0.1", server.port(), seconds(5));
    const std::string holder = "process 1 on elsewhere";
    other.set("world/rank0", {holder.begin(), holder.end()});
  }
  const auto problem = problem_of<EnvironmentFault>([&] { (void)make_gloo_group(options); });
  EXPECT_EQ(problem.code, "LS-4003");
  EXPECT_THAT(problem.what, HasSubstr("process 1 on elsewhere has this rank already"));
}

TEST(GlooGroup, AHangingPeerEndsTheWaitAtTheDeadlineAndTheMessageNamesTheCollective) {
  const store::Server server("127.0.0.1", 0);
  auto options = options_for(2, server.port());
  options.deadline = seconds(1);
  std::promise<void> over;
  const auto is_over = over.get_future().share();
  on_ranks(options, [&](const GroupOptions& own) {
    const auto group = make_gloo_group(own);
    expect_sum_of_ones(*group);
    if (own.rank == 1) return is_over.wait();
    auto tensor = at::ones({1024});
    const auto work = group->all_reduce(tensor, ReduceOp::sum);
    const auto problem = problem_of<PeerLost>([&] { work->wait(); });
    EXPECT_EQ(problem.code, "LS-4002");
    EXPECT_EQ(problem.where, "rank 0 of 2, group world");
    EXPECT_THAT(problem.what, HasSubstr("all_reduce #2 (float32, 1024 elements)"));
    EXPECT_THAT(problem.what, HasSubstr("deadline 1 s"));
    EXPECT_THAT(problem.what,
                HasSubstr("last completed here: all_reduce #1 (float32, 3 elements)"));
    over.set_value();
  });
}

TEST(GlooGroup, TheMessageCarriesTheVerdictWhenTheOtherRanksRecordsAreInReach) {
  const store::Server server("127.0.0.1", 0);
  const test::ScratchFolder folder;
  auto options = options_for(2, server.port());
  options.deadline = seconds(1);
  std::promise<void> over;
  const auto is_over = over.get_future().share();
  on_ranks(options, [&](GroupOptions own) {
    own.flight = std::make_shared<FlightRecorder>(own.rank, own.size);
    own.flight->persist(flight_file(folder.path(), own.rank), 1);
    const auto group = make_gloo_group(own);
    expect_sum_of_ones(*group);
    own.flight->set_phase(Phase::data);
    if (own.rank == 1) return is_over.wait();
    auto tensor = at::ones({1024});
    const Purpose purpose("bucket 0: fc.weight");
    const auto work = group->all_reduce(tensor, ReduceOp::sum);
    const auto problem = problem_of<PeerLost>([&] { work->wait(); });
    EXPECT_THAT(problem.what,
                HasSubstr("rank 1 has not entered all_reduce #2 of group world (bucket "
                          "0: fc.weight); it has been in data wait for "));
    over.set_value();
  });
}

TEST(GlooGroup, TheEndOfACollectiveIsRecordedAlsoWhenNobodyWaitsForItYet) {
  const store::Server server("127.0.0.1", 0);
  for (const int ranks : {2, 4}) {  // four ranks: the tree's own thread ends it
    auto options = options_for(ranks, server.port());
    options.name = "of" + std::to_string(ranks);
    on_ranks(options, [](GroupOptions own) {
      own.flight = std::make_shared<FlightRecorder>(own.rank, own.size);
      const auto group = make_gloo_group(own);
      auto tensor = at::ones({50'000});
      const auto work = group->all_reduce(tensor, ReduceOp::sum, Order::tree);
      const auto end = steady_clock::now() + seconds(20);
      while (own.flight->snapshot().records.back().in_flight() && steady_clock::now() < end) {
        std::this_thread::sleep_for(milliseconds(1));
      }
      EXPECT_EQ(own.flight->snapshot().records.back().state, CollectiveState::completed);
      work->wait();
      group->barrier();
    });
  }
}

TEST(GlooGroup, APeerThatEndsIsNoticedLongBeforeTheDeadline) {
  const store::Server server("127.0.0.1", 0);
  const auto start = steady_clock::now();
  on_ranks(options_for(4, server.port()), [](const GroupOptions& own) {
    const auto group = make_gloo_group(own);
    expect_sum_of_ones(*group);
    if (own.rank == 3) return;
    auto tensor = at::ones({50'000});
    EXPECT_THROW(
        {
          auto work = group->all_reduce(tensor, ReduceOp::sum, Order::tree);
          work->wait();
        },
        PeerLost);
    EXPECT_THROW(group->barrier(), PeerLost);
  });
  EXPECT_LT(steady_clock::now() - start, seconds(15)) << "the deadline is 20 s";
}

TEST(GlooGroup, EndsWithinSecondsWithCollectivesThatNobodyAnswers) {
  const store::Server server("127.0.0.1", 0);
  std::promise<void> over;
  const auto is_over = over.get_future().share();
  on_ranks(options_for(2, server.port()), [&](const GroupOptions& own) {
    auto group = make_gloo_group(own);
    if (own.rank == 1) return is_over.wait();
    std::vector<std::unique_ptr<Work>> works;
    for (int i = 0; i < 6; ++i) works.push_back(group->all_reduce(at::ones({8}), ReduceOp::sum));
    const auto start = steady_clock::now();
    group.reset();
    EXPECT_LT(steady_clock::now() - start, seconds(10)) << "the deadline is 20 s";
    over.set_value();
  });
}

TEST(GlooGroup, BreachesOfTheContractAreBugs) {
  const auto group = make_fake_group(0, 3);
  auto tensor = at::ones({4});
  EXPECT_THROW((void)group->all_reduce(tensor, ReduceOp::sum, Order::tree), Bug);
  EXPECT_THROW((void)group->all_reduce(at::ones({2, 2}).t(), ReduceOp::sum), Bug);
  EXPECT_THROW((void)group->all_reduce(at::ones({2}, at::kBool), ReduceOp::sum), Bug);
  EXPECT_THROW((void)group->broadcast(tensor, 3), Bug);
  EXPECT_THROW((void)group->all_gather(at::empty({2, 4}), tensor), Bug);
  EXPECT_THROW((void)make_fake_group(3, 3), Bug);
}

}  // namespace
}  // namespace lockstep::comm
