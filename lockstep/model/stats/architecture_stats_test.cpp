#include "lockstep/model/stats/architecture_stats.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "lockstep/model/stats/families.h"
#include "lockstep/model/stats/known_models.h"

namespace lockstep::model {
namespace {

// s tokens, h width, a heads, t tensor ranks: as Korthikanti et al. 2022 (arXiv:2205.05198) have
// them.

const BlockStats& first_layer(const ModelStats& stats) {
  return *std::find_if(stats.blocks.begin(), stats.blocks.end(),
                       [](const BlockStats& block) { return block.is_layer; });
}

struct Split16 {
  double tensor = 1;
  bool sequence = false;
  bool selective = false;
};

/// Bytes that one rank keeps of a sample in 16 bits.
double kept_bytes(const BlockStats& block, const Split16& split) {
  double sum = 0;
  for (const OperatorStats& op : block.operators) {
    for (const Kept& kept : op.kept) {
      if (kept.of_scores && split.selective) continue;
      const bool shared = kept.share == Share::tensor || kept.share == Share::expert ||
                          (kept.share == Share::sequence && split.sequence);
      sum += (2 * kept.elements + kept.bytes) / (shared ? split.tensor : 1);
    }
  }
  return sum;
}

struct Sizes {
  double s, h, a, v, l;
};
Sizes sizes(const Architecture& a) {
  return {static_cast<double>(a.default_sequence), static_cast<double>(a.width),
          static_cast<double>(a.heads), static_cast<double>(a.vocabulary),
          static_cast<double>(a.layers)};
}

constexpr const char* kPaperModels[] = {"megatron-22b", "megatron-175b", "megatron-530b",
                                        "megatron-1t"};

TEST(Activations, OfALayerAreThoseOfTheRecomputationPaper) {
  for (const char* name : kPaperModels) {
    const Architecture& a = known_model(name).architecture;
    const auto [s, h, heads, v, l] = sizes(a);
    const ModelStats stats = architecture_stats(a);
    const BlockStats& layer = first_layer(stats);
    const double scores = 5 * heads * s / h;
    const double t = 8;
    EXPECT_DOUBLE_EQ(kept_bytes(layer, {}), s * h * (34 + scores));
    EXPECT_DOUBLE_EQ(kept_bytes(layer, {t}), s * h * (10 + 24 / t + scores / t));
    EXPECT_DOUBLE_EQ(kept_bytes(layer, {t, true}), s * h * (34 + scores) / t);
    EXPECT_DOUBLE_EQ(kept_bytes(layer, {t, false, true}), s * h * (10 + 24 / t));
    EXPECT_DOUBLE_EQ(kept_bytes(layer, {t, true, true}), s * h * 34 / t);
    EXPECT_DOUBLE_EQ(2 * layer.input_elements, 2 * s * h);  // full recomputation
  }
}

TEST(Activations, BeforeAndBehindTheLayersAreThoseOfTheRecomputationPaper) {
  const Architecture& a = known_model("megatron-22b").architecture;
  const auto [s, h, heads, v, l] = sizes(a);
  const ModelStats stats = architecture_stats(a);
  EXPECT_DOUBLE_EQ(kept_bytes(stats.blocks.front(), {8, true}), s * h / 8);  // its dropout's mask
  // Section 4.3: the last norm, the product with the vocabulary, and logits in fp32.
  EXPECT_DOUBLE_EQ(kept_bytes(stats.blocks.back(), {8, true}), 4 * s * h / 8 * (1 + v / h));
}

TEST(Activations, AreFewerWithoutDropoutAndWithGroupedQueries) {
  const Architecture& a = known_model("llama-3-8b").architecture;
  const double s = 8192;
  const ModelStats stats = architecture_stats(a, 8192);
  // Two norms and what they give (4 h), queries and attention's output (2 h), keys and values
  // (2 x 1024), four times the hidden width; one set of scores.
  const double elements = s * (4 * 4096 + 2 * 4096 + 2 * 1024 + 4 * 14336);
  EXPECT_DOUBLE_EQ(kept_bytes(first_layer(stats), {1, false, true}), 2 * elements);
  EXPECT_DOUBLE_EQ(kept_bytes(first_layer(stats), {}), 2 * elements + 2 * 32 * s * s);
}

TEST(Activations, OfExpertsAreKeptByTokenAndExpert) {
  const double s = 1024;
  const double h = 4096;
  const double hidden = 14336;
  const ModelStats stats = architecture_stats(known_model("mixtral-8x7b").architecture, 1024);
  // Norms and what they give, attention; then of two experts a token: what goes in and comes out,
  // and four times the hidden width. The router's shares of eight experts are fp32.
  const double elements = s * (4 * h + 2 * h + 2 * 1024 + 2 * (2 * h + 4 * hidden));
  EXPECT_DOUBLE_EQ(kept_bytes(first_layer(stats), {1, false, true}), 2 * elements + 4 * s * 8);
}

TEST(Activations, OfReluAreKeptOnceOfGeluTwice) {
  Architecture a = known_model("opt-125m").architecture;
  const double relu = kept_bytes(first_layer(architecture_stats(a)), {});
  a.relu = false;
  const double gelu = kept_bytes(first_layer(architecture_stats(a)), {});
  EXPECT_DOUBLE_EQ(gelu - relu, 2.0 * 2048 * 4 * 768);
}

TEST(Flops, AreMegatronsWithAndWithoutRecomputation) {
  for (const char* name : kPaperModels) {
    const Architecture& a = known_model(name).architecture;
    const auto [s, h, heads, v, l] = sizes(a);
    const ModelStats stats = architecture_stats(a);
    const double once = 72 * s * l * h * h * (1 + s / (6 * h) + v / (12 * l * h));
    const double twice = 96 * s * l * h * h * (1 + s / (6 * h) + v / (16 * l * h));
    EXPECT_NEAR(stats.model_flops_per_sample() / once, 1, 1e-12) << name;
    EXPECT_NEAR((stats.model_flops_per_sample() + stats.layer_flops_per_sample()) / twice, 1, 1e-12)
        << name;
    EXPECT_DOUBLE_EQ(stats.attention_flops_per_sample(), 4 * s * s * h * l) << name;
  }
}

TEST(Flops, OfExpertsAreThoseOfTheOnesThatATokenPasses) {
  Architecture a = known_model("mixtral-8x7b").architecture;
  const double all = architecture_stats(a, 1024).forward_flops_per_sample();
  const double router = 2.0 * 1024 * 4096 * 8 * 32;
  a.experts = {};
  const double dense = architecture_stats(a, 1024).forward_flops_per_sample();
  // Two experts instead of one feed-forward part of the same width.
  EXPECT_DOUBLE_EQ(all - dense, 32 * 2.0 * 1024 * 3 * 4096 * 14336 + router);
}

TEST(Flops, OfResnet50AreFourBillionMultiplyAdds) {
  // torchvision states 4.09 billion for 224 x 224.
  const ModelStats stats = architecture_stats(known_model("resnet50").architecture);
  EXPECT_NEAR(stats.forward_flops_per_sample() / 2, 4.09e9, 0.005e9);
}

TEST(Operators, AddUpToTheirBlock) {
  for (const KnownModel& known : known_models()) {
    const ModelStats stats = architecture_stats(known.architecture);
    for (const BlockStats& block : stats.blocks) {
      double forward = 0;
      for (const OperatorStats& op : block.operators) {
        forward += op.forward_flops;
        EXPECT_EQ(op.backward_flops, 2 * op.forward_flops) << op.name;
        const double products = op.kind == OperatorKind::attention ? 4 : 2;
        if (op.forward_flops > 0) {
          EXPECT_NEAR(op.forward_flops / (products * op.m * op.n * op.k * op.times), 1, 1e-12);
        }
      }
      EXPECT_EQ(block.forward_flops, forward) << known.architecture.name << " " << block.name;
    }
  }
}

TEST(Operators, ReadAllWeightsOfTheirBlock) {
  for (const char* name : {"gpt2", "llama-3-8b", "mixtral-8x7b", "t5-3b", "resnet50", "dlrm"}) {
    for (const BlockStats& block : architecture_stats(known_model(name).architecture).blocks) {
      double weights = 0;
      for (const OperatorStats& op : block.operators) weights += op.weight_elements;
      double matrices = 0;
      for (const ParameterStats& parameter : block.parameters) {
        const bool looked_up = block.name == "embed" || block.name == "tables" ||
                               parameter.name.ends_with("positions.weight");
        const bool is_matrix = parameter.shape.size() > 1 && !looked_up;
        if (is_matrix) matrices += static_cast<double>(parameter.count());
      }
      const bool tied_head = block.name == "head" && matrices == 0;
      if (tied_head) continue;
      EXPECT_EQ(weights, matrices) << name << " " << block.name;
    }
  }
}

config::ModelSection section(config::Family family) {
  config::ModelSection config;
  config.family = family;
  config.width = 96;
  return config;
}

TEST(Architecture, OfOurFamiliesHasTheirParametersAndOperators) {
  for (const FamilyStats& row : family_stats()) {
    const config::ModelSection config = section(row.family);
    const ModelStats own = model_stats(config, 32);
    const ModelStats general = architecture_stats(architecture_of(config, 32), 32);
    ASSERT_EQ(own.blocks.size(), general.blocks.size()) << row.name;
    for (std::size_t i = 0; i < own.blocks.size(); ++i) {
      const auto& mine = own.blocks[i].parameters;
      const auto& theirs = general.blocks[i].parameters;
      ASSERT_EQ(mine.size(), theirs.size()) << own.blocks[i].name;
      for (std::size_t p = 0; p < mine.size(); ++p) {
        EXPECT_EQ(mine[p].name, theirs[p].name);
        EXPECT_EQ(mine[p].shape, theirs[p].shape) << mine[p].name;
        EXPECT_EQ(mine[p].split, theirs[p].split) << mine[p].name;
        EXPECT_EQ(mine[p].keep_fp32, theirs[p].keep_fp32) << mine[p].name;
      }
      EXPECT_FALSE(own.blocks[i].operators.empty()) << own.blocks[i].name;
      EXPECT_EQ(own.blocks[i].buffer_floats, general.blocks[i].buffer_floats);
      EXPECT_EQ(own.blocks[i].batch_norms, general.blocks[i].batch_norms);
    }
    EXPECT_EQ(own.input_bytes_per_sample, general.input_bytes_per_sample) << row.name;
  }
}

TEST(Architecture, OfOurMlpAndResnetKeepsWhatOurWorkerKeeps) {
  for (const config::Family family : {config::Family::mlp, config::Family::resnet}) {
    for (const BlockStats& block : model_stats(section(family), 1).blocks) {
      double kept = block.name == "layers.0" ? -784 : 0;  // the batch, which nobody keeps twice
      for (const OperatorStats& op : block.operators) {
        for (const Kept& entry : op.kept) kept += entry.elements;
      }
      double flops = 0;
      for (const OperatorStats& op : block.operators) flops += op.forward_flops;
      EXPECT_EQ(block.forward_flops, flops) << block.name;
      if (block.name == "head") continue;  // its logits are kept in the compute type
      EXPECT_EQ(kept, block.activation_elements) << block.name;
    }
  }
}

TEST(Architecture, SharesExpertsAndKeepsTheRestOfTheLayerWhole) {
  const ModelStats stats = architecture_stats(known_model("deepseek-moe-16b").architecture, 128);
  std::int64_t of_experts = 0;
  for (const BlockStats& block : stats.blocks) {
    for (const ParameterStats& parameter : block.parameters) {
      if (parameter.of_experts) of_experts += parameter.count();
    }
  }
  // 27 of 28 layers have 64 experts of three matrices.
  EXPECT_EQ(of_experts, std::int64_t{27} * 64 * 3 * 2048 * 1408);
}

TEST(CheckArchitecture, AcceptsEveryKnownModel) {
  for (const KnownModel& known : known_models()) {
    EXPECT_EQ(lockstep::to_text(check_architecture(known.architecture)), "");
  }
}

TEST(CheckArchitecture, FindsAllFaultsAtOnce) {
  Architecture a = known_model("gpt2").architecture;
  a.layers = 0;
  a.width = -1;
  a.dropout = 1;
  a.vocabulary = 1;
  EXPECT_EQ(check_architecture(a).size(), 4U);
  Architecture grouped = known_model("llama-3-8b").architecture;
  grouped.kv_heads = 5;
  ASSERT_EQ(check_architecture(grouped).size(), 1U);
  EXPECT_EQ(check_architecture(grouped)[0].code, "LS-6003");
}

}  // namespace
}  // namespace lockstep::model
