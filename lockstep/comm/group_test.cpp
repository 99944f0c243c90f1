// Collectives over real ranks, n processes on this machine, on every backend.
#include "lockstep/comm/group.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "lockstep/comm/tree_sum.h"
#include "tests/support/rank_processes.h"

namespace lockstep::comm {
namespace {

// Values whose sum depends on the order of adding; any rank can make those of any other.
at::Tensor values_of(int rank, std::int64_t count, at::ScalarType dtype = at::kFloat) {
  const auto generator = at::detail::createCPUGenerator(1000 + static_cast<std::uint64_t>(rank));
  const auto normal = at::randn({count}, generator, at::TensorOptions().dtype(at::kFloat));
  return (normal * at::exp(normal * 3)).clamp(-5000, 5000).to(dtype);
}

/// Sums of 16 bits are rounded at their end only.
at::Tensor tree_of_all(const Group& group, std::int64_t count, at::ScalarType dtype) {
  const bool once = dtype == at::kBFloat16 || dtype == at::kHalf;
  std::vector<at::Tensor> rows;
  for (int r = 0; r < group.size(); ++r) {
    rows.push_back(values_of(r, count, dtype).to(once ? at::kFloat : dtype));
  }
  return tree_sum_rows(at::stack(rows)).to(dtype);
}

/// A backend, or a layout of ranks over hosts for which one is chosen.
struct Case {
  const char* name;
  Backend backend;
  std::string (*host_of)(int rank, int size);
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

constexpr Case kCases[] = {
    {"gloo", Backend::gloo, nullptr},
    {"shm", Backend::shm, nullptr},
    {"TwoHosts", Backend::automatic,
     [](int rank, int n) { return std::string(rank < n / 2 ? "A" : "B"); }},
    {"UnevenHosts", Backend::automatic,
     [](int rank, int n) { return std::string(rank < n - 1 ? "A" : "B"); }},
    {"RanksInTurn", Backend::automatic,
     [](int rank, int) { return std::string(rank % 2 == 0 ? "A" : "B"); }},
};

class EveryBackend : public testing::TestWithParam<Case> {
 protected:
  static void run_ranks(int size, const std::function<void(Group&)>& body) {
    const Case& own = GetParam();
    if (own.host_of == nullptr) return test::run_ranks(size, body, own.backend);
    test::run_ranks(
        size,
        [&](Group& group) {
          EXPECT_EQ(group.backend(), size == 2 ? "gloo" : "shm+gloo");
          body(group);
        },
        own.backend, [&](int rank) { return own.host_of(rank, size); });
  }
};
INSTANTIATE_TEST_SUITE_P(Groups, EveryBackend, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

void expect_tree_bits(Group& group) {
  for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
    for (const std::int64_t count : {1, 63, 4096, 5000, 100'003, 400'000}) {
      auto tensor = values_of(group.rank(), count, dtype);
      group.all_reduce(tensor, ReduceOp::sum, Order::tree)->wait();
      EXPECT_TRUE(at::equal(tensor, tree_of_all(group, count, dtype)))
          << c10::toString(dtype) << " x " << count;
    }
  }
}

TEST_P(EveryBackend, TreeOrderGivesTheBitsOfTheBalancedTreeOnTwoRanks) {
  run_ranks(2, expect_tree_bits);
}

TEST_P(EveryBackend, TreeOrderGivesTheBitsOfTheBalancedTreeOnFourRanks) {
  run_ranks(4, expect_tree_bits);
}

TEST_P(EveryBackend, ReducesEveryDtypeBySumMinimumAndMaximum) {
  run_ranks(3, [](Group& group) {
    for (const auto dtype :
         {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf, at::kLong, at::kInt, at::kByte}) {
      const auto reduced = [&](ReduceOp op) {
        auto tensor = at::full({2, 5}, group.rank() + 1, dtype);
        group.all_reduce(tensor, op)->wait();
        return tensor;
      };
      EXPECT_TRUE(at::equal(reduced(ReduceOp::sum), at::full({2, 5}, 6, dtype)));
      EXPECT_TRUE(at::equal(reduced(ReduceOp::min), at::full({2, 5}, 1, dtype)));
      EXPECT_TRUE(at::equal(reduced(ReduceOp::max), at::full({2, 5}, 3, dtype)));
    }
  });
}

TEST_P(EveryBackend, ManyCollectivesInFlightKeepTheirOrder) {
  run_ranks(4, [](Group& group) {
    std::vector<at::Tensor> tensors;
    std::vector<std::unique_ptr<Work>> works;
    for (int i = 0; i < 24; ++i) {
      const std::int64_t count = i % 3 == 0 ? 50'000 : 10;
      tensors.push_back(at::full({count}, i + group.rank(), at::kFloat));
      works.push_back(
          group.all_reduce(tensors.back(), ReduceOp::sum, i % 2 == 0 ? Order::tree : Order::any));
    }
    for (auto& work : works) work->wait();
    for (int i = 0; i < 24; ++i) {
      const auto index = static_cast<std::size_t>(i);
      EXPECT_TRUE(works[index]->done());
      EXPECT_EQ(tensors[index].min().item<float>(), static_cast<float>(4 * i + 6));
      EXPECT_EQ(tensors[index].max().item<float>(), static_cast<float>(4 * i + 6));
    }
  });
}

TEST_P(EveryBackend, BroadcastsAndGathersInRankOrder) {
  run_ranks(3, [](Group& group) {
    auto tensor = at::full({7}, group.rank(), at::kLong);
    group.broadcast(tensor, 2)->wait();
    EXPECT_TRUE(at::equal(tensor, at::full({7}, 2, at::kLong)));

    const auto input = at::full({2, 3}, group.rank(), at::kBFloat16);
    auto output = at::empty({3, 2, 3}, at::kBFloat16);
    group.all_gather(output, input)->wait();
    for (int r = 0; r < 3; ++r) {
      EXPECT_TRUE(at::equal(output[r], at::full({2, 3}, r, at::kBFloat16)));
    }
  });
}

TEST_P(EveryBackend, ScattersTheReductionInRankOrder) {
  run_ranks(3, [](Group& group) {
    for (const std::int64_t count : {5, 70'000}) {
      const auto input = at::arange(3 * count, at::kLong).view({3, count}) * (group.rank() + 1);
      auto output = at::empty({count}, at::kLong);
      group.reduce_scatter(output, input, ReduceOp::sum)->wait();
      EXPECT_TRUE(
          at::equal(output, at::arange(3 * count, at::kLong).view({3, count})[group.rank()] * 6));
      group.reduce_scatter(output, input, ReduceOp::max)->wait();
      EXPECT_TRUE(
          at::equal(output, at::arange(3 * count, at::kLong).view({3, count})[group.rank()] * 3));
    }
  });
}

TEST_P(EveryBackend, AParameterIsReducedInPlaceWithoutAutogradNoticing) {
  run_ranks(2, [](Group& group) {
    auto parameter = at::ones({4}, at::TensorOptions().requires_grad(true));
    group.all_reduce(parameter, ReduceOp::sum)->wait();
    group.broadcast(parameter, 0)->wait();
    EXPECT_TRUE(at::equal(parameter, at::full({4}, 2.0F)));
    EXPECT_TRUE(parameter.is_leaf());
  });
}

TEST_P(EveryBackend, EmptyTensorsPassThroughEveryCollective) {
  run_ranks(4, [](Group& group) {
    auto none = at::empty({0}, at::kFloat);
    group.all_reduce(none, ReduceOp::sum)->wait();
    group.all_reduce(none, ReduceOp::sum, Order::tree)->wait();
    group.broadcast(none, 1)->wait();
    auto output = at::empty({4, 0}, at::kFloat);
    group.all_gather(output, none)->wait();
    group.barrier();
    EXPECT_EQ(group.payload_bytes(), 0);
  });
}

TEST_P(EveryBackend, CountsPayloadOncePerCall) {
  run_ranks(2, [](Group& group) {
    auto tensor = at::zeros({100}, at::kFloat);
    group.all_reduce(tensor, ReduceOp::sum)->wait();
    group.broadcast(tensor, 0)->wait();
    auto output = at::empty({2, 100}, at::kFloat);
    group.all_gather(output, tensor)->wait();
    EXPECT_EQ(group.payload_bytes(), 1200);
    EXPECT_EQ(group.size(), 2);
  });
}

TEST_P(EveryBackend, TextOfOneRankReachesAllRanks) {
  run_ranks(3, [](Group& group) {
    const std::string long_text(70'000, static_cast<char>('a' + group.rank()));
    EXPECT_EQ(broadcast_text(group, long_text, 1), std::string(70'000, 'b'));
    EXPECT_EQ(broadcast_text(group, group.rank() == 0 ? "" : "not empty"), "");
  });
}

}  // namespace
}  // namespace lockstep::comm
