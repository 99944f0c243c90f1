// `lockstep plan`: the search over layouts, when a training is done, what failures cost, whether to
// distribute at all, and the timeline.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/plan_program.h"

namespace lockstep::test {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> with(std::vector<std::string> words, std::vector<std::string> more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

const std::vector<std::string> kThirteen{"--model",  "llama-2-13b",    "--gpus", "16",      "--gpu",
                                         "A100-80G", "--global-batch", "64",     "--search"};

TEST(PlanSearch, MakesTheBestLayoutThePlanAndRanksTheOthers) {
  const json document = planned(kThirteen);
  EXPECT_EQ(document.at("fits"), true);
  const json& layout = document.at("layout");
  EXPECT_EQ(layout.at("data").get<int>() * layout.at("tensor").get<int>() *
                layout.at("pipeline").get<int>() * layout.at("context").get<int>(),
            16);
  EXPECT_EQ(layout.at("data").get<int>() * layout.at("micro_batch").get<int>() *
                layout.at("accumulation").get<int>(),
            64);
  const json& others = document.at("alternatives");
  ASSERT_GE(others.size(), 3U);
  double before = 0;
  for (const json& other : others) {
    for (const auto& [key, value] : layout.items()) EXPECT_TRUE(other.contains(key)) << key;
    EXPECT_EQ(other.at("fits"), true);
    EXPECT_LE(other.at("total_bytes"), document.at("device_memory_bytes"));
    const double step_s = other.at("step_s");
    EXPECT_GE(step_s, before);
    EXPECT_GE(step_s, 0.98 * document.at("step_s").get<double>());
    EXPECT_NEAR(other.at("tokens_per_s").get<double>(), 64 * 4096 / step_s, 1);
    before = step_s;
  }
}

// What a row of the ranking says is what `plan` says of that row's flags.
TEST(PlanSearch, RanksByThePlanOfEachLayout) {
  const json row = planned(kThirteen).at("alternatives").at(0);
  std::vector<std::string> words{"--model", "llama-2-13b", "--gpus", "16", "--gpu", "A100-80G"};
  std::istringstream flags(row.at("flags").get<std::string>());
  for (std::string word; flags >> word;) words.push_back(word);
  const json alone = planned(words);
  EXPECT_EQ(alone.at("step_s"), row.at("step_s"));
  EXPECT_EQ(alone.at("memory_bytes").at("total"), row.at("total_bytes"));
  EXPECT_EQ(alone.at("alternatives"), json::array());
}

TEST(PlanSearch, SaysOfEachChoiceWhyItWasNotTaken) {
  const json document = planned({"--model", "llama-2-13b", "--gpus", "8", "--gpu", "V100-16G",
                                 "--global-batch", "12", "--precision", "fp16", "--search"});
  std::string all;
  for (const json& row : document.at("rejected")) {
    EXPECT_NE(row.at("what"), "");
    all += row.at("what").get<std::string>() + ": " + row.at("because").get<std::string>() + "\n";
  }
  EXPECT_THAT(all, HasSubstr("data 8: 8 ranks do not divide the batch of 12"));
  EXPECT_THAT(all, HasSubstr("does not fit: "));
  EXPECT_THAT(all, HasSubstr(" a step against "));
}

TEST(PlanSearch, ShowsThePlanWhereNothingFits) {
  const std::vector<std::string> words{"--params", "1e14",     "--gpus",         "2", "--gpu",
                                       "V100-16G", "--search", "--global-batch", "2"};
  const json document = planned(words);
  EXPECT_EQ(document.at("fits"), false);
  EXPECT_EQ(document.at("alternatives"), json::array());
  EXPECT_FALSE(document.at("rejected").empty());
  EXPECT_THAT(plan(words).out, HasSubstr("none fits"));
  EXPECT_EQ(plan(with(words, {"--check"})).exit_code, 1);
}

TEST(PlanSearch, ForPeopleHasALineForEachOfTheBestAndKindsOfRejection) {
  const ProgramResult result = plan(kThirteen);
  EXPECT_EQ(result.exit_code, 0) << result.describe();
  for (const char* part : {"layouts looked at, the best that fit", "1, this plan", "  5  ",
                           "not better", "several devices are worth it"}) {
    EXPECT_THAT(result.out, HasSubstr(part));
  }
}

TEST(PlanSearch, SaysHowManyDevicesAreInTime) {
  const std::vector<std::string> words{"--model", "gpt2-xl",        "--gpus",   "64",
                                       "--gpu",   "A100-80G",       "--search", "--tokens",
                                       "10e9",    "--global-batch", "512"};
  const json within = planned(with(words, {"--need-within", "12h"})).at("need_within");
  EXPECT_EQ(within.at("met"), true);
  const int devices = within.at("devices");
  EXPECT_LT(devices, 64);
  EXPECT_LE(within.at("time_to_train_s"), 12 * 3600);
  std::vector<std::string> half = words;
  half[3] = std::to_string(devices / 2);
  EXPECT_GT(planned(half).at("time_to_train_s"), 12 * 3600);

  const json never = planned(with(words, {"--need-within", "1min"})).at("need_within");
  EXPECT_EQ(never.at("met"), false);
  EXPECT_TRUE(never.at("devices").is_null());
  EXPECT_THAT(never.at("because").get<std::string>(), HasSubstr("none of 1 to 64 devices"));
}

TEST(PlanSearch, LooksForALayoutWithoutAnyOfItsFlags) {
  EXPECT_THAT(refused({"--model", "gpt2", "--gpus", "8", "--search", "--tensor", "2",
                       "--states-only", "--set", "parallel.zero=1"}),
              ElementsAre("--zero LS-1020", "--tensor LS-1020", "--states-only LS-1020",
                          "--search LS-1013"));
  EXPECT_THAT(refused({"--model", "resnet50", "--gpus", "127", "--gpu", "A100-80G", "--search",
                       "--global-batch", "7"}),
              ElementsAre("--global-batch LS-1009"));
  EXPECT_THAT(refused({"--search"}), ElementsAre("--search LS-1020"));
}

TEST(PlanTime, SaysWhetherThisLayoutIsInTime) {
  const std::vector<std::string> words{"--model",  "gpt2-xl",           "--gpus",   "8",   "--gpu",
                                       "A100-80G", "--flash-attention", "--tokens", "10e9"};
  const json document = planned(with(words, {"--need-within", "2w"}));
  EXPECT_EQ(document.at("need_within").at("met"), true);
  EXPECT_EQ(document.at("need_within").at("time_to_train_s"), document.at("time_to_train_s"));
  EXPECT_EQ(planned(with(words, {"--need-within", "1h"})).at("need_within").at("met"), false);
  EXPECT_TRUE(planned(words).at("need_within").is_null());
  // Failures take their part of the time.
  const double ideal_s = document.at("time_to_train_s");
  const auto met = [&](double limit_s, const char* mtbf) {
    const std::string limit = std::to_string(static_cast<long>(limit_s)) + "s";
    return planned(with(words, {"--need-within", limit, "--mtbf", mtbf}))
        .at("need_within")
        .at("met");
  };
  EXPECT_EQ(met(1.01 * ideal_s, "100000d"), true);
  EXPECT_EQ(met(1.01 * ideal_s, "30d"), false);
  EXPECT_THAT(refused({"--model", "gpt2", "--gpus", "8", "--need-within", "3 weeks"}),
              ElementsAre("--need-within LS-1013", "--need-within LS-1013"));
}

TEST(PlanTime, SaysWhatFailuresCost) {
  const std::vector<std::string> words{"--model",  "llama-3-8b", "--gpus", "16384",  "--gpu",
                                       "H100-80G", "--tokens",   "1e12",   "--mtbf", "2000d"};
  const json document =
      planned(with(words, {"--checkpoint-cost", "10s", "--restart-time", "5min"}));
  const json& goodput = document.at("goodput");
  const double rate = 16384 / (2000 * 86400.0);
  const double interval = std::sqrt(2 * 10 / rate);
  EXPECT_NEAR(goodput.at("best_interval_s").get<double>(), interval, 1e-6);
  EXPECT_NEAR(goodput.at("fraction").get<double>(),
              1 - (10 / interval + rate * (interval / 2 + 300)), 1e-9);
  EXPECT_NEAR(goodput.at("expected_s").get<double>() * goodput.at("exact_fraction").get<double>(),
              document.at("time_to_train_s").get<double>(), 1e-3);
  EXPECT_THAT(plan(words).out, HasSubstr("of the time is progress, with a checkpoint every"));
  EXPECT_THAT(plan(words).out, HasSubstr("(--restart-time)"));
  EXPECT_THAT(refused({"--model", "gpt2", "--gpus", "8", "--restart-time", "5min"}),
              ElementsAre("--restart-time LS-1013"));
}

TEST(PlanAdvice, SaysWhetherToDistributeAndWhatElseToDo) {
  const json small = planned({"--model", "gpt2", "--gpus", "8", "--gpu", "A100-80G", "--zero", "3",
                              "--precision", "fp16"});
  EXPECT_EQ(small.at("distribute").at("needed"), false);
  EXPECT_GT(small.at("distribute").at("expected_speedup"), 1);
  const std::string advice = small.at("advice").dump();
  EXPECT_THAT(advice, HasSubstr("--precision bf16"));
  EXPECT_THAT(advice, HasSubstr("plain data parallelism"));
  for (const json& one : small.at("advice")) {
    EXPECT_NE(one.at("because"), "");
    EXPECT_NE(one.at("source"), "");
  }
  const json soon = planned({"--model", "gpt2", "--gpus", "8", "--gpu", "A100-80G", "--tokens",
                             "300e9", "--need-within", "3d"});
  EXPECT_EQ(soon.at("distribute").at("needed"), true);
  EXPECT_THAT(soon.at("distribute").at("reasons").dump(), HasSubstr("time, yes"));
  EXPECT_TRUE(planned({"--model", "gpt2", "--gpus", "8"}).at("distribute").at("needed").is_null());
}

TEST(PlanTimeline, IsTheStepThatWasPlanned) {
  const TemporaryFolder folder;
  const std::string file = folder / "step.json";
  const json document = planned({"--model", "gpt2-xl", "--gpus", "8", "--gpu", "A100-80G",
                                 "--pipeline", "4", "--accumulation", "16", "--timeline", file});
  EXPECT_EQ(document.at("timeline"), file);
  const json trace = json::parse(read_file(file));
  double end_us = 0;
  int forwards = 0;
  for (const json& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X") continue;
    end_us = std::max(end_us, event.at("ts").get<double>() + event.at("dur").get<double>());
    if (event.at("name").get<std::string>().starts_with("forward")) ++forwards;
  }
  EXPECT_EQ(forwards, 4 * 16);
  EXPECT_NEAR(end_us / 1e6 / document.at("step_s").get<double>(), 1, 0.03);
}

TEST(PlanTimeline, IsWholeOrNotThere) {
  const TemporaryFolder folder;
  const std::vector<std::string> words{"--model", "gpt2", "--gpus", "2", "--gpu", "A100-80G"};
  const ProgramResult missing =
      plan(with(words, {"--timeline", folder / "missing/step.json", "--json"}));
  EXPECT_EQ(missing.exit_code, 3) << missing.describe();
  EXPECT_THAT(missing.out, HasSubstr("LS-6116"));
  EXPECT_THAT(refused(with(words, {"--accumulation", "1000000", "--timeline", folder / "long"})),
              ElementsAre("--timeline LS-1013"));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  EXPECT_THAT(refused({"--model", "gpt2", "--gpus", "2", "--timeline", "step.json"}),
              ElementsAre("--timeline LS-1013"));
}

}  // namespace
}  // namespace lockstep::test
