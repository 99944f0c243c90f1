#include "lockstep/engine/values/step_report.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/engine/values/phase_rows.h"

namespace lockstep::engine {
namespace {

StepReport a_report() {
  StepReport report;
  report.step = 7;
  report.total_steps = 100;
  report.epoch = 0.07;
  report.loss = 1.0 / 3;
  report.lr = 1e-3;
  report.grad_norm = 2.5;
  report.samples = 128;
  report.times = {0.1, 0.01, 0.02, 0.04, 0.005, 0.015};
  report.per_rank = {{0.1, 0.01, 0.02, 0.04, 0.005, 0.015}, {0.1, 0.02, 0.02, 0.03, 0.015, 0.01}};
  report.peak_rss_bytes = 123456789012;
  report.comm_bytes = 1100000;
  return report;
}

TEST(StepReport, TheLineHasTheKeysOfTheContract) {
  const auto line = nlohmann::json::parse(to_json_text(a_report()));
  for (const char* key :
       {"step", "epoch", "loss", "lr", "grad_norm", "samples", "step_s", "data_s", "forward_s",
        "backward_s", "sync_s", "optimizer_s", "peak_rss_bytes", "comm_bytes", "per_rank"}) {
    EXPECT_TRUE(line.contains(key)) << key;
  }
  EXPECT_FALSE(line.contains("tokens"));
  EXPECT_EQ(line["per_rank"]["data_s"], nlohmann::json({0.01, 0.02}));
}

TEST(StepReport, EachRankComputesAndWaits) {
  const auto line = nlohmann::json::parse(to_json_text(a_report()));
  EXPECT_EQ(line["per_rank"]["compute_s"][0], 0.1 - 0.005);
  EXPECT_EQ(line["per_rank"]["wait_s"], nlohmann::json({0.005, 0.015}));
}

TEST(StepReport, BucketsHaveTheirTimesInWholeMicroseconds) {
  StepReport sent = a_report();
  sent.buckets = {{"bucket 0: head.weight .. head.bias", 40960, 0.01234567, 0.0124, 0.0201, 0}};
  const std::string text = to_json_text(sent);
  const auto bucket = nlohmann::json::parse(text)["buckets"][0];
  EXPECT_EQ(bucket["name"], "bucket 0: head.weight .. head.bias");
  EXPECT_EQ(bucket["bytes"], 40960);
  EXPECT_EQ(bucket["ready_s"], 0.012346);
  EXPECT_EQ(bucket["issued_s"], 0.0124);
  EXPECT_EQ(bucket["done_s"], 0.0201);
  EXPECT_EQ(bucket["wait_s"], 0);
  EXPECT_EQ(to_json_text(step_report_from_json(text)), text);
}

TEST(StepReport, ACheckOfTheGradientsAndTheUseOfParametersTravelWithTheirStep) {
  StepReport sent = a_report();
  sent.gradient_check = {3e-3, "fc1.weight", 1e-4, false, 4, "time", 1e-7, 0.5};
  sent.parameter_use = parallel::ParameterUse{{"a", "b"}, {{"c", {0, 2}}}};
  const auto line = nlohmann::json::parse(to_json_text(sent));
  EXPECT_EQ(line["gradient_check"]["worst_relative"], 3e-3);
  EXPECT_EQ(line["gradient_check"]["parameter"], "fc1.weight");
  EXPECT_EQ(line["parameter_use"]["never"], nlohmann::json({"a", "b"}));
  const StepReport got = step_report_from_json(to_json_text(sent));
  EXPECT_EQ(got.parameter_use, sent.parameter_use);
  ASSERT_TRUE(got.gradient_check);
  EXPECT_EQ(got.gradient_check->parts, 4);
  EXPECT_EQ(got.gradient_check->cut_for, "time");
  EXPECT_FALSE(got.gradient_check->passed);
  EXPECT_EQ(got.gradient_check->micro_batches_relative, 1e-7);
  sent.gradient_check->worst_relative = std::numeric_limits<double>::quiet_NaN();
  sent.gradient_check->micro_batches_relative.reset();
  const StepReport again = step_report_from_json(to_json_text(sent));
  EXPECT_TRUE(std::isnan(again.gradient_check->worst_relative));
  EXPECT_FALSE(again.gradient_check->micro_batches_relative);
}

TEST(StepReport, TellsTheLossScaleAndWhereASkippedStepWasNotFinite) {
  StepReport sent = a_report();
  EXPECT_EQ(to_json_text(sent).find("loss_scale"), std::string::npos) << "nothing was scaled";
  sent.skipped = true;
  sent.loss_scale = 32768;
  sent.not_finite = {1, "output of blocks.3"};
  sent.warning = "the loss scale is at its minimum of 1";
  const auto line = nlohmann::json::parse(to_json_text(sent));
  EXPECT_EQ(line["loss_scale"], 32768);
  EXPECT_EQ(line["skipped"], true);
  EXPECT_EQ(line["not_finite"]["rank"], 1);
  const StepReport got = step_report_from_json(to_json_text(sent));
  EXPECT_EQ(got.loss_scale, sent.loss_scale);
  EXPECT_EQ(got.not_finite, sent.not_finite);
  EXPECT_EQ(got.warning, sent.warning);
}

TEST(StepReport, SurvivesTheTripThroughItsLineBitForBit) {
  const StepReport sent = a_report();
  const std::string line = to_json_text(sent);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const StepReport got = step_report_from_json(line);
  EXPECT_EQ(to_json_text(got), line);
  EXPECT_EQ(got.loss, sent.loss);
  EXPECT_EQ(got.per_rank.at(1).sync_s, 0.015);
  EXPECT_EQ(got.peak_rss_bytes, sent.peak_rss_bytes);
}

TEST(StepReport, ALossThatIsNotFiniteArrivesAsNan) {
  StepReport sent = a_report();
  sent.loss = std::numeric_limits<double>::infinity();
  sent.skipped = true;
  const StepReport got = step_report_from_json(to_json_text(sent));
  EXPECT_TRUE(std::isnan(got.loss));
  EXPECT_TRUE(got.skipped);
}

TEST(StepReport, ANormThatWasNotComputedIsLeftOut) {
  StepReport sent = a_report();
  sent.grad_norm = std::nullopt;
  EXPECT_EQ(to_json_text(sent).find("grad_norm"), std::string::npos);
  EXPECT_FALSE(step_report_from_json(to_json_text(sent)).grad_norm);
  EXPECT_EQ(step_report_from_json(to_json_text(a_report())).grad_norm, 2.5);
}

TEST(StepReport, TokensAreCountedBesideSamples) {
  StepReport sent = a_report();
  sent.tokens = 32768;
  EXPECT_EQ(step_report_from_json(to_json_text(sent)).tokens, 32768);
}

TEST(StepReport, HostileLinesAreBadData) {
  const std::string good = to_json_text(a_report());
  std::vector<std::string> lines{"",        "{}", "[]", "null", good.substr(0, good.size() / 2),
                                 good + "x"};
  const auto with = [&](const char* key, const nlohmann::json& value) {
    auto line = nlohmann::json::parse(good);
    line[key] = value;
    lines.push_back(line.dump());
  };
  with("step", "7");
  with("step", 7.5);
  with("step", 18446744073709551615ULL);
  with("loss", "low");
  with("samples", {1});
  with("per_rank", {1, 2});
  with("per_rank", {{"step_s", {1, 2}}});
  with("skipped", 1);
  with("buckets", {1, 2});
  with("buckets", {{{"name", "x"}}});
  with("gradient_check", "fine");
  with("parameter_use", {{"never", {1}}, {"partly", nlohmann::json::array()}});
  with("parameter_use", {{"never", {"a"}}, {"partly", {{{"name", "b"}, {"ranks", {-1}}}}}});
  auto uneven = nlohmann::json::parse(good)["per_rank"];
  uneven["sync_s"] = {0.1};
  with("per_rank", uneven);
  for (const std::string& line : lines) {
    EXPECT_THROW((void)step_report_from_json(line), BadData) << line;
  }
}

TEST(EvalReport, SurvivesTheTripThroughItsLine) {
  EvalReport sent{938, 0.2931, 0.8941, std::nullopt, 10000, 3.2};
  EXPECT_EQ(to_json_text(sent),
            R"({"eval":{"step":938,"loss":0.2931,"accuracy":0.8941,"weight":10000,"eval_s":3.2}})");
  EXPECT_FALSE(eval_report_from_json(to_json_text(sent)).bits_per_byte);
  sent.bits_per_byte = 1.875;
  const EvalReport got = eval_report_from_json(to_json_text(sent));
  EXPECT_EQ(got.bits_per_byte, 1.875);
  EXPECT_EQ(got.weight, 10000);
}

TEST(EvalReport, HostileLinesAreBadData) {
  for (const char* line :
       {"", "{}", R"({"eval":1})", R"({"eval":{}})", R"({"eval":{"step":true}})"}) {
    EXPECT_THROW((void)eval_report_from_json(line), BadData) << line;
  }
}

TEST(PhaseTimes, OtherIsWhatNoPhaseClaimsAndNeverNegative) {
  EXPECT_NEAR(other_s({0.1, 0.01, 0.02, 0.04, 0.005, 0.015}), 0.01, 1e-12);
  EXPECT_EQ(other_s({0.1, 0.1, 0.1, 0, 0, 0}), 0);
}

}  // namespace
}  // namespace lockstep::engine
