#include "lockstep/parallel/cost/memory.h"

#include <gtest/gtest.h>

#include "lockstep/model/stats/architecture_stats.h"
#include "lockstep/parallel/cost/memory_testing.h"

namespace lockstep::parallel {
namespace {

using testing::data_parallel;
using testing::gpt;
using testing::kGib;

// meta-llama/llama-cookbook#100: Llama 2 7B in pure bf16 on four A100 of 40 GB; it trained 4 x
// 2,048 tokens a rank with activation checkpointing. "Max CUDA memory reserved" 29 GB, 27 with
// flash attention.
TEST(Memory, OfSevenBillionFullyShardedLiesWhereItWasSeen) {
  const auto model = model::architecture_stats(testing::llama_7b(2048));
  ASSERT_EQ(model.parameters(), 6'738'415'616);
  Layout layout = data_parallel(4, 3);
  layout.micro_batch = 4;
  layout.recompute = Recompute::full;
  const MemoryPrediction math = predict_memory(model, layout, *find_recipe("bf16-only"));
  EXPECT_NEAR(math.states.device() / kGib, 12.55, 0.01);
  EXPECT_GT(math.device.total(), 22e9);
  EXPECT_LT(math.device.total(), 32e9);
  layout.flash_attention = true;
  const MemoryPrediction flash = predict_memory(model, layout, *find_recipe("bf16-only"));
  EXPECT_GT(flash.device.total(), 22e9);
  EXPECT_LT(flash.device.total(), math.device.total());
}

// meta-llama/llama-cookbook#413: it fails on one card of 80 GB.
TEST(Memory, OfSevenBillionOnOneDeviceIsMoreThanEightyGigabytes) {
  const auto model = model::architecture_stats(testing::llama_7b(2048));
  const MemoryPrediction alone = predict_memory(model, Layout{}, *find_recipe("bf16"));
  EXPECT_NEAR(alone.states.device() / kGib, 100.4, 0.1);
  EXPECT_GT(alone.device.total(), alone.states.device());
}

// deepspeedai/DeepSpeed#4527: 0.49 GiB estimated, 14.7 to 21.3 GB used.
TEST(Memory, OfOffloadedStatesIsMoreThanNothing) {
  Layout layout = data_parallel(4, 3);
  layout.recompute = Recompute::full;
  layout.offload_optimizer = Offload::cpu;
  layout.offload_parameters = Offload::cpu;
  const auto model = model::architecture_stats(testing::llama_7b(2048));
  const MemoryPrediction plan =
      predict_memory(model, layout, *find_recipe("fp16"), *find_memory_stack("DeepSpeed"));
  EXPECT_EQ(plan.device.parameters + plan.device.gradients + plan.device.optimizer, 0);
  EXPECT_GT(plan.device.activations, 0);
  EXPECT_GT(plan.device.buffers, 2'000'000'000);
  EXPECT_GT(plan.device.runtime, 400'000'000);
  EXPECT_NEAR(static_cast<double>(plan.host_bytes), 16 * 6'738'415'616.0 / 4, 1);
}

// pytorch/torchtitan, benchmarks/llama3_h100_202412_torchtitan.md, table 2: Llama 3.1 8B on 8
// devices that share 32,768 tokens each way, 83.9 to 84.5 GiB. It keeps the allocator's figure,
// without a context.
TEST(Memory, OfLongSequencesStaysTheSameWhenContextRanksShareThem) {
  model::Architecture a = testing::llama_7b(0);
  a.kv_heads = 8;
  a.feed_forward = 14'336;
  a.vocabulary = 128'256;
  for (const int context : {1, 2, 4, 8}) {
    Layout layout = data_parallel(8 / context, 3);
    layout.context = context;
    layout.recompute = Recompute::full;
    layout.flash_attention = true;
    const auto model = model::architecture_stats(a, std::int64_t{32'768} * context);
    const MemoryPrediction plan = predict_memory(model, layout, *find_recipe("amp"));
    const auto allocated = static_cast<double>(plan.device.total() - plan.device.communication) -
                           usual_memory_stack().runtime_bytes;
    EXPECT_NEAR(allocated / kGib / 84, 1, 0.05) << context;
  }
}

TEST(Memory, IsThatOfTheFullestStage) {
  const auto model = model::architecture_stats(gpt(8, 64, 4, 32, 4096));
  Layout layout;
  layout.pipeline = 4;
  layout.schedule = PipelineSchedule::one_f_one_b;
  layout.accumulation = 1;  // as many micro-batches on each stage
  const PrecisionRecipe& recipe = *find_recipe("fp16");
  EXPECT_EQ(predict_memory(model, layout, recipe, *find_memory_stack("formula")).stage, 3);
  layout.accumulation = 8;
  layout.cuts = {5, 1, 1, 1};
  EXPECT_EQ(predict_memory(model, layout, recipe, *find_memory_stack("formula")).stage, 0);
}

TEST(Memory, AddsAGroupsBuffersForEachWayToSplit) {
  const auto model = model::architecture_stats(gpt(8, 64, 4, 32));
  const PrecisionRecipe& recipe = *find_recipe("bf16-fp32grad");
  const MemoryStack& stack = *find_memory_stack("Megatron-Core 0.8");
  Layout layout;
  EXPECT_EQ(predict_memory(model, layout, recipe, stack).device.communication, 0);
  layout.tensor = 2;
  layout.data = 2;
  layout.context = 2;
  layout.pipeline = 2;
  layout.schedule = PipelineSchedule::one_f_one_b;
  EXPECT_EQ(static_cast<double>(predict_memory(model, layout, recipe, stack).device.communication),
            4 * stack.group_bytes);
}

TEST(Memory, HasASecondCopyOfGradientsInDdpsBuckets) {
  const auto model = model::architecture_stats(gpt(8, 64, 4, 32));
  const auto bytes = [&](int zero, const char* stack) {
    const MemoryStack& row = *find_memory_stack(stack);
    const MemoryPlan plan =
        predict_memory(model, data_parallel(2, zero), *find_recipe("fp32"), row).device;
    return static_cast<double>(plan.communication) - row.group_bytes;
  };
  EXPECT_EQ(bytes(0, "PyTorch"), 4.0 * static_cast<double>(model.parameters()));
  EXPECT_EQ(bytes(2, "PyTorch"), 0);
  EXPECT_EQ(bytes(0, "Megatron-Core 0.8"), 0);
}

/// What stage 0 of two holds, with eight equal layers over two stages and four data ranks.
MemoryPlan of_stage(int zero, bool keeps_gathered, std::int64_t micro_batches = 8) {
  static const auto model = model::architecture_stats(gpt(8, 64, 4, 32));
  Layout layout = data_parallel(4, zero);
  layout.pipeline = 2;
  layout.schedule = PipelineSchedule::one_f_one_b;
  layout.accumulation = micro_batches;
  layout.keeps_gathered = keeps_gathered;
  return predict_memory(model, layout, *find_recipe("bf16")).device;
}

TEST(Memory, OfSharedStatesInAPipelineIsAShareOfTheStage) {
  const MemoryPlan plain = of_stage(1, false);
  const MemoryPlan gradients = of_stage(2, false);
  const MemoryPlan all = of_stage(3, false);
  EXPECT_NEAR(gradients.gradients, plain.gradients / 4.0, 1);
  EXPECT_EQ(gradients.parameters, plain.parameters);
  EXPECT_NEAR(all.parameters, plain.parameters / 4.0, 1);
  EXPECT_EQ(all.optimizer, plain.optimizer);
  // What is gathered at once is of this stage's layers, however many micro-batches there are.
  EXPECT_LT(all.buffers - gradients.buffers, plain.parameters);
  EXPECT_EQ(of_stage(3, false, 64).buffers, all.buffers);
}

TEST(Memory, ThatStaysGatheredForAStepIsWhole) {
  const MemoryPlan plain = of_stage(1, false);
  const MemoryPlan kept = of_stage(3, true);
  EXPECT_EQ(kept.gradients, plain.gradients);
  EXPECT_NEAR(kept.parameters, plain.parameters / 4.0, 1);
  EXPECT_EQ(kept.buffers - plain.buffers, plain.parameters) << "bf16 weights, gathered";
  EXPECT_GT(kept.total(), plain.total()) << "it saves nothing within a step";
}

TEST(Memory, HasCastWeightsBesideWholeOnes) {
  const auto model = model::architecture_stats(gpt(8, 64, 4, 32));
  const auto buffers = [&](const char* recipe) {
    return predict_memory(model, Layout{}, *find_recipe(recipe)).device.buffers;
  };
  EXPECT_EQ(buffers("amp") - buffers("fp32"), 2 * model.parameters());
}

TEST(Memory, SaysWhatItTakesForGranted) {
  Layout layout = data_parallel(8, 2);
  layout.offload_optimizer = Offload::cpu;
  const auto model = model::architecture_stats(gpt(8, 64, 4, 32));
  const auto sentences = predict_memory(model, layout, *find_recipe("bf16")).assumptions;
  const auto says = [&](const char* words) {
    for (const std::string& sentence : sentences) {
      if (sentence.find(words) != std::string::npos) return true;
    }
    return false;
  };
  EXPECT_TRUE(says("precision bf16"));
  EXPECT_TRUE(says("shared by 8 ranks (ZeRO stage 2"));
  EXPECT_TRUE(says("the optimizer is on the cpu, gradients too"));
  EXPECT_TRUE(says("no recomputation"));
  EXPECT_TRUE(says("software PyTorch"));
}

TEST(MemoryStacks, ArePlainNamesWithASource) {
  for (const MemoryStack& stack : memory_stacks()) {
    EXPECT_EQ(find_memory_stack(stack.name), &stack);
    EXPECT_FALSE(stack.source.empty()) << stack.name;
  }
  EXPECT_EQ(find_memory_stack("abacus"), nullptr);
  EXPECT_EQ(usual_memory_stack().name, "PyTorch");
  EXPECT_EQ(usual_memory_stack(true).name, "Megatron-Core 0.8");
}

}  // namespace
}  // namespace lockstep::parallel
