#include "lockstep/engine/values/run_summary.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "lockstep/base/error.h"

namespace lockstep::engine {
namespace {

RunSummary a_summary() {
  RunSummary summary;
  summary.config_hash = "ef";
  summary.steps = 1876;
  summary.first_step = 1001;
  summary.steps_this_run = 876;
  summary.final_loss = 0.0931;
  summary.eval = EvalReport{1876, 0.2104, 0.9287, std::nullopt, 10000, 3.1};
  summary.samples_or_tokens_per_s = 1284.5;
  summary.train_s = 186.4;
  summary.mfu = 0.41;
  summary.mean_times = {0.0991, 0.001, 0.033, 0.055, 0.008, 0.002};
  summary.peak_memory_bytes = {412000000, 409000000};
  summary.planned = {1, 2, 3, 4, 5, 6, 7};
  summary.measured = {10, 20, 30, 40, 50, 60, 70};
  summary.planned_step_s = 0.095;
  summary.measured_step_s = 0.0984;
  summary.planned_comm_bytes = 1088000;
  summary.measured_comm_bytes = 1088008;
  summary.parameters_sha256 = "ab";
  summary.state_sha256 = "cd";
  summary.run_dir = "runs/resnet20";
  return summary;
}

TEST(RunSummary, HasTheKeysOfTheContract) {
  const auto json = nlohmann::json::parse(to_json_text(a_summary()));
  EXPECT_EQ(json["status"], "done");
  EXPECT_EQ(json["first_step"], 1001);
  EXPECT_EQ(json["steps_this_run"], 876);
  EXPECT_EQ(json["eval"]["accuracy"], 0.9287);
  EXPECT_EQ(json["samples_per_s"], 1284.5);
  EXPECT_FALSE(json.contains("tokens_per_s"));
  EXPECT_EQ(json["peak_memory_bytes"], nlohmann::json({412000000, 409000000}));
  EXPECT_EQ(json["memory"]["activations"]["planned_bytes"], 4);
  EXPECT_EQ(json["memory"]["activations"]["measured_bytes"], 40);
  EXPECT_EQ(json["memory"].size(), 7U);
  EXPECT_EQ(json["step_s"]["planned"], 0.095);
  EXPECT_EQ(json["comm_bytes"]["measured"], 1088008);
  for (const char* key :
       {"steps", "final_loss", "mfu", "train_s", "parameters_sha256", "state_sha256"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
}

TEST(RunSummary, SurvivesTheTripThroughItsText) {
  RunSummary sent = a_summary();
  EXPECT_EQ(to_json_text(summary_from_json_text(to_json_text(sent))), to_json_text(sent));
  sent.counts_tokens = true;
  sent.eval = std::nullopt;
  const RunSummary got = summary_from_json_text(to_json_text(sent));
  EXPECT_TRUE(got.counts_tokens);
  EXPECT_FALSE(got.eval);
  EXPECT_EQ(got.measured.runtime, 70);
}

// Version 0.1 wrote summaries without these fields: a kept one must still be readable.
TEST(RunSummary, WithoutTheYoungerFieldsItIsOfARunFromTheStart) {
  auto old = nlohmann::json::parse(to_json_text(a_summary()));
  for (const char* key : {"config_hash", "first_step", "steps_this_run", "skipped_steps"}) {
    old.erase(key);
  }
  const RunSummary got = summary_from_json_text(old.dump());
  EXPECT_EQ(got.first_step, 1);
  EXPECT_EQ(got.steps_this_run, 1876);
  EXPECT_EQ(got.config_hash, "");
}

TEST(RunSummary, KeepsWhatWasFoundOutAboutRanksAndGradients) {
  RunSummary sent = a_summary();
  EXPECT_EQ(to_json_text(sent).find("straggler"), std::string::npos);
  sent.per_rank = {{0.1, 0, 0.03, 0.05, 0.015, 0.005}, {0.1, 0, 0.03, 0.062, 0.003, 0.005}};
  sent.hosts = {"node1", "node2"};
  sent.straggler = 1;
  sent.gradient_check = GradientCheckReport{1e-6, "w", 1e-4, true, 1, "", {}, 0.1};
  sent.parameter_use = parallel::ParameterUse{{"a"}, {}};
  const auto json = nlohmann::json::parse(to_json_text(sent));
  EXPECT_EQ(json["straggler"]["rank"], 1);
  EXPECT_EQ(json["straggler"]["phase"], "backward");
  EXPECT_NEAR(json["straggler"]["others_wait_s"].get<double>(), 0.012, 1e-9);
  EXPECT_EQ(json["hosts"][1], "node2");
  const RunSummary got = summary_from_json_text(to_json_text(sent));
  EXPECT_EQ(to_json_text(got), to_json_text(sent));
  EXPECT_EQ(got.straggler, 1);
  auto wrong = json;
  wrong["straggler"]["rank"] = 2;
  EXPECT_THROW((void)summary_from_json_text(wrong.dump()), BadData);
}

TEST(RunSummary, EveryFieldThatIsMissingOrWrongIsBadData) {
  const auto good = nlohmann::json::parse(to_json_text(a_summary()));
  const std::set<std::string> optional{"eval", "config_hash", "first_step", "steps_this_run",
                                       "skipped_steps"};
  for (const auto& [key, value] : good.items()) {
    auto wrong = good;
    wrong[key] = nlohmann::json::array({"x"});
    EXPECT_THROW((void)summary_from_json_text(wrong.dump()), BadData) << key;
    if (optional.contains(key)) continue;
    auto missing = good;
    missing.erase(key);
    EXPECT_THROW((void)summary_from_json_text(missing.dump()), BadData) << key;
  }
  EXPECT_THROW((void)summary_from_json_text("{"), BadData);
}

}  // namespace
}  // namespace lockstep::engine
