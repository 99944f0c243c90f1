#include "lockstep/rundir/run_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

namespace lockstep::rundir {
namespace {

Host some_host() {
  Host host;
  host.cores = 2;
  host.memory_bytes = 8'000'000'000;
  return host;
}

/// What a run of this configuration on two ranks ends with.
struct Found {
  Exit exit = Exit::ok;
  std::vector<Problem> problems;
  [[nodiscard]] bool has(std::string_view where, std::string_view code) const {
    return std::any_of(problems.begin(), problems.end(), [&](const Problem& problem) {
      return problem.where.starts_with(where) && problem.code == code;
    });
  }
};

Found found(const std::vector<std::string>& sets) {
  RunCheck check(config::parse_run_config("", "", sets));
  auto plan = check.plan(check.config(), some_host(), 2);
  check.check_data();
  try {
    (void)check.checked(std::move(plan));
  } catch (const Error& error) {
    return {error.exit(), error.problems()};
  }
  return {};
}

TEST(RunCheck, FindsFaultsOfKeysBatchModelAndDataTogether) {
  const Found faults = found({"optimizer.lr=fast", "batch.global_batch=15", "data.format=idx",
                              "model.layers=0", "data.train=/nowhere"});
  EXPECT_EQ(faults.exit, Exit::usage);
  EXPECT_TRUE(faults.has("--set optimizer.lr", "LS-1004")) << to_text(faults.problems);
  EXPECT_TRUE(faults.has("batch.global_batch", "LS-1009")) << to_text(faults.problems);
}

TEST(RunCheck, FindsFaultsOfBatchAndDataTogether) {
  const Found faults = found({"batch.global_batch=15", "data.format=idx", "data.train=/nowhere"});
  EXPECT_EQ(faults.exit, Exit::usage) << "the configuration is at fault too";
  EXPECT_TRUE(faults.has("batch.global_batch", "LS-1009")) << to_text(faults.problems);
  EXPECT_TRUE(faults.has("data.train", "LS-2001")) << to_text(faults.problems);
}

TEST(RunCheck, MissingDataAloneAreAFaultOfTheMachine) {
  const Found faults =
      found({"data.format=idx", "data.train=/nowhere", "data.eval=/nowhere/either"});
  EXPECT_EQ(faults.exit, Exit::environment);
  EXPECT_EQ(faults.problems.size(), 2U) << to_text(faults.problems);
}

TEST(RunCheck, LeavesOutWhatFollowsFromAnEarlierFault) {
  const Found faults = found({"batch.global_bacth=16", "batch.micro_batch=3",
                              "batch.accumulation=3", "batch.global_batch=7"});
  ASSERT_EQ(faults.problems.size(), 1U) << to_text(faults.problems);
  EXPECT_EQ(faults.problems.front().code, "LS-1003");
}

TEST(RunCheck, GivesThePlanOfASoundRun) {
  RunCheck check(config::parse_run_config("", "", {"batch.global_batch=16"}));
  auto plan = check.plan(check.config(), some_host(), 2);
  check.check_data();
  EXPECT_NO_THROW(check.require_none());
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->batch.micro_batch, 8);
  EXPECT_EQ(check.checked(std::move(plan)).data_size.samples_per_epoch,
            data::kDefaultSyntheticSamples);
}

}  // namespace
}  // namespace lockstep::rundir
