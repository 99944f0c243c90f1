#include "lockstep/model/stats/described_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "lockstep/base/error.h"
#include "lockstep/model/stats/architecture_stats.h"
#include "lockstep/model/stats/known_models.h"
#include "lockstep/model/stats/model_stats.h"
#include "tests/support/problem_of.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::model {
namespace {

constexpr const char* kTiny =
    R"({"model_type": "gpt2", "n_embd": 8, "n_layer": 2, "n_head": 2, "n_positions": 16,
        "vocab_size": 10})";

TEST(DescribedModel, IsAFileAFolderOrAName) {
  const test::ScratchFolder folder;
  const std::string path = folder.path().string();
  (void)folder.write("config.json", kTiny);
  EXPECT_EQ(described_model(path + "/config.json").architecture.width, 8);
  EXPECT_EQ(described_model(path).architecture.layers, 2);
  EXPECT_EQ(described_model("gpt2").architecture.width, 768);
  EXPECT_EQ(described_model("t5-3b").assumptions.size(), 1U);
}

TEST(DescribedModel, SaysWhichFileItCannotRead) {
  const auto read = [] { (void)described_model("no/such/config.json"); };
  const Problem problem = test::problem_of<UsageError>(read);
  EXPECT_EQ(problem.code, "LS-1001");
  EXPECT_EQ(problem.where, "no/such/config.json");
  EXPECT_EQ(problem.what, "the model's config.json cannot be read");
  const auto find = [] { (void)described_model("no-such-model"); };
  EXPECT_EQ(test::problem_of<UsageError>(find).code, "LS-6021");
}

TEST(DescribedModel, StandsInWords) {
  EXPECT_EQ(in_words(known_model("llama-3-8b").architecture),
            "32 layers, 4,096 wide, 32 heads with 8 of keys and values, feed-forward 14,336, "
            "vocabulary 128,256");
  EXPECT_EQ(in_words(known_model("mixtral-8x7b").architecture),
            "32 layers, 4,096 wide, 32 heads with 8 of keys and values, feed-forward 14,336, "
            "8 experts of which a token passes 2, vocabulary 32,000");
  EXPECT_EQ(in_words(known_model("resnet50").architecture),
            "stages of 3-4-6-3 bottlenecks, 64-128-256-512 wide, images of 224 x 224");
  EXPECT_EQ(in_words(known_model("wide_deep").architecture),
            "26 tables 32 wide, 13 dense inputs, layers 1024-512-256");
}

TEST(CheckTrainable, SaysWhichKeysBuildADescribedModel) {
  EXPECT_TRUE(check_trainable({}).empty());
  config::ModelSection described;
  described.config = "gpt2";
  const auto gpt = check_trainable(described);
  ASSERT_EQ(gpt.size(), 1U);
  EXPECT_EQ(gpt[0].code, "LS-6026");
  EXPECT_EQ(gpt[0].where, "model.config");
  EXPECT_THAT(gpt[0].fix, testing::HasSubstr("family = \"gpt\", layers = 12, width = 768, heads = "
                                             "12, vocab_size = 50257"));
  described.config = "llama-3-8b";
  const auto llama = check_trainable(described);
  ASSERT_EQ(llama.size(), 1U);
  EXPECT_THAT(llama[0].what, testing::HasSubstr("32 layers, 4,096 wide"));
  EXPECT_THAT(llama[0].fix, testing::EndsWith("choose model.family"));
  described.config = "lama-3-8b";
  EXPECT_EQ(check_trainable(described).at(0).code, "LS-6021");
}

/// The keys are of a family here with as many parameters.
TEST(CheckTrainable, TheKeysBuildAsManyParameters) {
  const Architecture gpt = described_model("gpt2").architecture;
  ASSERT_FALSE(keys_that_build(gpt).empty());
  config::ModelSection section;
  section.family = config::Family::gpt;
  section.layers = gpt.layers;
  section.width = gpt.width;
  section.heads = gpt.heads;
  section.vocab_size = gpt.vocabulary;
  EXPECT_EQ(model_stats(section, gpt.max_positions).parameters(),
            architecture_stats(gpt).parameters());
}

}  // namespace
}  // namespace lockstep::model
