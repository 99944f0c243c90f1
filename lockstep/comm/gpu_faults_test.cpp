#include "lockstep/comm/gpu_faults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/problem_of.h"

namespace lockstep::comm {
namespace {

using test::problem_of;
using testing::HasSubstr;

const std::vector<std::string> kTwoHosts{"A", "A", "B", "B"};

Problem problem_of_cards(const std::vector<GpuCard>& cards) {
  return problem_of<EnvironmentFault>(
      [&] { check_gpus(cards, HostLayout(kTwoHosts, 0), kTwoHosts); });
}

TEST(Gpus, ARankTakesTheOneOfItsNumberOrTheOnlyOneItSees) {
  EXPECT_EQ(gpu_of(0, 8), 0);
  EXPECT_EQ(gpu_of(3, 8), 3);
  EXPECT_EQ(gpu_of(3, 1), 0) << "srun --gpus-per-task=1 shows each rank its own";
}

TEST(Gpus, OneForEachRankIsWell) {
  check_gpus({{2, "a"}, {2, "b"}, {1, "c"}, {1, "d"}}, HostLayout(kTwoHosts, 0), kTwoHosts);
}

TEST(Gpus, ARankLeftWithoutOneIsNamedWithItsHost) {
  const std::vector<std::string> hosts{"A", "A", "B", "B", "B"};
  const Problem problem = problem_of<EnvironmentFault>([&] {
    check_gpus({{2, "a"}, {2, "b"}, {2, "c"}, {2, "d"}, {2, ""}}, HostLayout(hosts, 0), hosts);
  });
  EXPECT_EQ(problem.code, "LS-4017");
  EXPECT_EQ(problem.where, "rank 4 on host B");
  EXPECT_THAT(problem.what, HasSubstr("3 ranks run on this host, and it shows them 2 GPUs"));
}

TEST(Gpus, ARankThatSeesNoneIsNamedWithWhatCudaSays) {
  const Problem problem = problem_of_cards({{2, "a"}, {2, "b"}, {0, "", "no device"}, {1, "c"}});
  EXPECT_EQ(problem.code, "LS-4017");
  EXPECT_EQ(problem.where, "rank 2 on host B");
  EXPECT_THAT(problem.what, HasSubstr("none answers: no device"));
}

TEST(Gpus, TwoRanksThatWouldShareOneAreNamed) {
  const Problem problem = problem_of_cards({{1, "a"}, {1, "b"}, {1, "c"}, {1, "c"}});
  EXPECT_EQ(problem.where, "rank 3 on host B");
  EXPECT_THAT(problem.what, HasSubstr("share a GPU with rank 2 (c)"));
}

TEST(Gpus, ACardArrivesAsItWasWrittenAndGarbageIsNone) {
  const GpuCard card = read_gpu_card(to_text({4, "GPU-12"}));
  EXPECT_EQ(card.visible, 4);
  EXPECT_EQ(card.id, "GPU-12");
  EXPECT_EQ(read_gpu_card("what?").visible, 0);
  const GpuCard none = read_gpu_card(to_text({0, "", "no driver found"}));
  EXPECT_EQ(none.id, "");
  EXPECT_EQ(none.why, "no driver found");
}

TEST(Gpus, NoneSaysWhatCudaSaysAndWhereToLook) {
  const Problem problem = no_gpu("rank 0", "no CUDA-capable device is detected").problems().front();
  EXPECT_THAT(problem.what, HasSubstr("none answers: no CUDA-capable device is detected"));
  EXPECT_THAT(problem.fix, HasSubstr("nvidia-smi"));
}

TEST(NcclCause, IsNcclsLastErrorWhereItHasOne) {
  EXPECT_EQ(nccl_cause(
                "NCCL error in: /pytorch/torch/csrc/NCCLUtils.cpp:94, invalid usage (run with "
                "NCCL_DEBUG=WARN for details), NCCL version 2.28.9\nncclInvalidUsage: This usually "
                "reflects invalid usage.\nLast error:\nDuplicate GPU detected : rank 1 and rank 0 "
                "both on CUDA device 9000\nException raised from"),
            "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 9000");
}

TEST(NcclCause, LeavesOutSourcePositions) {
  EXPECT_EQ(nccl_cause("NCCL error in: /pytorch/torch/csrc/NCCLUtils.cpp:94, remote process exited "
                       "or there was a network error, NCCL version 2.28.9\nmore"),
            "remote process exited or there was a network error, NCCL version 2.28.9");
  EXPECT_EQ(nccl_cause("CUDA error: an illegal memory access was encountered\nCUDA kernel errors"),
            "CUDA error: an illegal memory access was encountered");
  EXPECT_EQ(nccl_cause(""), "");
}

}  // namespace
}  // namespace lockstep::comm
