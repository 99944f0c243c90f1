#include "lockstep/parallel/cost/activations.h"

#include <gtest/gtest.h>

#include "lockstep/model/stats/architecture_stats.h"
#include "lockstep/parallel/cost/memory_testing.h"

namespace lockstep::parallel {
namespace {

using testing::gpt;

struct Trained {
  model::ModelStats model;
  Layout layout{};
  const MemoryStack& stack = *find_memory_stack("formula");
  const char* recipe = "fp16";

  [[nodiscard]] ActivationBytes bytes(int stage = 0) const {
    return activation_bytes({model, layout, *find_recipe(recipe), stack}, stage);
  }
};

Trained trained(const model::Architecture& architecture, int tensor = 1, bool sequence = false,
                Recompute recompute = Recompute::none) {
  Trained t{model::architecture_stats(architecture)};
  t.layout.tensor = tensor;
  t.layout.sequence = sequence;
  t.layout.recompute = recompute;
  return t;
}

constexpr double kTokens = 2048;
constexpr double kWidth = 6144;
constexpr double kScores = 5 * 64 * kTokens / kWidth;  // 5 a s / h

/// In units of s b h bytes, of one layer of the 22B model.
double per_layer(const Trained& t) { return t.bytes().layers / (48 * kTokens * kWidth); }

// arXiv:2205.05198, equations 1 to 4 and the last rows of table 2.
TEST(Activations, OfALayerAreThoseOfTheEquations) {
  const model::Architecture a = gpt(48, 6144, 64, 2048);
  EXPECT_DOUBLE_EQ(per_layer(trained(a)), 34 + kScores);
  EXPECT_DOUBLE_EQ(per_layer(trained(a, 8)), 10 + 24.0 / 8 + kScores / 8);
  EXPECT_DOUBLE_EQ(per_layer(trained(a, 8, true)), (34 + kScores) / 8);
  EXPECT_DOUBLE_EQ(per_layer(trained(a, 8, true, Recompute::selective)), 34.0 / 8);
  EXPECT_DOUBLE_EQ(per_layer(trained(a, 8, false, Recompute::full)), 2);
}

// Section 4.3: dropout of the embedding, and norm, output layer and logits where the last layer is.
TEST(Activations, OfTheEndsAreThoseOfSectionFourThree) {
  const model::Architecture a = gpt(48, 6144, 64, 2048);
  const double unit = kTokens * kWidth / 8;  // s b h / t
  const double vocabulary = 51'200 / kWidth;
  EXPECT_NEAR(trained(a, 8, true).bytes().ends / unit, 1 + 4 * (1 + vocabulary), 1e-9);
  Trained piped = trained(a, 8, true);
  piped.layout.pipeline = 4;
  piped.layout.schedule = PipelineSchedule::one_f_one_b;
  piped.layout.accumulation = 16;
  EXPECT_NEAR(piped.bytes(0).ends / unit, 4, 1e-9);
  EXPECT_NEAR(piped.bytes(3).ends / unit, 4 * (1 + vocabulary), 1e-9);
}

// "../validation/README.md" of the published runs: share of activations kept, %.
TEST(Activations, ThatRecomputationLeavesAreTheSharesOfThePaper) {
  struct Shares {
    model::Architecture model;
    double sequence, selective, both, full;
  };
  const Shares published[] = {{gpt(48, 6144, 64, 2048), 66.84, 49.42, 16.18, 7.64},
                              {gpt(96, 12'288, 96, 2048), 62.04, 56.53, 18.49, 8.71},
                              {gpt(105, 20'480, 128, 2048), 58.31, 62.04, 20.27, 9.42},
                              {gpt(128, 25'600, 160, 2048), 58.31, 62.04, 20.27, 9.42}};
  for (const Shares& row : published) {
    const double all = trained(row.model, 8).bytes().layers / 100;
    const auto left = [&](bool sequence, Recompute recompute) {
      return trained(row.model, 8, sequence, recompute).bytes().layers / all;
    };
    EXPECT_NEAR(left(true, Recompute::none), row.sequence, 0.2);
    EXPECT_NEAR(left(false, Recompute::selective), row.selective, 0.2);
    EXPECT_NEAR(left(true, Recompute::selective), row.both, 0.2);
    EXPECT_NEAR(left(false, Recompute::full), row.full, 0.2);
  }
}

TEST(Activations, KeepNoScoresWithFlashAttention) {
  Trained t = trained(gpt(48, 6144, 64, 2048));
  t.layout.flash_attention = true;
  EXPECT_DOUBLE_EQ(per_layer(t), 34 + 4 * 64 / kWidth);  // and a logarithm a row
}

TEST(Activations, AreSharedByContextRanks) {
  Trained t = trained(gpt(4, 64, 4, 32), 2);
  const double alone = t.bytes().total();
  t.layout.context = 4;
  EXPECT_DOUBLE_EQ(t.bytes().total(), alone / 4);
}

TEST(Activations, GrowWithTheMicroBatchAndWithBytesOfANumber) {
  Trained t = trained(gpt(4, 64, 4, 32), 1, false, Recompute::full);
  const double one = t.bytes().layers;
  t.layout.micro_batch = 3;
  EXPECT_DOUBLE_EQ(t.bytes().layers, 3 * one);
  t.recipe = "fp32";
  EXPECT_DOUBLE_EQ(t.bytes().layers, 6 * one);
}

TEST(Activations, OfAllMicroBatchesAreHeldByGpipe) {
  Trained t = trained(gpt(8, 64, 4, 32));
  const double whole = t.bytes().layers;
  t.layout.pipeline = 4;
  t.layout.accumulation = 10;
  t.layout.schedule = PipelineSchedule::gpipe;
  EXPECT_DOUBLE_EQ(t.bytes(2).layers, 10 * whole / 4);
  t.layout.schedule = PipelineSchedule::one_f_one_b;
  EXPECT_DOUBLE_EQ(t.bytes(0).layers, whole);
  EXPECT_DOUBLE_EQ(t.bytes(3).layers, whole / 4);
  t.layout.schedule = PipelineSchedule::interleaved;
  t.layout.chunks = 2;
  t.layout.accumulation = 12;
  EXPECT_DOUBLE_EQ(t.bytes(0).layers, whole * (1 + 3.0 / 8));
}

TEST(Activations, PeakWhereALayerIsComputedOnceMore) {
  Trained none = trained(gpt(4, 64, 4, 32));
  Trained full = trained(gpt(4, 64, 4, 32), 1, false, Recompute::full);
  const MemoryStack& real = *find_memory_stack("Megatron-LM 2022");
  const auto working = [&](const Trained& t) {
    return activation_bytes({t.model, t.layout, *find_recipe("fp16"), real}, 0);
  };
  // The last layer whole, less the head, whose memory is free again by then.
  EXPECT_GT(working(full).working + working(full).ends, none.bytes().layers / 4);
  EXPECT_LT(working(full).total(), working(none).total());
}

}  // namespace
}  // namespace lockstep::parallel
