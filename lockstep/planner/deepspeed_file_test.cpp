#include "lockstep/planner/deepspeed_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep::planner {
namespace {

using parallel::Offload;
using testing::ElementsAre;
using testing::HasSubstr;

DeepSpeedFile read(std::string_view json) { return read_deepspeed_file(json, "ds.json"); }

TEST(DeepSpeedFile, SaysStageAndWhatIsOffloaded) {
  const DeepSpeedFile file = read(
      R"({"fp16": {"enabled": true}, "zero_optimization": {"stage": 3,
          "offload_optimizer": {"device": "nvme", "nvme_path": "/n"},
          "offload_param": {"device": "cpu"}}})");
  EXPECT_EQ(file.zero.fixed, 3);
  EXPECT_EQ(file.offload_optimizer.fixed, Offload::nvme);
  EXPECT_EQ(file.offload_parameters.fixed, Offload::cpu);
  EXPECT_EQ(file.fp16.fixed, true);
  EXPECT_TRUE(file.bf16.is_open());
}

TEST(DeepSpeedFile, KnowsDefaultsAndOldNames) {
  EXPECT_EQ(read("{}").zero.or_else(0), 0);
  const DeepSpeedFile old =
      read(R"({"zero_optimization": {"stage": 2, "cpu_offload": true, "offload_param": null},
               "bfloat16": {"enabled": "auto"}})");
  EXPECT_EQ(old.zero.fixed, 2);
  EXPECT_EQ(old.offload_optimizer.fixed, Offload::cpu);
  EXPECT_EQ(old.offload_parameters.or_else(Offload::none), Offload::none);
  EXPECT_TRUE(old.bf16.is_auto);
}

TEST(DeepSpeedFile, TakesNumbersAsPeopleWriteThemAndComments) {
  const DeepSpeedFile file = read(
      R"({"train_batch_size": 6.4e1, /* samples */ "gradient_accumulation_steps": "auto",
          "zero_optimization": {"reduce_bucket_size": 5e8, "overlap_comm": false,
          "stage": 3, "zero_hpz_partition_size": 8, "stage3_max_live_parameters": 0}})");
  EXPECT_EQ(file.train_batch.fixed, 64);
  EXPECT_TRUE(file.accumulation.is_auto);
  EXPECT_TRUE(file.micro_batch.is_open());
  EXPECT_FALSE(file.micro_batch.is_auto);
  EXPECT_EQ(file.reduce_bucket.fixed, 500'000'000);
  EXPECT_EQ(file.live_parameters.fixed, 0);
  EXPECT_EQ(file.secondary_shard.fixed, 8);
  EXPECT_EQ(file.overlap_comm.fixed, false);
}

TEST(DeepSpeedFile, ListsEveryAutoInTheOrderOfTheFile) {
  EXPECT_THAT(
      read(R"({"optimizer": {"type": "AdamW", "params": {"lr": "auto", "betas": [0.9, 0.95]}},
               "train_batch_size": "auto",
               "zero_optimization": {"stage": 3, "reduce_bucket_size": "auto"}})")
          .automatic,
      ElementsAre("optimizer.params.lr", "train_batch_size",
                  "zero_optimization.reduce_bucket_size"));
}

TEST(DeepSpeedFile, SaysWhatItDoesNotCount) {
  const DeepSpeedFile file = read(
      R"({"wall_clock_breakdown": false, "activation_checkpointing": {"cpu_checkpointing": true},
          "zero_optimization": {"stage": 3, "zero_quantized_weights": true, "sky_hook": 1}})");
  EXPECT_TRUE(file.checkpoints_activations);
  EXPECT_THAT(file.notes, ElementsAre(HasSubstr("sky_hook"), HasSubstr("quantized weights")));
}

std::vector<Problem> problems_of(const std::string& text) {
  try {
    (void)read(text);
  } catch (const UsageError& error) {
    for (const Problem& problem : error.problems()) EXPECT_EQ(problem.code, "LS-6115");
    return error.problems();
  }
  return {};
}

TEST(DeepSpeedFile, IsRefusedWithAllThatIsWrong) {
  EXPECT_EQ(problems_of("{").size(), 1U);
  EXPECT_EQ(problems_of("[3]").size(), 1U);
  EXPECT_EQ(problems_of(R"({"zero_optimization": 3})").size(), 1U);
  EXPECT_EQ(problems_of(R"({"zero_optimization": {"stage": 5,
                             "offload_optimizer": {"pin_memory": true},
                             "offload_param": {"device": "gpu"}}})")
                .size(),
            3U);
  EXPECT_EQ(problems_of(R"({"train_batch_size": 0, "gradient_accumulation_steps": 1.5,
                             "train_micro_batch_size_per_gpu": "four", "gradient_clipping": -1,
                             "bf16": {"enabled": 1}, "fp16": true, "optimizer": {"params": 3},
                             "zero_optimization": {"overlap_comm": "yes",
                                                   "reduce_bucket_size": -5}})")
                .size(),
            10U);
}

TEST(DeepSpeedFile, IsRefusedWithTheNearestNameOfAMisspeltKey) {
  const auto problems = problems_of(R"({"train_batchsize": 4,
      "zero_optimization": {"reduce_bucket_sise": 5, "stage": 1}})");
  ASSERT_EQ(problems.size(), 2U);
  EXPECT_EQ(problems[0].fix, "did you mean train_batch_size?");
  EXPECT_EQ(problems[1].fix, "did you mean reduce_bucket_size?");
}

TEST(DeepSpeedFile, IsRefusedWherePartsExcludeEachOther) {
  const auto what = [](const char* text) {
    const auto problems = problems_of(text);
    return problems.size() == 1 ? problems.front().what : "";
  };
  EXPECT_THAT(what(R"({"bf16": {"enabled": true}, "fp16": {"enabled": true}})"),
              HasSubstr("both enabled"));
  EXPECT_THAT(what(R"({"zero_optimization": {"stage": 2, "offload_param": {"device": "cpu"}}})"),
              HasSubstr("stage 3 alone"));
  EXPECT_THAT(
      what(R"({"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "nvme"}}})"),
      HasSubstr("nvme"));
  EXPECT_THAT(what(R"({"zero_optimization": {"offload_optimizer": {"device": "cpu"}}})"),
              HasSubstr("stages 1 to 3"));
  EXPECT_THAT(what(R"({"zero_optimization": {"stage": 1, "zero_hpz_partition_size": 8}})"),
              HasSubstr("zero_hpz_partition_size"));
  EXPECT_THAT(what(R"({"fp16": {"enabled": true, "enabled": false}})"), HasSubstr("twice"));
}

TEST(DeepSpeedFile, OfAnyDepthIsRefusedInsteadOfFollowed) {
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "{\"a\":";
  EXPECT_THAT(problems_of(deep).at(0).what, HasSubstr("nested deeper"));
}

}  // namespace
}  // namespace lockstep::planner
