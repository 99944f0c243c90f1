#include "lockstep/comm/instant_group.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>

namespace lockstep::comm {
namespace {

TEST(FakeGroup, PeersHoldTheSameValuesAsThisRank) {
  const auto group = make_fake_group(2, 512);
  auto tensor = at::full({3}, 2.0F);
  group->all_reduce(tensor, ReduceOp::max)->wait();
  EXPECT_EQ(tensor[0].item<float>(), 2.0F);
  group->all_reduce(tensor, ReduceOp::sum, Order::tree)->wait();
  EXPECT_EQ(tensor[0].item<float>(), 1024.0F);
  group->broadcast(tensor, 7)->wait();
  EXPECT_EQ(tensor[0].item<float>(), 1024.0F);
  EXPECT_EQ(group->rank(), 2);
  EXPECT_EQ(group->size(), 512);
  EXPECT_EQ(group->backend(), "fake");
}

TEST(FakeGroup, GathersCopiesOfItsOwnInput) {
  const auto group = make_fake_group(0, 3);
  const auto input = at::arange(4, at::kLong).view({2, 2});
  auto output = at::zeros({3, 2, 2}, at::kLong);
  const auto work = group->all_gather(output, input);
  EXPECT_TRUE(work->done());
  work->wait();
  group->barrier();
  for (int r = 0; r < 3; ++r) EXPECT_TRUE(at::equal(output[r], input));
  EXPECT_EQ(group->payload_bytes(), 32);
}

TEST(FakeGroup, HandsTextBackToItsSender) {
  const auto group = make_fake_group(0, 4);
  EXPECT_EQ(broadcast_text(*group, "plan"), "plan");
  EXPECT_EQ(broadcast_text(*group, "plan", group->size() - 1), "plan");
  EXPECT_EQ(broadcast_text(*group, ""), "");
}

}  // namespace
}  // namespace lockstep::comm
