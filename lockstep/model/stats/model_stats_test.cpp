#include "lockstep/model/stats/model_stats.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "lockstep/model/stats/families.h"

namespace lockstep::model {
namespace {

using config::Family;
using config::ModelSection;

ModelSection resnet(std::int64_t depth, std::int64_t channels = 3, std::int64_t image_size = 32) {
  ModelSection config;
  config.family = Family::resnet;
  config.depth = depth;
  config.channels = channels;
  config.image_size = image_size;
  return config;
}

ModelSection gpt(std::int64_t layers, std::int64_t width, std::int64_t heads, std::int64_t vocab) {
  ModelSection config;
  config.family = Family::gpt;
  config.layers = layers;
  config.width = width;
  config.heads = heads;
  config.vocab_size = vocab;
  return config;
}

TEST(ModelStats, CountsTheParametersThatThePapersGive) {
  EXPECT_EQ(model_stats(resnet(18), 0).parameters(), 11'173'962);
  EXPECT_EQ(model_stats(resnet(20), 0).parameters(), 272'474);  // with 1x1 shortcuts
  EXPECT_EQ(model_stats(resnet(20, 1, 28), 0).parameters(), 272'186);
  // GPT-2 small with a vocabulary padded to 50304 and 1024 positions: llm.c prints this number.
  EXPECT_EQ(model_stats(gpt(12, 768, 12, 50304), 1024).parameters(), 124'475'904);
}

TEST(ModelStats, CountsTheLayersOfEveryResnetDepth) {
  for (const std::int64_t depth : {18, 20, 32, 44, 56}) {
    std::int64_t blocks = 0;
    for (const ResnetStage& stage : resnet_stages(depth)) blocks += stage.blocks;
    EXPECT_EQ(2 * blocks + 2, depth);
  }
}

TEST(ModelStats, KnowsTheFlopsOfResnet18AndOfAMatrix) {
  // 0.555 billion multiply-adds an image of 32 x 32.
  EXPECT_NEAR(model_stats(resnet(18), 0).forward_flops_per_sample(), 1.11e9, 0.01e9);
  ModelSection mlp;
  mlp.layers = 1;
  mlp.width = 10;
  mlp.inputs = 7;
  mlp.classes = 3;
  EXPECT_EQ(model_stats(mlp, 0).forward_flops_per_sample(), 2 * (7 * 10 + 10 * 3));
}

TEST(ModelStats, GivesEveryParameterItsOwnNameWithinItsBlock) {
  for (const ModelSection& config : {ModelSection{}, resnet(20), gpt(2, 8, 2, 16)}) {
    std::set<std::string> names;
    for (const BlockStats& block : model_stats(config, 4).blocks) {
      for (const ParameterStats& parameter : block.parameters) {
        EXPECT_TRUE(parameter.name.starts_with(block.name + ".")) << parameter.name;
        EXPECT_TRUE(names.insert(parameter.name).second) << parameter.name << " stands twice";
        EXPECT_GT(parameter.count(), 0) << parameter.name;
      }
    }
  }
}

TEST(ModelStats, KeepsNormalisationInFp32AndSplitsAttentionByHeads) {
  const ModelStats stats = model_stats(gpt(1, 8, 2, 16), 4);
  for (const ParameterStats& parameter : stats.blocks.at(1).parameters) {
    EXPECT_EQ(parameter.keep_fp32, parameter.name.find(".ln") != std::string::npos)
        << parameter.name;
  }
  const auto split_of = [&](const std::string& name) {
    const auto& all = stats.blocks.at(1).parameters;
    return std::find_if(all.begin(), all.end(), [&](const auto& p) { return p.name == name; })
        ->split;
  };
  EXPECT_EQ(split_of("blocks.0.qkv.weight"), Split::column);
  EXPECT_EQ(split_of("blocks.0.proj.weight"), Split::row);
  EXPECT_EQ(split_of("blocks.0.proj.bias"), Split::none);
  EXPECT_EQ(stats.blocks.front().parameters.front().split, Split::vocab);
}

TEST(ModelStats, CountsTokensForTextAndSamplesForImages) {
  const ModelStats text = model_stats(gpt(1, 8, 2, 16), 64);
  EXPECT_TRUE(text.counts_tokens);
  EXPECT_EQ(text.tokens_per_sample, 64);
  EXPECT_EQ(text.input_bytes_per_sample, 64 * 16);
  const ModelStats images = model_stats(resnet(20, 1, 28), 0);
  EXPECT_FALSE(images.counts_tokens);
  EXPECT_EQ(images.tokens_per_sample, 1);
  EXPECT_EQ(images.input_bytes_per_sample, 28 * 28 * 4 + 8);
}

TEST(CheckModel, AcceptsTheDefaultsOfEveryFamily) {
  for (const FamilyStats& row : family_stats()) {
    ModelSection config;
    config.family = row.family;
    config.width = 384;
    EXPECT_EQ(to_text(check_model(config)), "") << row.name;
  }
}

TEST(CheckModel, NamesTheDepthsThereAre) {
  const auto problems = check_model(resnet(34));
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems[0].code, "LS-6002");
  EXPECT_EQ(problems[0].where, "model.depth");
  EXPECT_NE(problems[0].fix.find("18"), std::string::npos);
}

TEST(CheckModel, NamesWidthsThatTheHeadsDivide) {
  const auto problems = check_model(gpt(2, 100, 3, 16));
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems[0].code, "LS-6003");
  EXPECT_EQ(problems[0].fix, "use 2 or 4 heads, or a width such as 99 or 102");
}

TEST(CheckModel, FindsAllFaultsAtOnce) {
  ModelSection config = gpt(0, 8, 0, 1);
  config.dropout = 1;
  const auto problems = check_model(config);
  const auto has = [&](const std::string& where) {
    return std::any_of(problems.begin(), problems.end(),
                       [&](const Problem& p) { return p.where == where; });
  };
  EXPECT_EQ(problems.size(), 4U);
  EXPECT_TRUE(has("model.layers"));
  EXPECT_TRUE(has("model.heads"));
  EXPECT_TRUE(has("model.vocab_size"));
  EXPECT_TRUE(has("model.dropout"));
}

}  // namespace
}  // namespace lockstep::model
