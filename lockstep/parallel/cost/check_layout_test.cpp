#include "lockstep/parallel/cost/check_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <sstream>
#include <string>
#include <vector>

#include "lockstep/model/stats/architecture_stats.h"
#include "lockstep/parallel/cost/memory_testing.h"

namespace lockstep::parallel {
namespace {

using testing::data_parallel;
using testing::gpt;

class CheckLayout : public ::testing::Test {
 protected:
  std::vector<Problem> problems() {
    const model::ModelStats model = model::architecture_stats(architecture_);
    LayoutQuestion question{layout_, &model, &architecture_};
    question.devices = devices_;
    question.global_batch = global_batch_;
    question.data_follows = data_follows_;
    return explain_layout(question);
  }
  /// One problem, at `where`, with `words` in its fix.
  void expect_one(const std::string& code, const std::string& where, const std::string& words) {
    const std::vector<Problem> found = problems();
    ASSERT_EQ(found.size(), 1U) << to_text(found);
    EXPECT_EQ(found[0].code, code) << to_text(found);
    EXPECT_EQ(found[0].where, where) << to_text(found);
    EXPECT_NE(found[0].fix.find(words), std::string::npos) << to_text(found);
  }

  model::Architecture architecture_ = gpt(12, 768, 12, 1024);
  Layout layout_;
  std::int64_t devices_ = 0;
  std::int64_t global_batch_ = 0;
  bool data_follows_ = false;
  /// The layout's degree, and the data ranks that it leaves.
  void take(int Layout::*degree, int value) {
    layout_.*degree = value;
    const std::int64_t others =
        std::int64_t{1} * layout_.tensor * layout_.pipeline * layout_.context;
    layout_.data = static_cast<int>(std::max<std::int64_t>(1, devices_ / others));
    layout_.schedule =
        layout_.pipeline > 1 ? PipelineSchedule::one_f_one_b : PipelineSchedule::none;
  }
  static std::vector<int> numbers_in(const std::string& text) {
    std::vector<int> numbers;
    std::istringstream words(text);
    for (std::string word; words >> word;) {
      if (std::isdigit(static_cast<unsigned char>(word[0])) != 0)
        numbers.push_back(std::stoi(word));
    }
    return numbers;
  }
};

TEST_F(CheckLayout, TakesWhatFits) {
  EXPECT_TRUE(problems().empty());
  layout_.data = 2;
  layout_.tensor = 4;
  layout_.sequence = true;
  layout_.pipeline = 3;
  layout_.schedule = PipelineSchedule::interleaved;
  layout_.chunks = 2;
  layout_.accumulation = 6;
  layout_.micro_batch = 2;
  layout_.zero = 1;
  devices_ = 24;
  global_batch_ = 24;
  EXPECT_TRUE(problems().empty()) << to_text(problems());
}

TEST_F(CheckLayout, NamesTheNearestTensorDegreesOfTheHeads) {
  layout_.tensor = 8;
  expect_one("LS-6103", "--tensor", "use 6 or 12");
  architecture_.heads = 16;
  architecture_.kv_heads = 4;
  expect_one("LS-6103", "--tensor", "use 4");
}

TEST_F(CheckLayout, NamesTheNearestPipelinesOfTheLayers) {
  layout_.pipeline = 5;
  layout_.schedule = PipelineSchedule::one_f_one_b;
  expect_one("LS-6103", "--pipeline", "use 4 or 6");
  layout_.cuts = {2, 2, 3, 3, 2};
  EXPECT_TRUE(problems().empty());
  layout_.cuts = {2, 2, 3, 3};
  EXPECT_EQ(problems().size(), 2U) << to_text(problems());  // too few, and too small a sum
  layout_.cuts = {2, 2, 3, 3, 3};
  expect_one("LS-6106", "--cuts", "take away 1");
  layout_.cuts = {2, 2, -1, 6, 3};
  expect_one("LS-6102", "--cuts", "use 0 or more");
}

TEST_F(CheckLayout, WantsAScheduleForAPipelineAndAPipelineForASchedule) {
  layout_.pipeline = 4;
  expect_one("LS-6105", "--schedule", "1f1b");
  layout_.pipeline = 1;
  layout_.schedule = PipelineSchedule::gpipe;
  expect_one("LS-6105", "--schedule", "--pipeline 2");
  layout_.schedule = PipelineSchedule::none;
  layout_.chunks = 2;
  expect_one("LS-6105", "--chunks", "--pipeline 2");
  layout_.pipeline = 2;
  layout_.schedule = PipelineSchedule::one_f_one_b;
  expect_one("LS-6105", "--chunks", "interleaved");
  layout_.schedule = PipelineSchedule::interleaved;
  layout_.accumulation = 5;
  expect_one("LS-6103", "--accumulation", "use 4 or 6");
  layout_.accumulation = 4;
  layout_.chunks = 4;
  expect_one("LS-6103", "--chunks", "use 3 or 6");
}

TEST_F(CheckLayout, RefusesSequenceParallelismWithoutTensorRanks) {
  layout_.sequence = true;
  expect_one("LS-6105", "--sequence", "--tensor 2");
}

TEST_F(CheckLayout, WantsExpertsForExpertRanks) {
  layout_.data = 8;
  layout_.expert = 4;
  expect_one("LS-6105", "--expert", "--expert 1");
  architecture_ = testing::mixture();
  EXPECT_TRUE(problems().empty());
  layout_.expert = 3;
  EXPECT_EQ(problems().size(), 2U) << to_text(problems());  // neither ranks nor experts
}

TEST_F(CheckLayout, TakesSharedStatesInAPipelineAndKeepsThemGatheredOnlyThere) {
  layout_ = data_parallel(2, 3);
  layout_.pipeline = 2;
  layout_.schedule = PipelineSchedule::one_f_one_b;
  EXPECT_TRUE(problems().empty());
  layout_.keeps_gathered = true;
  EXPECT_TRUE(problems().empty());
  layout_.zero = 1;
  expect_one("LS-6105", "--keep-gathered", "--zero 2 or 3");
  layout_ = data_parallel(2, 3);
  layout_.keeps_gathered = true;
  expect_one("LS-6105", "--keep-gathered", "--pipeline 2");
  layout_ = data_parallel(2, 4);
  expect_one("LS-6102", "--zero", "use 3");
}

TEST_F(CheckLayout, WantsShardsThatDivideTheRanks) {
  layout_ = data_parallel(16, 3);
  layout_.shard = 6;
  expect_one("LS-6103", "--shard", "use 4 or 8");
  layout_.shard = 0;
  layout_.secondary_shard = 8;
  EXPECT_TRUE(problems().empty());
  layout_.zero = 2;
  expect_one("LS-6105", "--secondary-shard", "--zero 3");
}

TEST_F(CheckLayout, LetsOnlySharedParametersLeave) {
  layout_ = data_parallel(4, 2);
  layout_.offload_parameters = Offload::cpu;
  expect_one("LS-6105", "--offload-parameters", "--zero 3");
  layout_.offload_parameters = Offload::none;
  layout_.offload_optimizer = Offload::nvme;
  expect_one("LS-6105", "--offload-optimizer", "cpu");
}

TEST_F(CheckLayout, NamesTheDataRanksThatTheDevicesLeave) {
  layout_.data = 3;
  layout_.tensor = 4;
  devices_ = 16;
  expect_one("LS-6104", "--data", "--data 4");
  devices_ = 18;
  expect_one("LS-6104", "--data", "takes 16 devices");
}

TEST_F(CheckLayout, NamesBatchesThatFit) {
  layout_.data = 4;
  layout_.micro_batch = 2;
  global_batch_ = 32;
  expect_one("LS-1009", "--global-batch", "--accumulation 4");
  global_batch_ = 30;
  expect_one("LS-1009", "--global-batch", "24 or 32");
}

TEST_F(CheckLayout, LooksAtTheParametersOfModelsWithoutHeads) {
  architecture_ = {};
  architecture_.kind = model::ArchitectureKind::mlp;
  architecture_.inputs = 8;
  architecture_.hidden = {16, 12};
  architecture_.classes = 8;
  layout_.tensor = 4;
  EXPECT_TRUE(problems().empty()) << to_text(problems());
  layout_.tensor = 8;  // 6 and 12 divide 12 rows, but not 16
  expect_one("LS-6103", "--tensor", "use 4");
  layout_.tensor = 1;
  layout_.context = 2;
  expect_one("LS-6105", "--context", "--context 1");
}

TEST_F(CheckLayout, RefusesToSplitWhatHasNothingToSplit) {
  model::ModelStats model;
  model.blocks.resize(2);
  model.blocks[0].parameters = {{"weight", {8, 8}}};
  layout_.tensor = 2;
  layout_.pipeline = 2;
  layout_.schedule = PipelineSchedule::gpipe;
  const auto found = check_layout({layout_, &model});
  ASSERT_EQ(found.size(), 2U) << to_text(found);
  EXPECT_EQ(found[0].where, "--tensor");
  EXPECT_EQ(found[1].where, "--pipeline");
}

TEST_F(CheckLayout, FindsEverythingAtOnce) {
  layout_.data = 0;
  layout_.tensor = 7;
  layout_.pipeline = -2;
  layout_.context = 3;
  layout_.zero = -1;
  layout_.micro_batch = -4;
  EXPECT_GE(problems().size(), 6U) << to_text(problems());
}

/// Seven stages neither divide 12 layers nor 16 devices: six would divide the layers alone.
TEST_F(CheckLayout, NamesDegreesThatGoWithTheDevicesToo) {
  layout_.pipeline = 7;
  layout_.schedule = PipelineSchedule::one_f_one_b;
  layout_.data = 2;
  layout_.accumulation = 14;
  devices_ = 16;
  data_follows_ = true;
  const std::vector<Problem> found = problems();
  ASSERT_EQ(found.size(), 2U) << to_text(found);
  EXPECT_EQ(found[0].where, "--gpus");
  EXPECT_EQ(found[0].fix, "use 14 or 21 devices, or other degrees");
  EXPECT_EQ(found[1].where, "--pipeline");
  EXPECT_EQ(found[1].fix, "use 4");
  layout_.pipeline = 4;
  layout_.data = 4;
  EXPECT_TRUE(problems().empty()) << to_text(problems());
}

/// Of 12 heads in feed-forward layers of 1,000: six ranks share the heads, but not the columns.
TEST_F(CheckLayout, NamesDegreesThatGoWithAllOfTheModel) {
  architecture_.feed_forward = 1000;
  layout_.tensor = 5;
  expect_one("LS-6103", "--tensor", "use 4");
}

/// Whatever is wrong, what is named to be used instead is taken.
TEST_F(CheckLayout, EveryDegreeThatIsNamedIsTaken) {
  constexpr auto kDegrees = std::to_array<int Layout::*>(
      {&Layout::tensor, &Layout::pipeline, &Layout::context, &Layout::expert});
  architecture_.experts.experts = 6;
  architecture_.experts.width = 1024;
  devices_ = 48;
  data_follows_ = true;
  for (const auto degree : kDegrees) {
    for (int value = 2; value <= 60; ++value) {
      layout_ = Layout{};
      layout_.accumulation = 64;
      take(degree, value);
      for (const Problem& problem : problems()) {
        if (problem.code != "LS-6103") continue;
        for (const int named : numbers_in(problem.fix)) {
          take(degree, named);
          for (const Problem& left : problems()) {
            EXPECT_NE(left.where, problem.where)
                << value << ": " << to_text(std::vector<Problem>{problem, left});
          }
        }
        take(degree, value);
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::parallel
