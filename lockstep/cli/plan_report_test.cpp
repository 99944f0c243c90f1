#include "lockstep/cli/plan_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <string>

#include "lockstep/cli/commands.h"
#include "lockstep/planner/planner.h"

namespace lockstep::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

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

/// Of a run that was checked.
PlanReport report_of(const config::RunConfig& config, const Host& host, int ranks,
                     bool states_only) {
  const data::DataSize size = data::data_size(config.data);
  return make_plan_report(
      {config, planner::make_plan(config, host, ranks, size.resident_bytes), size, {}}, host,
      states_only);
}

nlohmann::json json_of(const PlanReport& report) {
  return nlohmann::json::parse(plan_json(report));
}

TEST(PlanReport, JsonHasEveryKeyOfTheContract) {
  const auto json = json_of(report_of(small_gpt(), host_of(2, 16 * kGb), 2, false));
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

/// The keys that `lockstep plan --help` promises of --json; remarks on them are in parentheses.
std::set<std::string> keys_in_help() {
  const std::string text = std::regex_replace(std::string(plan_command().json),
                                              std::regex(R"( \([^)]*\)|^[^:]*: |\.$)"), "");
  const std::regex between(", | or ");
  return {std::sregex_token_iterator(text.begin(), text.end(), between, -1), {}};
}

TEST(PlanReport, TheHelpNamesTheKeysThatTheDocumentsOfASampleAndOfATokenModelHave) {
  std::set<std::string> keys;
  for (const config::RunConfig& config : {small_gpt(), config::RunConfig()}) {
    PlanReport report = report_of(config, host_of(2, 16 * kGb), 2, false);
    report.search.emplace();
    const auto json = json_of(report);
    for (const auto& [key, value] : json.items()) keys.insert(key);
  }
  EXPECT_EQ(keys_in_help(), keys);
}

TEST(PlanReport, TheTotalIsTheSumOfTheCategories) {
  const auto memory =
      json_of(report_of(small_gpt(), host_of(2, 16 * kGb), 2, false)).at("memory_bytes");
  std::int64_t sum = 0;
  for (const char* key : {"parameters", "gradients", "optimizer", "activations", "buffers",
                          "communication", "runtime"}) {
    sum += memory.at(key).get<std::int64_t>();
  }
  EXPECT_EQ(memory.at("total"), sum);
}

TEST(PlanReport, RanksOfAHostShareItsMemory) {
  const auto json = json_of(report_of(small_gpt(), host_of(4, 16 * kGb), 4, false));
  EXPECT_EQ(json.at("device_memory_bytes"), 36 * kGb / 10) << "a tenth stays free";
  EXPECT_EQ(json.at("layout").at("data"), 4);
}

TEST(PlanReport, StatesOnlyLeavesTheRestOut) {
  const PlanReport report = report_of(small_gpt(), host_of(2, 16 * kGb), 1, true);
  const parallel::MemoryPlan& memory = report.chosen.plan.memory;
  EXPECT_GT(memory.parameters, 0);
  EXPECT_EQ(memory.total(), memory.parameters + memory.gradients + memory.optimizer);
}

TEST(PlanReport, StatesOnlySaysNothingOfWhatItDoesNotCount) {
  const PlanReport report = report_of(small_gpt(), host_of(2, 16 * kGb), 2, true);
  const std::string text = plan_for_people(report, 100, {.color = false, .utf8 = false});
  EXPECT_THAT(text, HasSubstr("optimizer"));
  for (const char* word : {"activations", "runtime ", "one step", "samples/s"}) {
    EXPECT_THAT(text, Not(HasSubstr(word)));
  }
}

std::size_t filled(const std::string& text, const std::string& label) {
  const std::size_t from = text.find("\n  " + label);
  const std::string line = text.substr(from + 1, text.find('\n', from + 1) - from - 1);
  return static_cast<std::size_t>(std::count(line.begin(), line.end(), '#'));
}

TEST(PlanReport, BarsOfMemoryHaveOneScale) {
  const PlanReport report = report_of(small_gpt(), host_of(2, 1000 * kGb), 2, false);
  const std::string text = plan_for_people(report, 100, {.color = false, .utf8 = false});
  std::size_t parts = 0;
  for (const char* label : {"parameters", "gradients", "optimizer", "activations", "runtime"}) {
    EXPECT_LT(filled(text, label), filled(text, "total")) << label;
    parts += filled(text, label);
  }
  EXPECT_NEAR(static_cast<double>(parts), static_cast<double>(filled(text, "total")), 5);
}

TEST(PlanReport, TheWholeRunIsKnownFromEpochsAndSamplesToo) {
  config::RunConfig config = small_gpt();
  config.run.steps.reset();
  config.data.train_samples = 160;
  PlanReport report = report_of(config, host_of(2, 16 * kGb), 2, false);
  EXPECT_EQ(report.steps, 10) << "one epoch";
  EXPECT_GT(json_of(report).at("time_to_train_s"), 0);
  EXPECT_THAT(plan_for_people(report, 100, {.color = false, .utf8 = false}),
              HasSubstr("1 epoch, as run.steps and run.epochs are unset: 10 steps"));
  config.run.epochs = 2.5;
  EXPECT_EQ(report_of(config, host_of(2, 16 * kGb), 2, false).steps, 25);
  config.data.format = config::DataFormat::text;
  config.data.train = "!never run";
  report = report_of(config, host_of(2, 16 * kGb), 2, false);
  EXPECT_FALSE(report.steps.has_value());
  EXPECT_TRUE(json_of(report).at("time_to_train_s").is_null());
}

TEST(PlanReport, MoreRanksThanCoresPromiseNoSpeedup) {
  config::RunConfig config = small_gpt();
  config.batch.global_batch = 64;
  const double one = report_of(config, host_of(2, 640 * kGb), 1, false).chosen.samples_per_s;
  const double two = report_of(config, host_of(2, 640 * kGb), 2, false).chosen.samples_per_s;
  const double many = report_of(config, host_of(2, 640 * kGb), 64, false).chosen.samples_per_s;
  EXPECT_GT(two, one);
  EXPECT_LT(many, two);
}

TEST(PlanReport, TheReasonIsASentenceForOneRankToo) {
  const PlanReport report = report_of(small_gpt(), host_of(1, 16 * kGb), 1, false);
  ASSERT_FALSE(report.reasons.empty());
  EXPECT_THAT(report.reasons.back(), HasSubstr("no rank count here is faster than 1 rank"));
}

TEST(PlanReport, WhatDoesNotFitSaysSoAndAdvises) {
  const PlanReport report = report_of(small_gpt(), host_of(2, kGb / 10), 1, false);
  EXPECT_FALSE(report.chosen.fits());
  EXPECT_TRUE(report.distribution_needed);
  ASSERT_FALSE(report.advice.empty());
  EXPECT_THAT(report.advice.front().because, HasSubstr("do not fit"));
  EXPECT_EQ(json_of(report).at("fits"), false);
}

TEST(PlanReport, MoreRanksThanCoresIsAdvisedAgainst) {
  const PlanReport report = report_of(small_gpt(), host_of(2, 64 * kGb), 8, false);
  ASSERT_FALSE(report.advice.empty());
  EXPECT_EQ(report.advice.front().say, "use at most 2 ranks");
}

TEST(PlanReport, AlternativesKeepTheGlobalBatch) {
  const PlanReport report = report_of(small_gpt(), host_of(4, 64 * kGb), 2, false);
  ASSERT_FALSE(report.alternatives.empty());
  for (const PricedPlan& other : report.alternatives) {
    EXPECT_EQ(other.plan.batch.global_batch, 16);
    EXPECT_NE(other.ranks(), 2);
  }
}

TEST(PlanReport, PeopleGetABarForEachCategoryAndAMarginInsteadOfABareNumber) {
  const PlanReport report = report_of(small_gpt(), host_of(2, 16 * kGb), 2, false);
  const std::string text = plan_for_people(report, 100, {.color = false, .utf8 = false});
  for (const char* word : {"parameters", "gradients", "optimizer", "activations", "total",
                           "fits into", "give or take", "data_parallel on 2 ranks"}) {
    EXPECT_THAT(text, HasSubstr(word));
  }
}

TEST(PlanReport, SaysWhichMicroBatchWasFoundAndWhy) {
  PlanReport report = report_of(small_gpt(), host_of(2, 16 * kGb), 2, false);
  EXPECT_FALSE(json_of(report).contains("micro_batch"));
  parallel::ParallelPlan finer = report.chosen.plan;
  finer.batch.micro_batch = 4;
  finer.batch.accumulation = 2;
  report.search = planner::BatchSearch{{finer}, true, 7 * kGb, "", "", "micro_batch 8: it fits"};
  const auto json = json_of(report).at("micro_batch");
  EXPECT_EQ(json.at("because"), "micro_batch 8: it fits");
  EXPECT_EQ(json.at("memory_limit_bytes"), 7 * kGb);
  EXPECT_EQ(json.at("will_probe"), true);
  ASSERT_EQ(json.at("candidates").size(), 2U);
  EXPECT_EQ(json.at("candidates")[0].at("micro_batch"), 8);
  EXPECT_EQ(json.at("candidates")[1].at("accumulation"), 2);
  EXPECT_THAT(plan_for_people(report, 100, {.color = false, .utf8 = false}),
              HasSubstr("micro_batch 8: it fits; a training first tries it and finer ones"));
}

TEST(PlanReport, ABatchThatDoesNotDivideIsAUsageError) {
  config::RunConfig config = small_gpt();
  config.batch.global_batch = 15;
  EXPECT_THROW((void)report_of(config, host_of(2, 16 * kGb), 2, false), UsageError);
}

}  // namespace
}  // namespace lockstep::cli
