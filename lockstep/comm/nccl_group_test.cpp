// On any machine, with a GPU or without: the GPUs are hidden before CUDA looks for them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "lockstep/comm/group.h"
#include "lockstep/comm/world.h"
#include "tests/support/problem_of.h"

namespace lockstep::comm {
namespace {

using test::problem_of;
using testing::HasSubstr;

class NcclWithoutAGpu : public testing::Test {
 protected:
  NcclWithoutAGpu() { ::setenv("CUDA_VISIBLE_DEVICES", "", 1); }
};

TEST_F(NcclWithoutAGpu, IsRefusedOnEveryRankAndSaysWhereToLook) {
  GroupOptions options;
  options.backend = Backend::nccl;
  const Problem problem = problem_of<EnvironmentFault>([&] { (void)make_group(options); });
  EXPECT_EQ(problem.code, "LS-4017");
  EXPECT_THAT(problem.where, HasSubstr("rank 0 on host "));
  EXPECT_THAT(problem.what, HasSubstr("NCCL needs a GPU, and none answers: "));
  EXPECT_THAT(problem.fix, HasSubstr("nvidia-smi"));
}

TEST_F(NcclWithoutAGpu, IsRefusedWhenTheEnvironmentAsksForIt) {
  config::RankEnv env;
  env.backend = "nccl";
  EXPECT_EQ(problem_of<EnvironmentFault>([&] { (void)join_world(env); }).code, "LS-4017");
}

TEST_F(NcclWithoutAGpu, CpuGroupsWorkAsInAnyBuild) {
  EXPECT_EQ(make_group({})->device(), at::Device(at::kCPU));
}

}  // namespace
}  // namespace lockstep::comm
