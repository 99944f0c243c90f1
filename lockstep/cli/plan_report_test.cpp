#include "lockstep/cli/plan_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace lockstep::cli {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kGb = 1'000'000'000;

Host host_of(int cores, std::int64_t memory_bytes) {
  Host host;
  host.cores = cores;
  host.memory_bytes = memory_bytes;
  host.memory_free_bytes = memory_bytes;
  return host;
}

config::RunConfig small_gpt() {
  config::RunConfig config;
  config.model.family = config::Family::gpt;
  config.model.width = 384;
  config.model.layers = 6;
  config.batch.global_batch = 16;
  config.run.steps = 100;
  return config;
}

nlohmann::json json_of(const PlanReport& report) {
  return nlohmann::json::parse(plan_json(report));
}

TEST(PlanReport, JsonHasEveryKeyOfTheContract) {
  const auto json = json_of(make_plan_report(small_gpt(), host_of(2, 16 * kGb), 2, false));
  for (const char* key : {"parameters", "fits", "memory_bytes", "device_memory_bytes", "step_s",
                          "tokens_per_s", "tflops_per_device", "mfu", "bubble_fraction",
                          "exposed_comm_s", "comm_bytes_per_step", "time_to_train_s", "layout",
                          "alternatives", "distribute", "advice", "assumptions", "error_band"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
  for (const char* key : {"data", "zero", "tensor", "pipeline", "sequence", "micro_batch",
                          "accumulation", "schedule", "recompute", "offload"}) {
    EXPECT_TRUE(json.at("layout").contains(key)) << key;
    for (const auto& other : json.at("alternatives")) EXPECT_TRUE(other.contains(key)) << key;
  }
  for (const char* key : {"needed", "expected_speedup", "reasons"}) {
    EXPECT_TRUE(json.at("distribute").contains(key)) << key;
  }
}

TEST(PlanReport, TheTotalIsTheSumOfTheCategories) {
  const auto memory =
      json_of(make_plan_report(small_gpt(), host_of(2, 16 * kGb), 2, false)).at("memory_bytes");
  std::int64_t sum = 0;
  for (const char* key : {"parameters", "gradients", "optimizer", "activations", "buffers",
                          "communication", "runtime"}) {
    sum += memory.at(key).get<std::int64_t>();
  }
  EXPECT_EQ(memory.at("total"), sum);
}

TEST(PlanReport, RanksOfAHostShareItsMemory) {
  const auto json = json_of(make_plan_report(small_gpt(), host_of(4, 16 * kGb), 4, false));
  EXPECT_EQ(json.at("device_memory_bytes"), 4 * kGb);
  EXPECT_EQ(json.at("layout").at("data"), 4);
}

TEST(PlanReport, StatesOnlyLeavesTheRestOut) {
  const PlanReport report = make_plan_report(small_gpt(), host_of(2, 16 * kGb), 1, true);
  const parallel::MemoryPlan& memory = report.chosen.plan.memory;
  EXPECT_GT(memory.parameters, 0);
  EXPECT_EQ(memory.total(), memory.parameters + memory.gradients + memory.optimizer);
}

TEST(PlanReport, WhatDoesNotFitSaysSoAndAdvises) {
  const PlanReport report = make_plan_report(small_gpt(), host_of(2, kGb / 10), 1, false);
  EXPECT_FALSE(report.chosen.fits());
  EXPECT_TRUE(report.distribution_needed);
  ASSERT_FALSE(report.advice.empty());
  EXPECT_THAT(report.advice.front().because, HasSubstr("do not fit"));
  EXPECT_EQ(json_of(report).at("fits"), false);
}

TEST(PlanReport, MoreRanksThanCoresIsAdvisedAgainst) {
  const PlanReport report = make_plan_report(small_gpt(), host_of(2, 64 * kGb), 8, false);
  ASSERT_FALSE(report.advice.empty());
  EXPECT_EQ(report.advice.front().say, "use at most 2 ranks");
}

TEST(PlanReport, AlternativesKeepTheGlobalBatch) {
  const PlanReport report = make_plan_report(small_gpt(), host_of(4, 64 * kGb), 2, false);
  ASSERT_FALSE(report.alternatives.empty());
  for (const PricedPlan& other : report.alternatives) {
    EXPECT_EQ(other.plan.batch.global_batch, 16);
    EXPECT_NE(other.ranks(), 2);
  }
}

TEST(PlanReport, PeopleGetABarForEachCategoryAndAMarginInsteadOfABareNumber) {
  const PlanReport report = make_plan_report(small_gpt(), host_of(2, 16 * kGb), 2, false);
  const std::string text = plan_for_people(report, 100, {.color = false, .utf8 = false});
  for (const char* word : {"parameters", "gradients", "optimizer", "activations", "total",
                           "fits into", "give or take", "data_parallel on 2 ranks"}) {
    EXPECT_THAT(text, HasSubstr(word));
  }
}

TEST(PlanReport, ABatchThatDoesNotDivideIsAUsageError) {
  config::RunConfig config = small_gpt();
  config.batch.global_batch = 15;
  EXPECT_THROW((void)make_plan_report(config, host_of(2, 16 * kGb), 2, false), UsageError);
}

}  // namespace
}  // namespace lockstep::cli
