#include "lockstep/cli/plan_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "lockstep/cli/parser.h"
#include "lockstep/topology/machine.h"

namespace lockstep::cli {
namespace {

Args args_of(const std::vector<std::string>& words) {
  const ParsedArgs parsed = parse_args(*find_command("plan"), words);
  EXPECT_TRUE(parsed.problems.empty());
  return parsed.args;
}

planner::ClusterJob job_of(const std::vector<std::string>& words) {
  return read_cluster_job(args_of(words));
}

TEST(PlanFlags, ReadParametersAsPeopleWriteThem) {
  EXPECT_EQ(read_parameters("7e9"), 7e9);
  EXPECT_EQ(read_parameters("6805e6"), 6805e6);
  EXPECT_EQ(read_parameters("6805M"), 6805e6);
  EXPECT_EQ(read_parameters("7B"), 7e9);
  EXPECT_EQ(read_parameters("0.5b"), 0.5e9);
  EXPECT_EQ(read_parameters("1.5T"), 1.5e12);
  for (const char* text : {"", "B", "7x", "-7e9", "0", "nan", "inf", "7 B", "7e9B9"}) {
    EXPECT_FALSE(read_parameters(text).has_value()) << text;
  }
}

TEST(PlanFlags, GiveTheThirdBatchNumber) {
  const auto layout = [](std::vector<std::string> words) {
    words.insert(words.end(), {"--model", "gpt2", "--gpus", "4"});
    return job_of(words).layout;
  };
  EXPECT_EQ(layout({"--global-batch", "64", "--micro-batch", "4"}).accumulation, 4);
  EXPECT_EQ(layout({"--global-batch", "64", "--accumulation", "2"}).micro_batch, 8);
  EXPECT_EQ(layout({"--micro-batch", "2", "--accumulation", "3"}).global_batch(), 24);
  EXPECT_EQ(layout({"--global-batch", "64"}).accumulation, 16);
  EXPECT_EQ(layout({}).global_batch(), 4);
}

TEST(PlanFlags, LeaveTheOtherDevicesToDataRanks) {
  const parallel::Layout layout =
      job_of({"--model", "gpt2-xl", "--gpus", "16", "--pipeline", "4", "--context", "2"}).layout;
  EXPECT_EQ(layout.data, 2);
  EXPECT_EQ(layout.accumulation, 16);  // four for each stage
  EXPECT_EQ(job_of({"--model", "gpt2", "--data", "3", "--gpu", "A100-80G"}).machine->devices, 3);
}

TEST(PlanFlags, OffloadParametersWhereTheyAreShared) {
  const auto layout = [](const char* zero) {
    return job_of({"--model", "gpt2", "--gpus", "4", "--zero", zero, "--offload", "cpu"}).layout;
  };
  EXPECT_EQ(layout("2").offload_optimizer, parallel::Offload::cpu);
  EXPECT_EQ(layout("2").offload_parameters, parallel::Offload::none);
  EXPECT_EQ(layout("3").offload_parameters, parallel::Offload::cpu);
}

TEST(PlanFlags, TakeUnevenCuts) {
  const auto cuts = [](const char* text) {
    return job_of({"--model", "gpt2", "--pipeline", "2", "--cuts", text}).layout.cuts;
  };
  EXPECT_THAT(cuts("5,7"), testing::ElementsAre(5, 7));
  for (const char* text : {"5,", "x", "5;7", "5,8", ",", "-1,13"}) {
    EXPECT_THROW((void)cuts(text), UsageError) << text;
  }
}

TEST(PlanFlags, OfferThePrecisionsThatThereAre) {
  for (const Flag& flag : plan_flags()) {
    if (flag.name != "--precision") continue;
    for (const parallel::PrecisionRecipe& recipe : parallel::precision_recipes()) {
      EXPECT_NE(("|" + std::string(flag.offers) + "|").find("|" + std::string(recipe.name) + "|"),
                std::string::npos)
          << recipe.name;
    }
  }
}

TEST(PlanFlags, OfHugeNumbersAreStillAPlanOrARefusal) {
  EXPECT_NO_THROW((void)job_of({"--params", "1e14", "--gpus", "1000000", "--zero", "3"}));
  EXPECT_THROW((void)job_of({"--model", "gpt2", "--data", "1000000", "--tensor", "10000",
                             "--pipeline", "10000", "--context", "10000", "--micro-batch",
                             "1000000", "--accumulation", "1000000"}),
               UsageError);
}

}  // namespace
}  // namespace lockstep::cli
