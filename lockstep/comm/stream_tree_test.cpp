// Over Gloo, which waits where a GPU's stream would.
#include "lockstep/comm/stream_tree.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include "lockstep/comm/gloo_mesh.h"
#include "lockstep/comm/store_adapter.h"
#include "lockstep/comm/tree_sum.h"
#include "tests/support/rank_processes.h"

namespace lockstep::comm {
namespace {

// Values whose sum depends on the order of adding; any rank can make those of any other.
at::Tensor values_of(int rank, std::int64_t count, at::ScalarType dtype) {
  const auto generator = at::detail::createCPUGenerator(1000 + static_cast<std::uint64_t>(rank));
  const auto normal = at::randn({count}, generator, at::TensorOptions().dtype(at::kFloat));
  return (normal * at::exp(normal * 3)).to(dtype);
}

/// As shared memory adds it up: bfloat16 is rounded once.
at::Tensor tree_of_all(int size, std::int64_t count, at::ScalarType dtype) {
  std::vector<at::Tensor> rows;
  for (int r = 0; r < size; ++r) {
    const auto values = values_of(r, count, dtype);
    rows.push_back(dtype == at::kBFloat16 ? values.to(at::kFloat) : values);
  }
  return tree_sum_rows(at::stack(rows)).to(dtype);
}

void expect_tree_bits(const Group& group) {
  GroupOptions options;
  options.rank = group.rank();
  options.size = group.size();
  options.name = "tree";
  const auto store = c10::make_intrusive<StoreAdapter>(
      "127.0.0.1", std::stoi(std::getenv("LOCKSTEP_TEST_PORT")), std::chrono::seconds(30));
  const auto mesh = connect_gloo(store, options, "mesh", "127.0.0.1");
  for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16}) {
    for (const std::int64_t count : {1, 63, 4096, 5000, 100'003, 400'000}) {
      const auto tensor = values_of(group.rank(), count, dtype);
      (void)tree_all_reduce(*mesh, tensor, [](c10d::Work& work) { work.wait(); });
      EXPECT_TRUE(at::equal(tensor, tree_of_all(group.size(), count, dtype)))
          << c10::toString(dtype) << " x " << count;
    }
  }
}

TEST(StreamTree, GivesTheBitsOfTheBalancedTreeOnTwoRanks) {
  test::run_ranks(2, [](Group& group) { expect_tree_bits(group); });
}

TEST(StreamTree, GivesTheBitsOfTheBalancedTreeOnFourRanks) {
  test::run_ranks(4, [](Group& group) { expect_tree_bits(group); });
}

}  // namespace
}  // namespace lockstep::comm
