#include "lockstep/planner/deepspeed_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/model/stats/architecture_stats.h"
#include "lockstep/model/stats/known_models.h"
#include "lockstep/planner/deepspeed_fill.h"

namespace lockstep::planner {
namespace {

using parallel::Layout;
using parallel::Offload;
using testing::HasSubstr;

struct Case {
  std::string json;
  std::string model = "llama-2-7b";
  int data = 8;
  const char* device = "A100-80G";  // null = not named
  config::BatchSection said{};
};

ClusterJob job_of(const Case& c) {
  ClusterJob job;
  job.architecture = model::known_model(c.model).architecture;
  job.model = model::architecture_stats(job.architecture, 0);
  job.recipe = parallel::find_recipe("bf16");
  job.layout.data = c.data;
  job.layout.flash_attention = true;
  if (c.device != nullptr) job.machine = usual_machine(*find_device(c.device), c.data);
  job.deepspeed = DeepSpeedChoice{read_deepspeed_file(c.json, "ds.json"), {}};
  put_deepspeed_states(job, /*recompute_is_said=*/false);
  return job;
}

Layout settled(const Case& c) {
  ClusterJob job = job_of(c);
  const auto problems = settle_deepspeed(job, c.said);
  EXPECT_TRUE(problems.empty()) << to_text(problems);
  return job.layout;
}

std::vector<Problem> refused(const Case& c) {
  ClusterJob job = job_of(c);
  return settle_deepspeed(job, c.said);
}

TEST(DeepSpeedBatch, OfAnyTwoNumbersGivesTheThird) {
  const Layout accumulation =
      settled({R"({"train_batch_size": 64, "train_micro_batch_size_per_gpu": 2})"});
  EXPECT_EQ(accumulation.accumulation, 4);
  const Layout micro =
      settled({R"({"train_batch_size": 64, "train_micro_batch_size_per_gpu": "auto",
           "gradient_accumulation_steps": 4})"});
  EXPECT_EQ(micro.micro_batch, 2);
  const Layout train = settled({R"({"train_batch_size": "auto", "train_micro_batch_size_per_gpu": 3,
           "gradient_accumulation_steps": 2})"});
  EXPECT_EQ(train.global_batch(), 48);
}

TEST(DeepSpeedBatch, OfOneNumberDoesNotAccumulateAsDeepSpeedDoesNot) {
  const Layout train = settled({R"({"train_batch_size": 64})"});
  EXPECT_EQ(train.micro_batch, 8);
  EXPECT_EQ(train.accumulation, 1);
  EXPECT_EQ(settled({R"({"train_micro_batch_size_per_gpu": 4})"}).global_batch(), 32);
}

TEST(DeepSpeedBatch, TakesWhatIsOpenFromTheCommandLine) {
  config::BatchSection said;
  said.global_batch = 256;
  const Layout layout =
      settled({R"({"train_batch_size": "auto", "train_micro_batch_size_per_gpu": 4})", "gpt2", 8,
               nullptr, said});
  EXPECT_EQ(layout.accumulation, 8);
  said.micro_batch = 2;
  const auto problems =
      refused({R"({"train_micro_batch_size_per_gpu": 4})", "gpt2", 8, nullptr, said});
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_THAT(problems.front().fix, HasSubstr("\"auto\""));
}

TEST(DeepSpeedBatch, OfAPipelineAccumulatesOnlyWhereItIsOpen) {
  const auto accumulation = [](const std::string& more) {
    ClusterJob job = job_of({R"({"train_micro_batch_size_per_gpu": 2)" + more + "}", "gpt2", 2});
    job.layout.pipeline = 4;
    job.layout.schedule = parallel::PipelineSchedule::one_f_one_b;
    EXPECT_TRUE(settle_deepspeed(job, {}).empty());
    return job.layout.accumulation;
  };
  EXPECT_EQ(accumulation(""), 1) << "DeepSpeed's default";
  EXPECT_EQ(accumulation(R"(, "gradient_accumulation_steps": "auto")"), 16);
}

TEST(DeepSpeedBatch, IsRefusedWithTheNearestThatDivide) {
  const auto problems = refused({R"({"train_batch_size": 100, "train_micro_batch_size_per_gpu": 4,
           "gradient_accumulation_steps": 3})"});
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems.front().code, "LS-6115");
  EXPECT_EQ(problems.front().where, "ds.json");
  EXPECT_THAT(problems.front().what, HasSubstr("x 8 data ranks is 96"));
  EXPECT_THAT(problems.front().fix, HasSubstr("96 or 128"));
  EXPECT_EQ(refused({R"({"train_batch_size": 12})"}).size(), 1U);
}

TEST(DeepSpeedBatch, IsCutAsLargeAsItFits) {
  const char* file = R"({"train_batch_size": 512, "train_micro_batch_size_per_gpu": "auto",
                         "gradient_accumulation_steps": "auto",
                         "zero_optimization": {"stage": 3}})";
  ClusterJob job = job_of({file});
  ASSERT_TRUE(settle_deepspeed(job, {}).empty());
  EXPECT_EQ(job.layout.global_batch(), 512);
  const std::int64_t micro = job.layout.micro_batch;
  EXPECT_LT(plan_cluster(job).memory.device.total(), job.machine->device.memory_bytes * 9 / 10);
  job.layout.micro_batch = 2 * micro;
  EXPECT_GT(plan_cluster(job).memory.device.total(), job.machine->device.memory_bytes * 9 / 10);
  EXPECT_THAT(job.deepspeed->because.at("train_micro_batch_size_per_gpu"),
              HasSubstr("largest that fits"));
  EXPECT_EQ(settled({file, "llama-2-7b", 8, nullptr}).micro_batch, 1);
}

TEST(DeepSpeedStage, IsTheFirstThatFitsWhereItIsOpen) {
  const char* file = R"({"zero_optimization": {"stage": "auto",
                         "offload_optimizer": {"device": "auto"}}})";
  EXPECT_EQ(settled({file, "gpt2"}).zero, 0);
  const Layout shared = settled({file, "llama-2-7b"});
  EXPECT_GE(shared.zero, 1);
  EXPECT_EQ(shared.offload_optimizer, Offload::none);
  const Layout offloaded = settled({file, "llama-2-13b", 1});
  EXPECT_EQ(offloaded.offload_optimizer, Offload::cpu);
  EXPECT_EQ(offloaded.offload_parameters, Offload::none) << "the file has no offload_param";
}

TEST(DeepSpeedStage, OfAPipelineIsZeroOrOne) {
  ClusterJob job = job_of({R"({"zero_optimization": {"stage": 2}})", "gpt2", 4});
  job.layout.pipeline = 2;
  job.layout.schedule = parallel::PipelineSchedule::one_f_one_b;
  EXPECT_THAT(settle_deepspeed(job, {}).at(0).what, HasSubstr("pipeline engine"));
}

TEST(DeepSpeedStage, IsRefusedWhereNoneGoesWithAPipeline) {
  for (const char* part :
       {R"("offload_param": {"device": "cpu"})", R"("offload_optimizer": {"device": "nvme"})",
        R"("zero_hpz_partition_size": 2)"}) {
    const Case c{R"({"zero_optimization": {"stage": "auto", )" + std::string(part) + "}}"};
    EXPECT_EQ(settled(c).zero, 3) << part;
    ClusterJob job = job_of(c);
    job.layout.pipeline = 2;
    const auto problems = settle_deepspeed(job, {});
    ASSERT_EQ(problems.size(), 1U) << part;
    EXPECT_THAT(problems.front().what, HasSubstr("no stage goes with both a pipeline and "));
    const std::string key = std::string(part).substr(1, 8);
    EXPECT_THAT(problems.front().fix, HasSubstr("drop " + key));
  }
}

TEST(DeepSpeedStates, GoByTheSizesOfTheFile) {
  const auto buffers = [](const std::string& more) {
    ClusterJob job =
        job_of({R"({"train_micro_batch_size_per_gpu": 1, "zero_optimization": {)" + more + "}}"});
    EXPECT_TRUE(settle_deepspeed(job, {}).empty());
    return static_cast<double>(plan_cluster(job).memory.device.buffers);
  };
  const double usual = buffers(R"("stage": 2)");
  EXPECT_NEAR(usual - buffers(R"("stage": 2, "reduce_bucket_size": 3e8)"), 2 * 2e8, 1);
  EXPECT_NEAR(buffers(R"("stage": 2, "overlap_comm": true)") - usual, 2 * 5e8, 1);
  const double gathered = buffers(R"("stage": 3)");
  EXPECT_NEAR(gathered - buffers(R"("stage": 3, "stage3_max_live_parameters": 5e8)"), 2 * 5e8, 1);
  // The norms: 4,096 elements each, two a layer and one at the end; an eighth is there anyway.
  const double none = buffers(R"("stage": 3, "stage3_param_persistence_threshold": 0)");
  EXPECT_NEAR(gathered - none, 2 * 65 * 4096 * 7.0 / 8, 1);
}

TEST(DeepSpeedPrecision, IsTheFilesOrTheCommandLines) {
  const auto by = [](const char* json, const char* said, bool given) {
    return precision_by(read_deepspeed_file(json, "ds.json"), said, given);
  };
  EXPECT_EQ(by(R"({"fp16": {"enabled": true}})", "bf16", false).name, "fp16");
  EXPECT_EQ(by(R"({"bf16": {"enabled": "auto"}})", "fp16", true).name, "fp16");
  EXPECT_EQ(by(R"({"bf16": {"enabled": false}, "fp16": {"enabled": false}})", "bf16", false).name,
            "fp32");
  for (const char* json : {R"({"bf16": {"enabled": false}})", R"({"fp16": {"enabled": false}})"}) {
    const FilePrecision off = by(json, "bf16", false);
    EXPECT_EQ(off.name, "fp32") << "the section that is missing is off too";
    EXPECT_THAT(off.note, HasSubstr("trains in fp32"));
  }
  EXPECT_EQ(by(R"({"fp16": {"enabled": false}})", "bf16", true).name, "bf16") << "it was said";
  EXPECT_EQ(by(R"({"bf16": {"enabled": "auto"}, "fp16": {"enabled": false}})", "bf16", false).name,
            "bf16");
  EXPECT_EQ(by(R"({"bf16": {"enabled": true}})", "fp16", true).problems.size(), 1U);
  EXPECT_TRUE(by(R"({"bf16": {"enabled": true}})", "bf16-fp32grad", true).problems.empty());
  EXPECT_THAT(by("{}", "bf16", false).note, HasSubstr("trains in fp32"));
}

std::string value_of(const FilledDeepSpeed& filled, const std::string& key) {
  for (const FilledKey& row : filled.keys) {
    if (row.key == key) return row.value;
  }
  return "no such key";
}

TEST(DeepSpeedFill, GivesBucketsByTheModelsWidthAsTransformersDoes) {
  ClusterJob job = job_of({R"({"train_batch_size": "auto", "train_micro_batch_size_per_gpu": 2,
      "bf16": {"enabled": "auto"}, "fp16": {"enabled": "auto", "loss_scale": 0},
      "gradient_clipping": "auto",
      "optimizer": {"type": "AdamW", "params": {"lr": "auto", "betas": "auto"}},
      "scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": "auto"}},
      "zero_optimization": {"stage": 3, "reduce_bucket_size": "auto",
        "stage3_prefetch_bucket_size": "auto", "stage3_param_persistence_threshold": "auto"}})"});
  ASSERT_TRUE(settle_deepspeed(job, {}).empty());
  const FilledDeepSpeed filled = fill_deepspeed(job, 1000);
  const std::string zero = "zero_optimization.";
  EXPECT_EQ(value_of(filled, zero + "reduce_bucket_size"), "16777216");
  EXPECT_EQ(value_of(filled, zero + "stage3_prefetch_bucket_size"), "15099494");
  EXPECT_EQ(value_of(filled, zero + "stage3_param_persistence_threshold"), "40960");
  EXPECT_EQ(value_of(filled, "train_batch_size"), "16");
  EXPECT_EQ(value_of(filled, "bf16.enabled"), "true");
  EXPECT_EQ(value_of(filled, "fp16.enabled"), "false");
  EXPECT_EQ(value_of(filled, "gradient_clipping"), "1.0");
  EXPECT_EQ(value_of(filled, "optimizer.params.betas"), "[0.9,0.999]");
  EXPECT_EQ(value_of(filled, "scheduler.params.total_num_steps"), "1000");
  for (const FilledKey& row : filled.keys) EXPECT_NE(row.why, "") << row.key;
  EXPECT_EQ(filled.config.find("auto"), std::string::npos) << filled.config;
  EXPECT_NO_THROW((void)read_deepspeed_file(filled.config, "filled"));
}

TEST(DeepSpeedFill, LeavesWhatNobodyKnows) {
  ClusterJob job = job_of({R"({"train_micro_batch_size_per_gpu": 2, "wandb": {"project": "auto"},
      "scheduler": {"params": {"total_num_steps": "auto"}}})"});
  ASSERT_TRUE(settle_deepspeed(job, {}).empty());
  const FilledDeepSpeed filled = fill_deepspeed(job, 0);
  EXPECT_EQ(value_of(filled, "scheduler.params.total_num_steps"), "");
  EXPECT_EQ(value_of(filled, "wandb.project"), "");
}

// What a search says of a layout is what the plan of a file with that stage says.
TEST(DeepSpeedSearch, RanksByThePlanOfEachStage) {
  const auto job_at = [](const std::string& stage) {
    ClusterJob job = job_of({R"({"train_batch_size": 64, "train_micro_batch_size_per_gpu": "auto",
        "zero_optimization": {"overlap_comm": true, "stage": )" +
                             stage + "}}"});
    job.layout = Layout{};
    job.layout.flash_attention = true;
    return job;
  };
  const ClusterJob open = job_at("\"auto\"");
  SearchLimits limits;
  limits.global_batch = 64;
  limits.fixed = fixed_by(open.deepspeed->file);
  const SearchResult result = search_layouts(open, limits);
  ASSERT_GE(result.ranked.size(), 3U);
  for (const RankedLayout& row : result.ranked) {
    ClusterJob job = job_at(std::to_string(row.layout.zero));
    job.layout = row.layout;
    const ClusterPlan plan = plan_cluster(job);
    EXPECT_DOUBLE_EQ(row.time.step_s, plan.time->step_s) << row.flags;
    EXPECT_EQ(row.memory.total(), plan.memory.device.total()) << row.flags;
    const double buckets = job.layout.zero == 3 ? 1 : 2;
    EXPECT_EQ(deepspeed_memory_stack(job).bucket_bytes, buckets * 2 * 5e8);
  }
}

TEST(DeepSpeedSearch, LeavesFixedPartsAlone) {
  ClusterJob job = job_of({R"({"train_batch_size": 64, "train_micro_batch_size_per_gpu": "auto",
      "zero_optimization": {"stage": "auto", "offload_optimizer": {"device": "none"}}})"});
  job.layout = Layout{};
  SearchLimits limits;
  limits.global_batch = deepspeed_global_batch(job.deepspeed->file, {}, 8);
  EXPECT_EQ(limits.global_batch, 64);
  limits.fixed = fixed_by(job.deepspeed->file);
  const SearchResult result = search_layouts(job, limits);
  ASSERT_FALSE(result.ranked.empty());
  for (const RankedLayout& row : result.ranked) {
    EXPECT_EQ(row.layout.data, 8) << row.flags;
    EXPECT_EQ(row.layout.global_batch(), 64) << row.flags;
    EXPECT_EQ(row.layout.offload_optimizer, Offload::none) << row.flags;
  }
  limits.fixed.zero = 3;
  limits.fixed.micro_batch = 2;
  limits.fixed.secondary_shard = 4;
  const Layout best = search_layouts(job, limits).ranked.at(0).layout;
  EXPECT_EQ(best.secondary_shard, 4);
  EXPECT_EQ(best.zero, 3);
  EXPECT_EQ(best.micro_batch, 2);
}

}  // namespace
}  // namespace lockstep::planner
