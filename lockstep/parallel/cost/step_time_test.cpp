#include "lockstep/parallel/cost/step_time.h"

#include <gtest/gtest.h>

#include <numeric>

#include "lockstep/model/stats/architecture_stats.h"
#include "lockstep/parallel/cost/stage_split.h"

namespace lockstep::parallel {
namespace {

model::ModelStats gpt(std::int64_t layers, std::int64_t width) {
  model::Architecture a;
  a.layers = layers;
  a.width = width;
  a.heads = width / 128;
  a.kv_heads = a.heads;
  a.head_width = 128;
  a.feed_forward = 4 * width;
  a.vocabulary = 51'200;
  a.max_positions = 2048;
  a.dropout = 0.1;
  return model::architecture_stats(a, 2048);
}

struct Case {
  model::ModelStats model = gpt(24, 4096);
  Layout layout;
  const char* device = "A100-80G";
  const char* stack = "Megatron-LM 2021";

  [[nodiscard]] TimePrediction predict() const {
    return predict_time(model, layout, *find_recipe("fp16"),
                        usual_machine(*find_device(device), layout.devices()), *find_stack(stack));
  }
};

TEST(StepTime, IsTheSumOfItsParts) {
  Case c;
  c.layout.tensor = 2;
  c.layout.pipeline = 4;
  c.layout.data = 4;
  c.layout.accumulation = 8;
  c.layout.recompute = Recompute::full;
  const TimePrediction t = c.predict();
  EXPECT_DOUBLE_EQ(t.step_s, t.forward_s + t.backward_s + t.recompute_s + t.tensor_comm_s +
                                 t.pipeline_comm_s + t.exposed_data_comm_s + t.bubble_s +
                                 t.optimizer_s);
  for (const double part : {t.forward_s, t.recompute_s, t.tensor_comm_s, t.pipeline_comm_s,
                            t.exposed_data_comm_s, t.bubble_s, t.optimizer_s}) {
    EXPECT_GT(part, 0);
  }
  EXPECT_LT(t.mfu, t.hfu);
  EXPECT_NEAR(t.mfu * 312, t.tflops_per_device, 1e-6);
  EXPECT_FALSE(t.assumptions.empty());
}

TEST(StepTime, OfSharedGradientsReducesThemBehindEveryMicroBatch) {
  Case c;
  c.layout.data = 64;
  c.layout.accumulation = 9;
  c.layout.zero = 1;
  const TimePrediction once = c.predict();
  c.layout.zero = 2;
  const TimePrediction often = c.predict();
  EXPECT_DOUBLE_EQ(often.data_bytes, 5 * once.data_bytes);  // nine halves and one
  EXPECT_DOUBLE_EQ(often.exposed_data_comm_s, 5 * once.exposed_data_comm_s);
  c.layout.accumulation = 1;
  EXPECT_DOUBLE_EQ(c.predict().data_bytes, once.data_bytes);
}

TEST(StepTime, OfSharedStatesInAPipelineExchangesThemForEachMicroBatch) {
  Case c;
  c.layout.data = 8;
  c.layout.pipeline = 2;
  c.layout.schedule = PipelineSchedule::one_f_one_b;
  c.layout.accumulation = 16;
  c.layout.zero = 3;
  const TimePrediction often = c.predict();
  c.layout.keeps_gathered = true;
  const TimePrediction once = c.predict();
  // Of the stage that takes longest; what is exchanged once is that of the one with most
  // parameters.
  EXPECT_NEAR(often.data_bytes / (16 * 1.5 * once.data_bytes), 1, 0.1);
  EXPECT_GT(often.step_s, once.step_s);
  c.layout.keeps_gathered = false;
  c.layout.zero = 2;
  const TimePrediction reduced = c.predict();
  EXPECT_NEAR(reduced.data_bytes / (17.0 / 2 * once.data_bytes), 1, 0.1) << "weights once a step";
  c.layout.zero = 1;
  EXPECT_DOUBLE_EQ(c.predict().data_bytes, once.data_bytes);
}

/// Layers that are all alike and nothing else, so that stages are equal.
model::ModelStats layers_alone(std::int64_t layers) {
  model::ModelStats stats = gpt(layers, 4096);
  std::erase_if(stats.blocks, [](const model::BlockStats& block) { return !block.is_layer; });
  return stats;
}

TEST(StepTime, APipelinesBubbleIsThePapersShare) {
  // (p - 1) / m of the ideal time, a v-th of that interleaved: arXiv:2104.04473, section 2.2.
  Case c;
  c.model = layers_alone(24);
  c.layout.pipeline = 4;
  c.layout.schedule = PipelineSchedule::one_f_one_b;
  c.layout.accumulation = 12;
  const auto share = [](const TimePrediction& t) {
    return t.bubble_s / (t.step_s - t.bubble_s - t.optimizer_s - t.exposed_data_comm_s);
  };
  EXPECT_NEAR(share(c.predict()), 3.0 / 12, 1e-9);
  c.layout.schedule = PipelineSchedule::interleaved;
  c.layout.chunks = 3;
  EXPECT_NEAR(share(c.predict()), 3.0 / 12 / 3, 1e-9);
}

TEST(StepTime, TheSlowestStageSetsThePace) {
  Case even;
  even.layout.pipeline = 4;
  even.layout.accumulation = 64;
  Case uneven = even;
  uneven.layout.cuts = {3, 7, 7, 7};
  Case wrong = even;
  wrong.layout.cuts = {12, 4, 4, 4};
  EXPECT_GT(wrong.predict().step_s, 1.6 * even.predict().step_s);
  EXPECT_GT(uneven.predict().step_s, even.predict().step_s);
}

TEST(StepTime, OfA22BLayerIsWhatThePaperMeasured) {
  // arXiv:2205.05198, table 4: forward 7.7 ms, backward 11.9 ms, with full recomputation 19.5 ms;
  // with sequence parallelism and selective recomputation 7.2 and 13.1 ms.
  Case c;
  model::ModelStats one = gpt(1, 6144);
  std::erase_if(one.blocks, [](const model::BlockStats& block) { return !block.is_layer; });
  c.model = one;
  c.stack = "Megatron-LM 2022";
  c.layout.tensor = 8;
  c.layout.micro_batch = 4;
  const TimePrediction plain = c.predict();
  const double layer = plain.step_s - plain.optimizer_s;
  EXPECT_NEAR(layer, 19.6e-3, 1.4e-3);
  c.layout.recompute = Recompute::full;
  EXPECT_NEAR(c.predict().step_s - plain.optimizer_s, 27.2e-3, 1.9e-3);
  c.layout.recompute = Recompute::selective;
  c.layout.sequence = true;
  EXPECT_NEAR(c.predict().step_s - plain.optimizer_s, 20.3e-3, 1.6e-3);
}

TEST(StepTime, ZeRO3HidesItsGatheringBehindLargeBatchesOnly) {
  Case c;
  c.stack = "PyTorch FSDP";
  c.layout.data = 64;
  c.layout.zero = 3;
  c.layout.flash_attention = true;
  const TimePrediction small = c.predict();
  c.layout.micro_batch = 16;
  const TimePrediction large = c.predict();
  EXPECT_GT(small.exposed_data_comm_s / small.step_s, 4 * large.exposed_data_comm_s / large.step_s);
  EXPECT_EQ(small.data_bytes, large.data_bytes);
}

TEST(StepTime, FindsTheSlowNetwork) {
  Case c;
  c.layout.data = 16;
  Machine machine = usual_machine(*find_device("A100-80G"), 16);
  const auto exposed = [&] {
    return predict_time(c.model, c.layout, *find_recipe("fp16"), machine, *find_stack(c.stack))
        .exposed_data_comm_s;
  };
  const double infiniband = exposed();
  machine.between = *find_link("1 GbE");
  EXPECT_GT(exposed(), 100 * infiniband);
}

TEST(StepTime, OffloadedStatesCrossToTheHost) {
  Case c;
  const double here = c.predict().optimizer_s;
  c.layout.offload_optimizer = Offload::cpu;
  EXPECT_GT(c.predict().optimizer_s, 20 * here);
}

TEST(BlockRuns, PriceEqualLayersOnce) {
  const model::ModelStats model = gpt(96, 12'288);
  const std::vector<BlockRun> runs = block_runs(model);
  ASSERT_EQ(runs.size(), 3U);
  EXPECT_EQ(runs[1].count, 96);
  double parameters = 0;
  for (const BlockRun& run : runs) {
    parameters += static_cast<double>(run.count) * (run.whole + run.split + run.experts);
  }
  EXPECT_DOUBLE_EQ(parameters, static_cast<double>(model.parameters()));
}

TEST(StageSplit, GivesEveryLayerToOneStageAndWhatIsLeftOverToTheMiddle) {
  const model::ModelStats model = gpt(26, 4096);
  const std::vector<BlockRun> runs = block_runs(model);
  Layout layout;
  layout.pipeline = 4;
  const auto split = split_stages(runs, layout);
  std::vector<std::int64_t> layers;
  for (const auto& parts : split) {
    std::int64_t here = 0;
    for (const StagePart& part : parts) here += runs[part.run].block->is_layer ? part.count : 0;
    layers.push_back(here);
  }
  EXPECT_EQ(layers, (std::vector<std::int64_t>{6, 7, 7, 6}));
  EXPECT_EQ(split.front().front().run, 0U) << "the embedding";
  EXPECT_EQ(split.back().back().run, 2U) << "the head";
}

}  // namespace
}  // namespace lockstep::parallel
