// Groups over NCCL: one rank where there is one GPU, two where there are two. tools/gpu_check.sh
// runs them.
#include <ATen/CPUGeneratorImpl.h>
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
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/comm/group.h"
#include "lockstep/comm/nccl_calls.h"
#include "lockstep/comm/records/disagreement.h"
#include "lockstep/comm/records/purpose.h"
#include "lockstep/comm/stream_tree.h"
#include "lockstep/comm/tree_sum.h"
#include "tests/support/problem_of.h"
#include "tests/support/rank_processes.h"

namespace lockstep::comm {
namespace {

using std::chrono::seconds;
using std::chrono::steady_clock;
using test::problem_of;
using testing::ContainsRegex;
using testing::HasSubstr;

// Values whose sum depends on the order of adding; any rank can make those of any other.
at::Tensor values_of(int rank, std::int64_t count, at::ScalarType dtype = at::kFloat) {
  const auto generator = at::detail::createCPUGenerator(1000 + static_cast<std::uint64_t>(rank));
  const auto normal = at::randn({count}, generator, at::TensorOptions().dtype(at::kFloat));
  return (normal * at::exp(normal * 3)).to(dtype);
}

at::TensorOptions on(const Group& group, at::ScalarType dtype = at::kFloat) {
  return at::TensorOptions().dtype(dtype).device(group.device());
}

/// n ranks, one GPU each.
class Nccl : public testing::TestWithParam<int> {
 protected:
  static void run_ranks(const std::function<void(Group&)>& body) {
    test::run_ranks(GetParam(), body, Backend::nccl);
  }
};
INSTANTIATE_TEST_SUITE_P(OneGpu, Nccl, testing::Values(1));
INSTANTIATE_TEST_SUITE_P(TwoGpus, Nccl, testing::Values(2));

TEST_P(Nccl, EveryRankHasAGpuOfItsOwn) {
  run_ranks([](Group& group) {
    EXPECT_EQ(group.backend(), "nccl");
    ASSERT_TRUE(group.device().is_cuda());
    auto indices = at::zeros({group.size(), 1}, on(group, at::kInt));
    group.all_gather(indices, at::full({1}, group.device().index(), on(group, at::kInt)))->wait();
    for (int r = 0; r < group.rank(); ++r) {
      EXPECT_NE(indices[r].item<int>(), static_cast<int>(group.device().index()));
    }
  });
}

TEST_P(Nccl, ReducesEveryDtypeBySumMinimumAndMaximum) {
  run_ranks([](Group& group) {
    const int n = group.size();
    for (const auto dtype :
         {at::kFloat, at::kDouble, at::kBFloat16, at::kLong, at::kInt, at::kByte}) {
      const auto reduced = [&](ReduceOp op) {
        auto tensor = at::full({2, 5}, group.rank() + 1, on(group, dtype));
        group.all_reduce(tensor, op)->wait();
        return tensor.cpu();
      };
      EXPECT_TRUE(at::equal(reduced(ReduceOp::sum), at::full({2, 5}, n * (n + 1) / 2, dtype)));
      EXPECT_TRUE(at::equal(reduced(ReduceOp::min), at::full({2, 5}, 1, dtype)));
      EXPECT_TRUE(at::equal(reduced(ReduceOp::max), at::full({2, 5}, n, dtype)));
    }
  });
}

TEST_P(Nccl, TreeOrderGivesTheBitsOfTheBalancedTree) {
  run_ranks([](Group& group) {
    for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16}) {
      for (const std::int64_t count : {1, 5000, 400'000}) {
        std::vector<at::Tensor> rows;
        for (int r = 0; r < group.size(); ++r) rows.push_back(values_of(r, count, dtype));
        auto tensor = rows[static_cast<std::size_t>(group.rank())].to(group.device());
        group.all_reduce(tensor, ReduceOp::sum, Order::tree)->wait();
        EXPECT_TRUE(at::equal(tensor.cpu(), tree_sum_rows(at::stack(rows))))
            << c10::toString(dtype) << " x " << count;
      }
    }
  });
}

TEST_P(Nccl, BroadcastGatherAndScatterPutEveryPartInItsPlace) {
  run_ranks([](Group& group) {
    const int n = group.size();
    const int last = n - 1;
    auto from_last = at::full({3, 4}, group.rank(), on(group));
    group.broadcast(from_last, last)->wait();
    EXPECT_TRUE(at::equal(from_last.cpu(), at::full({3, 4}, last, at::kFloat)));

    auto all = at::zeros({n, 6}, on(group));
    group.all_gather(all, at::full({6}, group.rank() + 1, on(group)))->wait();
    for (int r = 0; r < n; ++r) EXPECT_EQ(all[r].sum().item<float>(), 6.0F * (r + 1));

    auto part = at::zeros({6}, on(group));
    group.reduce_scatter(part, all, ReduceOp::sum)->wait();
    EXPECT_TRUE(at::equal(part.cpu(), at::full({6}, n * (group.rank() + 1), at::kFloat)));
  });
}

TEST_P(Nccl, WhatOnlyMovesMayHaveAnyType) {
  run_ranks([](Group& group) {
    for (const auto dtype : {at::kHalf, at::kBool, at::kShort, at::kChar, at::kDouble}) {
      auto tensor = at::full({3}, group.rank() == 0 ? 1 : 0, on(group, dtype));
      group.broadcast(tensor, 0)->wait();
      auto all = at::zeros({group.size(), 3}, on(group, dtype));
      group.all_gather(all, tensor)->wait();
      EXPECT_TRUE(at::equal(all.cpu(), at::full({group.size(), 3}, 1, dtype)))
          << c10::toString(dtype);
    }
  });
}

TEST_P(Nccl, ManyCollectivesInFlightKeepTheirOrder) {
  run_ranks([](Group& group) {
    std::vector<at::Tensor> tensors;
    std::vector<std::unique_ptr<Work>> works;
    for (int i = 0; i < 24; ++i) {
      const std::int64_t count = i % 3 == 0 ? 5'000'000 : 10;
      tensors.push_back(at::full({count}, i, on(group)));
      works.push_back(group.all_reduce(tensors.back(), ReduceOp::sum));
    }
    for (auto& work : works) work->wait();
    for (int i = 0; i < 24; ++i) {
      const auto& tensor = tensors[static_cast<std::size_t>(i)];
      EXPECT_TRUE(at::all(tensor == i * group.size()).item<bool>()) << i;
    }
  });
}

TEST_P(Nccl, ACollectiveFollowsWhatItsCallerPutOnTheStreamAndGoesBeforeWhatComesNext) {
  run_ranks([](Group& group) {
    auto product = at::eye(4096, on(group));
    const auto identity = at::eye(4096, on(group));
    for (int i = 0; i < 20; ++i) product = at::matmul(product, identity);  // takes its time
    group.all_reduce(product, ReduceOp::sum)->wait();
    EXPECT_EQ(product.sum().item<double>(), 4096.0 * group.size());
  });
}

TEST_P(Nccl, AWorkThatIsDroppedTakesPlaceAllTheSame) {
  run_ranks([](Group& group) {
    auto tensor = at::ones({1'000'000}, on(group));
    (void)group.all_reduce(tensor, ReduceOp::sum);
    group.barrier();
    EXPECT_TRUE(at::all(tensor == group.size()).item<bool>());
  });
}

TEST_P(Nccl, TextBarriersAndSymmetricMemoryAreThereToo) {
  run_ranks([](Group& group) {
    EXPECT_EQ(broadcast_text(group, group.rank() == 0 ? "plan" : "other"), "plan");
    group.barrier();
    auto buffer = group.symmetric_zeros(1000, at::kFloat);
    EXPECT_EQ(buffer.device(), group.device());
    group.all_reduce(buffer.add_(1), ReduceOp::sum)->wait();
    EXPECT_EQ(buffer.sum().item<float>(), 1000.0F * static_cast<float>(group.size()));
    auto empty = at::zeros({0}, on(group));
    group.all_reduce(empty, ReduceOp::sum)->wait();
  });
}

TEST_P(Nccl, TensorsOfTheHostAreRefusedInWords) {
  run_ranks([](Group& group) {
    const auto problem =
        problem_of<Bug>([&] { (void)group.all_reduce(at::ones({4}), ReduceOp::sum); });
    EXPECT_THAT(problem.what, HasSubstr("a group over nccl takes tensors on cuda:"));
    EXPECT_THAT(problem.what, HasSubstr("this one is on cpu"));
  });
}

// Through NCCL's all_to_all, which a group of two does without.
TEST(OneGpuTree, GoesThroughExchangeAndGather) {
  const at::Device device(at::kCUDA, 0);
  const auto library =
      std::make_shared<NcclLibrary>(c10::make_intrusive<c10d::HashStore>(), GroupOptions{}, device);
  CallThread calls(library);
  calls.start();
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    for (const std::int64_t count : {63, 400'000}) {
      const auto values = values_of(0, count, dtype);
      const auto tensor = values.to(device);
      const auto call = library->make_call(
          [tensor](c10d::Backend& nccl, const After& after) {
            return tree_all_reduce(nccl, tensor, after);
          },
          {tensor});
      std::promise<bool> end;
      call->on_end([&](bool ok) { end.set_value(ok); });
      calls.issue(call);
      EXPECT_TRUE(end.get_future().get());
      call->finish();
      EXPECT_TRUE(at::equal(tensor.cpu(), values));
    }
  }
  calls.close(seconds(10));
}

/// A group over NCCL beside one of shared memory, which outlives it.
std::unique_ptr<Group> make_own_group(const Group& outer, seconds deadline = seconds(20)) {
  GroupOptions options;
  options.rank = outer.rank();
  options.size = outer.size();
  options.store_port = std::stoi(std::getenv("LOCKSTEP_TEST_PORT"));
  options.name = "own";
  options.backend = Backend::nccl;
  options.deadline = deadline;
  return make_group(options);
}

TEST(TwoGpus, RanksThatEnterOtherCollectivesAreToldApartWithinASecondAndGetNoValue) {
  test::run_ranks(2, [](Group& outer) {
    const auto group = make_own_group(outer);
    auto warm = at::ones({8}, on(*group));
    group->all_reduce(warm, ReduceOp::sum)->wait();
    outer.barrier();
    const Purpose purpose(outer.rank() == 0 ? "here" : "there");
    auto tensor = at::ones({outer.rank() == 0 ? 8 : 6}, on(*group));
    const auto start = steady_clock::now();
    const auto problem =
        problem_of<Disagreement>([&] { group->all_reduce(tensor, ReduceOp::sum)->wait(); });
    EXPECT_LT(steady_clock::now() - start, seconds(1));
    EXPECT_THAT(problem.what, HasSubstr("all_reduce (sum) of 8 float32 at here"));
    EXPECT_THAT(problem.what, HasSubstr("all_reduce (sum) of 6 float32 at there"));
    EXPECT_THROW((void)group->all_reduce(tensor, ReduceOp::sum), Error);
    outer.barrier();
  });
}

TEST(TwoGpus, RanksThatDisagreeInTheirFirstCollectiveAreToldApartToo) {
  test::run_ranks(2, [](Group& outer) {
    const auto group = make_own_group(outer);
    auto tensor = at::ones({8}, on(*group));
    auto both = at::ones({2, 8}, on(*group));
    outer.barrier();
    const auto start = steady_clock::now();
    EXPECT_THROW((outer.rank() == 0 ? group->all_reduce(tensor, ReduceOp::sum)
                                    : group->all_gather(both, tensor))
                     ->wait(),
                 Disagreement);
    EXPECT_LT(steady_clock::now() - start, seconds(1));
    outer.barrier();
  });
}

TEST(TwoGpus, ARankThatDoesNotComeIsNamedAfterTheDeadline) {
  test::run_ranks(2, [](Group& outer) {
    const auto group = make_own_group(outer, seconds(2));
    outer.barrier();
    if (outer.rank() == 0) {
      auto tensor = at::ones({8}, on(*group));
      const auto problem =
          problem_of<PeerLost>([&] { group->all_reduce(tensor, ReduceOp::sum)->wait(); });
      EXPECT_THAT(problem.what, HasSubstr("rank 1 has not entered it"));
    }
    outer.barrier();
  });
}

TEST(TwoGpus, ARankThatIsKilledIsNamedAndItsPeersKernelsEnd) {
  test::run_ranks(
      2,
      [](Group& outer) {
        const auto group = make_own_group(outer);
        auto tensor = at::ones({8'000'000}, on(*group));
        group->all_reduce(tensor, ReduceOp::sum)->wait();
        outer.barrier();
        if (outer.rank() == 1) {
          std::this_thread::sleep_for(
              std::chrono::milliseconds(200));  // the other leaves the barrier
          ::kill(::getpid(), SIGKILL);
        }
        const auto start = steady_clock::now();
        const auto problem = problem_of<PeerLost>([&] {
          for (;;) group->all_reduce(tensor, ReduceOp::sum)->wait();
        });
        EXPECT_LT(steady_clock::now() - start, seconds(8));
        EXPECT_THAT(problem.what, ContainsRegex("rank 1 \\(process [0-9]+.*\\) ended"));
        EXPECT_EQ(at::ones({4}, on(*group)).sum().item<float>(), 4.0F) << "the GPU is of use again";
        std::fflush(stdout);
        std::_Exit(testing::Test::HasFailure() ? 1 : 0);  // no peer is left for the last barrier
      },
      Backend::automatic, {}, 1);
}

}  // namespace
}  // namespace lockstep::comm
