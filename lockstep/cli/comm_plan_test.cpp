#include "lockstep/cli/comm_plan.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/cli/command.h"
#include "lockstep/cli/mpi_peer.h"
#include "lockstep/cli/parser.h"

namespace lockstep::cli {
namespace {

using bench::Collective;

CommPlan plan_of(const std::vector<std::string>& words) {
  const ParsedArgs parsed = parse_args(*find_command("bench comm"), words);
  EXPECT_TRUE(parsed.problems.empty());
  return comm_plan(parsed.args);
}

std::vector<Problem> problems_of(const std::vector<std::string>& words) {
  try {
    (void)plan_of(words);
  } catch (const UsageError& error) {
    return error.problems();
  }
  return {};
}

TEST(CommPlan, WithoutFlagsTwoRanksAllReduceFromFourBytesTo64MiB) {
  const CommPlan plan = plan_of({});
  EXPECT_EQ(plan.ranks, std::vector<int>{2});
  EXPECT_EQ(plan.request.ops, std::vector<Collective>{Collective::all_reduce});
  EXPECT_EQ(plan.request.bytes.size(), 7U);
  EXPECT_EQ(plan.request.bytes.back(), 64 << 20);
  EXPECT_EQ(plan.request.rounds, 5);
  EXPECT_EQ(plan.against(), "");
}

TEST(CommPlan, ListsAreReadFromOneFlagOrSeveral) {
  const CommPlan plan =
      plan_of({"--op", "all_gather,barrier", "--op", "broadcast", "--op", "barrier", "--ranks",
               "4,2", "--rounds", "3", "--backend", "gloo"});
  EXPECT_EQ(plan.request.ops, (std::vector<Collective>{Collective::all_gather, Collective::barrier,
                                                       Collective::broadcast}));
  EXPECT_EQ(plan.ranks, (std::vector<int>{2, 4}));
  EXPECT_EQ(plan.request.rounds, 3);
  EXPECT_EQ(plan.request.backend, "gloo");
}

TEST(CommPlan, MpiIsAProgramAndGlooABackendOfTheSameRanks) {
  const CommPlan mpi = plan_of({"--against", "mpi"});
  EXPECT_TRUE(mpi.against_mpi);
  EXPECT_EQ(mpi.against(), "mpi");
  EXPECT_TRUE(mpi.request.against.empty());
  const CommPlan gloo = plan_of({"--against", "gloo"});
  EXPECT_FALSE(gloo.against_mpi);
  EXPECT_EQ(gloo.request.against, "gloo");
}

TEST(CommPlan, SizesTakeBinarySuffixesWithAndWithoutTheB) {
  std::vector<Problem> problems;
  EXPECT_EQ(parse_sizes("64Mi,4,1Ki,2KiB,4B,1kB", problems),
            (std::vector<std::int64_t>{4, 1000, 1024, 2048, 64 << 20}));
  EXPECT_TRUE(problems.empty());
}

TEST(CommPlan, EveryBadSizeIsNamed) {
  std::vector<Problem> problems;
  (void)parse_sizes("0,-4,x,,5Qi,2TiB,8", problems);
  EXPECT_EQ(problems.size(), 6U);
  for (const Problem& problem : problems) EXPECT_EQ(problem.where, "--sizes");
}

TEST(CommPlan, MisspeltWordsGetTheNearestNameAndAllFaultsAreFound) {
  const auto problems = problems_of({"--op", "allreduce,sort", "--backend", "glo", "--against",
                                     "mpy", "--sizes", "0", "--ranks", "0"});
  ASSERT_EQ(problems.size(), 6U);
  EXPECT_EQ(problems[0].where, "--ranks");
  EXPECT_EQ(problems[1].fix, "did you mean gloo?");
  EXPECT_EQ(problems[2].fix, "did you mean mpi?");
  EXPECT_EQ(problems[3].fix, "did you mean all_reduce?");
  EXPECT_NE(problems[4].fix.find("reduce_scatter"), std::string::npos) << "nothing is near: all";
  EXPECT_EQ(problems[5].where, "--sizes");
}

TEST(CommPlan, SymmetricMemoryIsForAllReduceAlone) {
  EXPECT_TRUE(plan_of({"--symmetric"}).request.symmetric);
  EXPECT_EQ(problems_of({"--symmetric", "--op", "broadcast"}).size(), 1U);
}

TEST(CommPlan, TwoHostsNeedThreeRanks) {
  EXPECT_EQ(plan_of({"--backend", "shm+gloo", "--ranks", "3,4"}).request.backend, "shm+gloo");
  const auto problems = problems_of({"--backend", "shm+gloo", "--ranks", "2,4"});
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems[0].fix, "use --ranks 4 with --backend shm+gloo");
}

TEST(CommPlan, ARoundHasASampleASizeAndOneForABarrier) {
  EXPECT_EQ(
      samples_a_round(plan_of({"--op", "all_reduce,barrier", "--sizes", "4,1Ki,1Mi"}).request), 4U);
}

TEST(MpiPeer, TheCommandCarriesTheRequest) {
  bench::Request request = plan_of({"--op", "all_reduce,barrier", "--sizes", "4,1Ki"}).request;
  request.first_round = 3;
  request.pin = false;
  const auto command = mpi_command({"mpirun", "peer"}, request, 4);
  const std::vector<std::string> end(command.end() - 9, command.end());
  EXPECT_EQ(end, (std::vector<std::string>{"-np", "4", "peer", "3", "30", "10",
                                           "all_reduce,barrier", "4", "1024"}));
  EXPECT_NE(std::find(command.begin(), command.end(), "none"), command.end()) << "--bind-to";
  EXPECT_NE(std::find(command.begin(), command.end(), "--timeout"), command.end());
}

}  // namespace
}  // namespace lockstep::cli
