#include "lockstep/parallel/cost/check_layout.h"

#include <gtest/gtest.h>

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
    return check_layout(question);
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
  layout_.tensor = 8;
  expect_one("LS-6103", "--tensor", "use 6 or 12");
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

}  // namespace
}  // namespace lockstep::parallel
