#include "lockstep/parallel/cost/states.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "lockstep/model/stats/architecture_stats.h"
#include "lockstep/parallel/cost/memory_testing.h"

namespace lockstep::parallel {
namespace {

using testing::data_parallel;
using testing::gpt;
using testing::kMib;

StateBytes states(double parameters, const Layout& layout, const char* recipe) {
  return state_bytes({parameters, 0}, layout, *find_recipe(recipe));
}

/// Table 1 of arXiv:1910.02054: GB a device, by data ranks and stage.
struct ZeroTable {
  double parameters;
  std::array<std::array<double, 3>, 6> cells;  // of 1, 4, 16, 64, 256, 1024 ranks
};
const std::array<ZeroTable, 3> kZeroTable{{
    {7.5e9,
     {{{120, 120, 120},
       {52.5, 41.3, 30},
       {35.6, 21.6, 7.5},
       {31.4, 16.6, 1.88},
       {30.4, 15.4, 0.47},
       {30.1, 15.1, 0.12}}}},
    {128e9,
     {{{2048, 2048, 2048},
       {896, 704, 512},
       {608, 368, 128},
       {536, 284, 32},
       {518, 263, 8},
       {513, 257, 2}}}},
    {1e12,
     {{{16000, 16000, 16000},
       {7000, 5500, 4000},
       {4750, 2875, 1000},
       {4187, 2218, 250},
       {4046, 2054, 62.5},
       {4011, 2013, 15.6}}}},
}};

/// One of the last digit that the paper prints: it rounds some cells and cuts others off.
double last_digit(double cell) {
  if (cell < 2) return 0.01;
  return cell < 70 ? 0.1 : 1;
}

TEST(States, AreThoseOfZeroPaperInAll54Cells) {
  for (const ZeroTable& table : kZeroTable) {
    int ranks = 1;
    for (const auto& row : table.cells) {
      for (int stage = 1; stage <= 3; ++stage) {
        const double cell = row.at(static_cast<std::size_t>(stage - 1));
        const double bytes = states(table.parameters, data_parallel(ranks, stage), "fp16").device();
        EXPECT_LT(std::abs(bytes / 1e9 - cell), last_digit(cell))
            << table.parameters << " on " << ranks << ", stage " << stage;
      }
      ranks *= 4;
    }
  }
}

TEST(States, OfMegatronsOptimizerAreItsBytesAParameter) {
  for (const int d : {1, 2, 8, 64}) {
    const Layout shared = data_parallel(d, 1);
    EXPECT_DOUBLE_EQ(states(1, shared, "bf16-fp32grad").device(), 6 + 12.0 / d);
    EXPECT_DOUBLE_EQ(states(1, shared, "fp16-20").device(), 4 + 16.0 / d);
    EXPECT_DOUBLE_EQ(states(1, shared, "fp32").device(), 8 + 8.0 / d);
  }
  EXPECT_EQ(states(1, data_parallel(8, 0), "bf16-fp32grad").device(), 18);
}

// flagos-ai/FlagScale PR#454: 4.1055e9 parameters on the fullest of 4 tensor ranks, 2 data ranks.
TEST(States, OfAPublishedShardAgreeToAMebibyte) {
  const double bytes = states(4.1055e9, data_parallel(2, 1), "bf16-fp32grad").device();
  EXPECT_NEAR(bytes / kMib, 46'983.28, 1);
  EXPECT_NEAR(bytes / kMib + 8'989.01, 55'972.29, 1);
}

// caomaolufei/AIInfraGuide#24 and AI-Hypercomputer/maxtext#606.
TEST(States, CountAdamWhole) {
  const StateBytes mixed = states(6.7e9, Layout{}, "fp16");
  EXPECT_NEAR(mixed.parameters / 1e9, 13.4, 1e-6);
  EXPECT_NEAR(mixed.gradients / 1e9, 13.4, 1e-6);
  EXPECT_NEAR(mixed.optimizer() / 1e9, 80.4, 1e-6);
  EXPECT_NEAR(states(6.7e9, Layout{}, "fp32-master-cast").device() / 1e9, 80.4, 1e-6);
  EXPECT_NEAR(states(6.7e9, Layout{}, "fp16-20").device() / 1e9, 134.0, 1e-6);
}

// Alpha-VLLM/LLaMA2-Accessory#26: 13e9 parameters need three devices of 80 GB for states alone.
TEST(States, OfThirteenBillionNeedThreeDevices) {
  EXPECT_GT(states(13e9, data_parallel(2, 3), "bf16").device(), 80e9);
  EXPECT_LT(states(13e9, data_parallel(3, 3), "bf16").device(), 80e9);
}

// karpathy/llm.c PR#309.
TEST(States, OfGpt2AreExactToTheByte) {
  const auto model = model::architecture_stats(gpt(12, 768, 12, 1024, 50'304));
  ASSERT_EQ(model.parameters(), 124'475'904);
  const DeviceParameters parameters = parameters_of_stage(model, Layout{}, 0);
  EXPECT_EQ(parameters.count(), 124'475'904);
  const StateBytes alone = state_bytes(parameters, Layout{}, *find_recipe("bf16"));
  EXPECT_EQ(alone.parameters, 248'951'808);
  EXPECT_EQ(alone.gradients, 248'951'808);
  EXPECT_EQ(alone.moments, 2 * 497'903'616.0);
  const StateBytes two = state_bytes(parameters, data_parallel(2, 1), *find_recipe("bf16"));
  EXPECT_EQ(two.moments, 2 * 248'951'808.0);
  EXPECT_EQ(two.parameters, 248'951'808);
}

TEST(States, AreSpreadOverAPartOfTheRanksWhenAsked) {
  Layout layout = data_parallel(64, 3);
  layout.shard = 8;
  EXPECT_DOUBLE_EQ(states(8, layout, "bf16").device(), 16);
  layout.shard = 0;
  layout.secondary_shard = 8;  // a second copy of the weights
  EXPECT_DOUBLE_EQ(states(64, layout, "bf16").device(), 16 + 16);
  EXPECT_DOUBLE_EQ(states(64, layout, "bf16").parameters, 2 + 16);
}

TEST(States, AreSharedByContextRanksToo) {
  Layout layout = data_parallel(4, 3);
  layout.context = 2;
  EXPECT_DOUBLE_EQ(states(8, layout, "bf16").device(), 16);
}

TEST(States, LeaveTheDeviceWhenOffloaded) {
  Layout layout = data_parallel(4, 2);
  layout.offload_optimizer = Offload::cpu;
  const StateBytes second = states(4, layout, "fp16");
  EXPECT_EQ(second.device(), 8);  // weights alone
  EXPECT_EQ(second.host, 14);
  layout.zero = 3;
  layout.offload_optimizer = Offload::nvme;
  layout.offload_parameters = Offload::cpu;
  const StateBytes third = states(4, layout, "fp16");
  EXPECT_EQ(third.device(), 0);
  EXPECT_EQ(third.host, 2);
  EXPECT_EQ(third.nvme, 14);
}

TEST(Parameters, AreSplitByTensorRanksAsEachAllows) {
  const auto model = model::architecture_stats(gpt(2, 64, 4, 32, 128));
  Layout layout;
  layout.tensor = 4;
  // A layer: 12 C^2 and 7 C of biases are split, 6 C (norms, row biases) are not.
  const double layer = 12.0 * 64 * 64 / 4 + 7.0 * 64 / 4 + 6 * 64;
  const double ends = 128.0 * 64 / 4 + 32 * 64 + 2 * 64;
  EXPECT_EQ(parameters_of_stage(model, layout, 0).count(), 2 * layer + ends);
}

TEST(Parameters, OfATiedEmbeddingStandOnTheFirstAndTheLastStage) {
  model::Architecture a = gpt(4, 64, 4, 32, 128);
  Layout layout;
  layout.pipeline = 2;
  const auto tied = model::architecture_stats(a);
  const double layers = 2 * (12.0 * 64 * 64 + 13 * 64);
  EXPECT_EQ(parameters_of_stage(tied, layout, 0).count(), layers + 128.0 * 64 + 32 * 64);
  EXPECT_EQ(parameters_of_stage(tied, layout, 1).count(), layers + 128.0 * 64 + 2 * 64);
  a.tied = false;
  const auto untied = model::architecture_stats(a);
  EXPECT_EQ(parameters_of_stage(untied, layout, 1).count(), layers + 128.0 * 64 + 2 * 64);
  // Without a pipeline one copy serves both ends.
  EXPECT_EQ(parameters_of_stage(tied, Layout{}, 0).count(), tied.parameters());
}

TEST(Parameters, OfExpertsAreSharedByExpertRanksAndSpreadOverFewer) {
  const auto model = model::architecture_stats(testing::mixture());
  Layout layout = data_parallel(8, 1);
  layout.expert = 4;
  const DeviceParameters parameters = parameters_of_stage(model, layout, 0);
  EXPECT_EQ(parameters.expert, 2 * 8 * 2.0 * 64 * 256 / 4);
  EXPECT_EQ(parameters.dense + 4 * parameters.expert, model.parameters());
  const StateBytes bytes = state_bytes(parameters, layout, *find_recipe("bf16"));
  EXPECT_DOUBLE_EQ(bytes.optimizer(), 12 * (parameters.dense / 8 + parameters.expert / 2));
}

TEST(Parameters, FollowTheCuts) {
  const auto model = model::architecture_stats(gpt(4, 64, 4, 32, 128));
  Layout layout;
  layout.pipeline = 2;
  layout.cuts = {1, 3};
  const double layer = 12.0 * 64 * 64 + 13 * 64;
  EXPECT_EQ(parameters_of_stage(model, layout, 1).count(), 3 * layer + 128.0 * 64 + 2 * 64);
}

}  // namespace
}  // namespace lockstep::parallel
