// The group that NCCL's collectives go through, with Gloo in NCCL's place: collectives that differ
// never meet and never end, connecting may hang, and only an abort frees who is caught in it.
#include "lockstep/comm/stream_group.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/comm/gloo_mesh.h"
#include "lockstep/comm/records/disagreement.h"
#include "lockstep/comm/records/purpose.h"
#include "lockstep/comm/tree_sum.h"
#include "tests/support/eventually.h"
#include "tests/support/problem_of.h"
#include "tests/support/rank_processes.h"

namespace lockstep::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using test::problem_of;
using testing::ContainsRegex;
using testing::HasSubstr;

class StandIn : public StreamLibrary, public std::enable_shared_from_this<StandIn> {
 public:
  StandIn(c10::intrusive_ptr<c10d::Store> store, GroupOptions options)
      : store_(std::move(store)), options_(std::move(options)) {}
  /// Gloo goes only when what never met its other half has run into its deadline.
  ~StandIn() override {
    std::thread([gloo = std::move(gloo_)] {}).detach();
  }

  void open() override {
    if (on_open) on_open();
    gloo_ = connect_gloo(store_, options_, "stand-in", "127.0.0.1");
  }
  void close() override { closed.store(true); }
  void abort() override { aborted.store(true); }
  [[nodiscard]] std::shared_ptr<StreamCall> make_call(Issue issue,
                                                      std::vector<at::Tensor> tensors) override;
  [[nodiscard]] at::Device device() const override { return at::kCPU; }
  [[nodiscard]] std::string backend() const override { return "stand-in"; }
  [[nodiscard]] std::string advice() const override { return "look at the test"; }

  /// Only an abort ends it.
  void hang() const {
    while (!aborted.load()) std::this_thread::sleep_for(milliseconds(1));
    throw std::runtime_error("aborted");
  }

  std::function<void()> on_open;
  std::atomic<bool> moves_nothing{false};
  std::atomic<bool> closed{false};
  std::atomic<bool> aborted{false};

 private:
  friend class StandInCall;
  c10::intrusive_ptr<c10d::Store> store_;
  GroupOptions options_;
  c10::intrusive_ptr<c10d::Backend> gloo_;
  std::uint32_t issued_ = 0;
};

class StandInCall : public StreamCall {
 public:
  StandInCall(std::shared_ptr<StandIn> library, StreamLibrary::Issue issue,
              std::vector<at::Tensor> tensors)
      : library_(std::move(library)), issue_(std::move(issue)), tensors_(std::move(tensors)) {}
  void finish() override {}

 private:
  void launch() override {
    const auto count = static_cast<std::uint32_t>(tensors_.front().numel());
    tag_next(*library_->gloo_, ++library_->issued_ << 16 | (count & 0xfff) << 4);
    if (library_->moves_nothing.load()) library_->hang();
    (void)issue_(*library_->gloo_, [this](c10d::Work& work) {
      // Works of no kind are carried out by wait().
      while (work.retrieveOpType() != c10d::OpType::UNKNOWN && !work.isCompleted()) {
        if (library_->aborted.load()) throw std::runtime_error("aborted");
        std::this_thread::sleep_for(std::chrono::microseconds(100));
      }
      work.wait();
    });
  }
  [[nodiscard]] bool is_over() override { return true; }

  const std::shared_ptr<StandIn> library_;
  const StreamLibrary::Issue issue_;
  const std::vector<at::Tensor> tensors_;
};

std::shared_ptr<StreamCall> StandIn::make_call(Issue issue, std::vector<at::Tensor> tensors) {
  return std::make_shared<StandInCall>(shared_from_this(), std::move(issue), std::move(tensors));
}

/// A group under test beside the one of shared memory, which outlives it.
struct Own {
  std::shared_ptr<StandIn> library;
  std::unique_ptr<Group> group;
};

struct Deadlines {
  milliseconds join = seconds(20);
  milliseconds collective = seconds(20);
};

Own make_own(const Group& outer, const std::function<void(StandIn&)>& prepare = {},
             Deadlines deadlines = {}) {
  GroupOptions options;
  options.rank = outer.rank();
  options.size = outer.size();
  options.store_port = std::stoi(std::getenv("LOCKSTEP_TEST_PORT"));
  options.name = "own";
  options.address = "127.0.0.1";
  Meeting meeting = meet(options);
  options.join_deadline = deadlines.join;
  options.deadline = deadlines.collective;
  Own own{std::make_shared<StandIn>(meeting.store, options), nullptr};
  if (prepare) prepare(*own.library);
  own.group = make_stream_group(options, std::move(meeting), own.library);
  return own;
}

[[noreturn]] void end_without_peers() {
  std::fflush(stdout);
  std::_Exit(testing::Test::HasFailure() ? 1 : 0);
}

at::Tensor values_of(int rank, std::int64_t count) {
  const auto generator = at::detail::createCPUGenerator(1000 + static_cast<std::uint64_t>(rank));
  const auto normal = at::randn({count}, generator, at::TensorOptions().dtype(at::kFloat));
  return normal * at::exp(normal * 3);
}

TEST(StreamGroups, EveryCollectivePutsWhatItShallWhereItShall) {
  test::run_ranks(4, [](Group& outer) {
    const Own own = make_own(outer);
    Group& group = *own.group;
    EXPECT_EQ(group.backend(), "stand-in");
    auto sum = at::full({2, 3}, group.rank() + 1, at::kInt);
    group.all_reduce(sum, ReduceOp::sum)->wait();
    EXPECT_TRUE(at::equal(sum, at::full({2, 3}, 10, at::kInt)));
    auto most = at::full({5}, group.rank(), at::kDouble);
    group.all_reduce(most, ReduceOp::max)->wait();
    EXPECT_TRUE(at::equal(most, at::full({5}, 3, at::kDouble)));
    auto told = at::full({3}, group.rank() == 2, at::kBool);
    group.broadcast(told, 2)->wait();
    EXPECT_TRUE(at::equal(told, at::ones({3}, at::kBool)));
    auto all = at::zeros({4, 2}, at::kHalf);
    group.all_gather(all, at::full({2}, group.rank(), at::kHalf))->wait();
    for (int r = 0; r < 4; ++r) EXPECT_TRUE(at::equal(all[r], at::full({2}, r, at::kHalf)));
    auto part = at::zeros({2}, at::kLong);
    const auto rows = at::arange(8, at::kLong).view({4, 2});
    group.reduce_scatter(part, rows, ReduceOp::sum)->wait();
    EXPECT_TRUE(at::equal(part, rows[group.rank()] * 4));
    EXPECT_EQ(broadcast_text(group, group.rank() == 0 ? "plan" : "other"), "plan");
    group.barrier();
  });
}

TEST(StreamGroups, TreeSumsHaveTheBitsOfTheTreeAndManyMayBeInFlight) {
  test::run_ranks(4, [](Group& outer) {
    const Own own = make_own(outer);
    std::vector<at::Tensor> tensors;
    std::vector<std::unique_ptr<Work>> works;
    for (int i = 0; i < 12; ++i) {
      tensors.push_back(values_of(outer.rank(), 1000 * i + 1));
      works.push_back(own.group->all_reduce(tensors.back(), ReduceOp::sum, Order::tree));
    }
    for (int i = 0; i < 12; ++i) {
      const auto index = static_cast<std::size_t>(i);
      works[index]->wait();
      EXPECT_TRUE(works[index]->done());
      std::vector<at::Tensor> rows;
      for (int r = 0; r < 4; ++r) rows.push_back(values_of(r, 1000 * i + 1));
      EXPECT_TRUE(at::equal(tensors[index], tree_sum_rows(at::stack(rows)))) << i;
    }
  });
}

TEST(StreamGroups, AGroupThatDidItsWorkClosesItsLibraryAndAbortsNothing) {
  test::run_ranks(2, [](Group& outer) {
    Own own = make_own(outer);
    auto tensor = at::ones({8});
    (void)own.group->all_reduce(tensor, ReduceOp::sum);  // dropped, and takes place all the same
    own.group->barrier();
    EXPECT_TRUE(at::equal(tensor, at::full({8}, 2.0F)));
    own.group.reset();
    EXPECT_TRUE(own.library->closed.load());
    EXPECT_FALSE(own.library->aborted.load());
  });
}

TEST(StreamGroups, RanksThatDisagreeAreToldApartWithinASecondAndTheLibraryIsAborted) {
  test::run_ranks(2, [](Group& outer) {
    const Own own = make_own(outer);
    const Purpose purpose(outer.rank() == 0 ? "here" : "there");
    auto tensor = at::ones({outer.rank() == 0 ? 8 : 6});
    outer.barrier();
    const auto start = steady_clock::now();
    const auto problem =
        problem_of<Disagreement>([&] { own.group->all_reduce(tensor, ReduceOp::sum)->wait(); });
    EXPECT_LT(steady_clock::now() - start, seconds(1));
    EXPECT_THAT(problem.what, HasSubstr("rank 0 entered all_reduce (sum) of 8 float32 at here"));
    EXPECT_THAT(problem.what, HasSubstr("rank 1 entered all_reduce (sum) of 6 float32 at there"));
    EXPECT_TRUE(test::eventually([&] { return own.library->aborted.load(); }));
    EXPECT_THROW((void)own.group->all_reduce(tensor, ReduceOp::sum), Error);
    outer.barrier();
  });
}

TEST(StreamGroups, ARankThatDoesNotComeIsNamedAfterTheDeadline) {
  test::run_ranks(2, [](Group& outer) {
    const Own own = make_own(outer, {}, {.collective = seconds(1)});
    if (outer.rank() == 0) {
      auto tensor = at::ones({8});
      const auto problem =
          problem_of<PeerLost>([&] { own.group->all_reduce(tensor, ReduceOp::sum)->wait(); });
      EXPECT_THAT(problem.what, HasSubstr("rank 1 has not entered it"));
    }
    outer.barrier();
  });
}

TEST(StreamGroups, ARankThatIsKilledWithItsDataStillDueIsNamedWithinFiveSeconds) {
  test::run_ranks(
      2,
      [](Group& outer) {
        const Own own =
            make_own(outer, [](StandIn& library) { library.moves_nothing.store(true); });
        auto tensor = at::ones({8});
        const auto work = own.group->all_reduce(tensor, ReduceOp::sum);
        outer.barrier();
        if (outer.rank() == 1) {
          std::this_thread::sleep_for(milliseconds(200));  // until the other has left the barrier
          ::kill(::getpid(), SIGKILL);
        }
        const auto start = steady_clock::now();
        const auto problem = problem_of<PeerLost>([&] { work->wait(); });
        EXPECT_LT(steady_clock::now() - start, seconds(8));
        EXPECT_THAT(problem.what, ContainsRegex("rank 1 \\(process [0-9]+.*\\) ended"));
        end_without_peers();
      },
      Backend::automatic, {}, 1);
}

TEST(StreamGroups, AClosedGroupLeavesNobodyWaiting) {
  test::run_ranks(2, [](Group& outer) {
    Own own = make_own(outer);
    if (outer.rank() == 0) {
      auto tensor = at::ones({8});
      const auto problem =
          problem_of<PeerLost>([&] { own.group->all_reduce(tensor, ReduceOp::sum)->wait(); });
      EXPECT_THAT(problem.what, HasSubstr("has left the group"));
    }
    const auto start = steady_clock::now();
    own.group.reset();
    EXPECT_LT(steady_clock::now() - start, seconds(6));
    outer.barrier();
  });
}

TEST(StreamGroups, ARankThatCannotConnectIsNamedWithItsCauseOnAllRanks) {
  test::run_ranks(2, [](Group& outer) {
    const auto problem = problem_of<PeerLost>([&] {
      (void)make_own(outer, [&](StandIn& library) {
        library.on_open = [&] {
          if (outer.rank() == 0) library.hang();
          throw std::runtime_error("out of memory");
        };
      });
    });
    EXPECT_EQ(problem.code, "LS-4005");
    EXPECT_THAT(problem.what, HasSubstr("over stand-in failed: rank 1: out of memory"));
    EXPECT_EQ(problem.fix, "look at the test");
    outer.barrier();
  });
}

TEST(StreamGroups, ConnectingEndsAfterTheDeadlineWhereNobodyFailsAndNobodyComes) {
  test::run_ranks(2, [](Group& outer) {
    const auto start = steady_clock::now();
    const auto problem = problem_of<PeerLost>([&] {
      (void)make_own(outer, [](StandIn& library) { library.on_open = [&] { library.hang(); }; },
                     {.join = milliseconds(500)});
    });
    EXPECT_THAT(problem.what, HasSubstr("it did not end within 500 ms"));
    EXPECT_LT(steady_clock::now() - start, seconds(10));
    outer.barrier();
  });
}

}  // namespace
}  // namespace lockstep::comm
