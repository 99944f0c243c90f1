// Tensors of another device than the group's. "meta" is one that every build has.
#include "lockstep/comm/arguments.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "tests/support/problem_of.h"

namespace lockstep::comm {
namespace {

using test::problem_of;
using testing::HasSubstr;

TEST(Devices, AGroupOfTheHostRefusesOtherMemoryInEveryCollective) {
  const auto group = make_fake_group(0, 2);
  EXPECT_EQ(group->device(), at::Device(at::kCPU));
  const auto here = at::ones({2, 4});
  const auto there = at::ones({2, 4}, at::kMeta);
  const auto part = at::ones({4});
  const auto part_there = at::ones({4}, at::kMeta);
  EXPECT_THROW((void)group->all_reduce(there, ReduceOp::sum), Bug);
  EXPECT_THROW((void)group->broadcast(there, 0), Bug);
  EXPECT_THROW((void)group->all_gather(there, part), Bug);
  EXPECT_THROW((void)group->all_gather(here, part_there), Bug);
  EXPECT_THROW((void)group->reduce_scatter(part_there, here, ReduceOp::sum), Bug);
  EXPECT_THROW((void)group->reduce_scatter(part, there, ReduceOp::sum), Bug);
  EXPECT_EQ(group->payload_bytes(), 0);
}

TEST(Devices, TheRefusalNamesBothAndSaysHowToMakeTheTensor) {
  check_device(at::ones({4}), at::Device(at::kCPU), "gloo");
  const Problem problem =
      problem_of<Bug>([] { check_device(at::ones({4}), at::Device(at::kCUDA, 1), "nccl"); });
  EXPECT_THAT(problem.what, HasSubstr("a group over nccl takes tensors on cuda:1, and this one is "
                                      "on cpu: make it with options.device(group.device())"));
}

}  // namespace
}  // namespace lockstep::comm
