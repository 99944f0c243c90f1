// What a person reads who asks for NCCL where there is none.
#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/comm/group.h"
#include "lockstep/comm/world.h"
#include "tests/support/problem_of.h"

namespace lockstep::comm {
namespace {

using test::problem_of;
using testing::HasSubstr;

// Refused before ranks meet: the store of these options does not exist.
GroupOptions over_nccl(int size) {
  GroupOptions options;
  options.size = size;
  options.backend = Backend::nccl;
  options.store_port = 1;
  return options;
}

TEST(WithoutNccl, AGroupSaysHowToBuildOneThatHasIt) {
  for (const int size : {1, 2}) {
    const Problem problem =
        problem_of<EnvironmentFault>([&] { (void)make_group(over_nccl(size)); });
    EXPECT_EQ(problem.code, "LS-4016");
    EXPECT_EQ(problem.where, "rank 0 of " + std::to_string(size) + ", group world");
    EXPECT_THAT(problem.fix, HasSubstr("make cuda"));
    EXPECT_THAT(problem.fix, HasSubstr("LOCKSTEP_BACKEND=auto"));
  }
}

TEST(WithoutNccl, TheEnvironmentsChoiceOfItIsRefusedInTheSameWords) {
  config::RankEnv env;
  env.backend = "nccl";
  EXPECT_EQ(problem_of<EnvironmentFault>([&] { (void)join_world(env); }).code, "LS-4016");
}

}  // namespace
}  // namespace lockstep::comm
