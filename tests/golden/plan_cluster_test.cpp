// `lockstep plan` of models on named devices: numbers that others published, what it refuses, and
// that it answers at once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <algorithm>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/plan_program.h"

namespace lockstep::test {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr double kGib = 1024.0 * 1024 * 1024;
constexpr double kMib = 1024.0 * 1024;

double total(const json& document) { return document.at("memory_bytes").at("total"); }

class DeepSpeedPlan : public testing::Test {
 protected:
  [[nodiscard]] json states(const std::string& zero_optimization,
                            std::vector<std::string> words) const {
    write_file(folder_ / "ds_config.json",
               R"({"train_batch_size": 16, "zero_optimization": )" + zero_optimization + "}");
    words.insert(words.end(), {"--deepspeed", folder_ / "ds_config.json", "--states-only"});
    return planned(words);
  }
  void expect_gib(const std::string& zero_optimization, double device, double host) const {
    const json document = states(zero_optimization,
                                 {"--params", "6805e6", "--largest-layer", "131e6", "--gpus", "4"});
    EXPECT_NEAR(total(document) / kGib, device, 0.01);
    EXPECT_NEAR(document.at("host_memory_bytes").at("host").get<double>() / kGib, host, 0.01);
  }
  TemporaryFolder folder_;
};

constexpr const char* kNothingOffloaded = R"({"stage": 3})";
constexpr const char* kOptimizerOffloaded =
    R"({"stage": 3, "offload_optimizer": {"device": "cpu"}})";
constexpr const char* kAllOffloaded =
    R"({"stage": 3, "offload_optimizer": {"device": "cpu"}, "offload_param": {"device": "cpu"}})";

// M1: deepspeedai/DeepSpeed#4527.
TEST_F(DeepSpeedPlan, GivesTheNumbersOfItsEstimators) {
  expect_gib(kAllOffloaded, 0.49, 171.12);
  expect_gib(kOptimizerOffloaded, 3.66, 152.10);
  expect_gib(kNothingOffloaded, 29.01, 2.93);
}

// M1: 14.7 to 21.3 GB were used where 0.49 was promised.
TEST_F(DeepSpeedPlan, IsNeverOneBareNumber) {
  write_file(folder_ / "ds_config.json",
             std::string(R"({"zero_optimization": )") + kAllOffloaded + "}");
  const std::vector<std::string> words{"--params", "6805e6",      "--gpus",
                                       "4",        "--deepspeed", folder_ / "ds_config.json"};
  const json memory = planned(words).at("memory_bytes");
  for (const char* category : {"activations", "buffers", "communication", "runtime"}) {
    EXPECT_GT(memory.at(category), 0) << category;
  }
  EXPECT_GT(memory.at("total"), 4e9);
  std::vector<std::string> states = words;
  states.insert(states.end(), {"--states-only", "--largest-layer", "131e6"});
  EXPECT_THAT(plan(states).out, HasSubstr("left out: activations, buffers"));
}

// M2: DeepSpeed PR#965, T5-3B.
TEST_F(DeepSpeedPlan, GivesTheNumbersOfItsDocumentsForT5) {
  const std::vector<std::string> words{"--params", "2851e6",    "--largest-layer",
                                       "32e6",     "--cluster", "8xV100-32G"};
  EXPECT_NEAR(total(states(kAllOffloaded, words)) / kGib, 0.12, 0.02);
  EXPECT_NEAR(total(states(kOptimizerOffloaded, words)) / kGib, 0.78, 0.02);
  EXPECT_NEAR(total(states(kNothingOffloaded, words)) / kGib, 6.09, 0.02);
}

TEST_F(DeepSpeedPlan, RefusesAFileItCannotRead) {
  const std::string file = folder_ / "ds_config.json";
  write_file(file, R"({"zero_optimization": {"stage": 4, "offload_param": {"device": "disk"}}})");
  EXPECT_THAT(refused({"--params", "7e9", "--deepspeed", file}),
              ElementsAre(file + " LS-6115", file + " LS-6115"));
  write_file(file, "stage = 3");
  EXPECT_THAT(refused({"--params", "7e9", "--deepspeed", file}), ElementsAre(file + " LS-6115"));
  EXPECT_THAT(refused({"--params", "7e9", "--deepspeed", file + "x", "--zero", "3"}),
              ElementsAre("--deepspeed LS-1020", file + "x LS-1001"));
}

constexpr const char* kOpenFile = R"({
  "train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto",
  "gradient_accumulation_steps": 4, "bf16": {"enabled": "auto"}, "fp16": {"enabled": "auto"},
  "gradient_clipping": "auto", "optimizer": {"type": "AdamW", "params": {"lr": "auto"}},
  "scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": "auto"}},
  "zero_optimization": {"stage": 3, "reduce_bucket_size": "auto",
    "stage3_prefetch_bucket_size": "auto", "stage3_param_persistence_threshold": "auto"}})";

TEST_F(DeepSpeedPlan, FillsEveryAutoAndSaysWhy) {
  const std::string file = folder_ / "ds_config.json";
  write_file(file, kOpenFile);
  const std::vector<std::string> words{"--model",     "llama-2-7b",  "--cluster",
                                       "8xA100-80G",  "--precision", "bf16",
                                       "--deepspeed", file,          "--flash-attention"};
  const json document = planned(words);
  const json& deepspeed = document.at("deepspeed");
  const json& filled = deepspeed.at("filled");
  EXPECT_EQ(filled.at("zero_optimization.reduce_bucket_size"), 4096 * 4096);
  EXPECT_EQ(filled.at("zero_optimization.stage3_param_persistence_threshold"), 40'960);
  EXPECT_EQ(filled.at("bf16.enabled"), true);
  EXPECT_EQ(filled.at("fp16.enabled"), false);
  const json& layout = document.at("layout");
  EXPECT_EQ(layout.at("zero"), 3);
  EXPECT_EQ(layout.at("accumulation"), 4);
  EXPECT_EQ(filled.at("train_micro_batch_size_per_gpu"), layout.at("micro_batch"));
  EXPECT_EQ(filled.at("train_batch_size"), 32 * layout.at("micro_batch").get<int>());
  for (const auto& [key, value] : filled.items()) {
    EXPECT_NE(deepspeed.at("because").at(key), "") << key;
  }
  EXPECT_TRUE(deepspeed.at("left").contains("scheduler.params.total_num_steps"));
  // What was filled is a file that gives the same plan.
  write_file(file, deepspeed.at("config").dump());
  EXPECT_EQ(planned(words).at("memory_bytes"), document.at("memory_bytes"));
}

TEST_F(DeepSpeedPlan, IsSearchedWithinWhatTheFileFixes) {
  const std::string file = folder_ / "ds_config.json";
  write_file(file, R"({"train_batch_size": 64, "train_micro_batch_size_per_gpu": "auto",
                       "gradient_accumulation_steps": "auto",
                       "zero_optimization": {"stage": 2}})");
  const json document = planned(
      {"--model", "llama-2-7b", "--cluster", "8xA100-80G", "--search", "--deepspeed", file});
  EXPECT_EQ(document.at("layout").at("zero"), 2);
  EXPECT_EQ(document.at("layout").at("tensor"), 1);
  EXPECT_EQ(document.at("layout").at("data"), 8);
  EXPECT_EQ(document.at("deepspeed").at("filled").at("train_micro_batch_size_per_gpu"),
            document.at("layout").at("micro_batch"));
  write_file(file, R"({"train_batch_size": 64, "zero_optimization": {"stage": "auto",
      "zero_hpz_partition_size": 8, "offload_param": {"device": "cpu"}}})");
  const json open = planned(
      {"--model", "llama-2-7b", "--cluster", "8xA100-80G", "--search", "--deepspeed", file});
  EXPECT_EQ(open.at("layout").at("zero"), 3);
  EXPECT_EQ(open.at("layout").at("offload"), "parameters on cpu");
}

TEST_F(DeepSpeedPlan, RefusesNumbersThatContradictTheCommandLineOrEachOther) {
  const std::string file = folder_ / "ds_config.json";
  write_file(file, R"({"train_batch_size": 100, "train_micro_batch_size_per_gpu": 3,
                       "bf16": {"enabled": true}})");
  const std::vector<std::string> words{"--model", "gpt2", "--gpus", "8", "--deepspeed", file};
  EXPECT_THAT(refused(words), ElementsAre(file + " LS-6115"));
  EXPECT_THAT(plan(words).err, HasSubstr("96 or 120"));
  std::vector<std::string> other = words;
  other.insert(other.end(), {"--precision", "fp16", "--micro-batch", "2"});
  EXPECT_THAT(refused(other), ElementsAre(file + " LS-6115", file + " LS-6115"));
  write_file(file, R"({"zero_optimization": {"stage": 2}})");
  EXPECT_THAT(refused({"--model", "gpt2", "--gpus", "8", "--pipeline", "2", "--deepspeed", file}),
              ElementsAre(file + " LS-6115"));
}

TEST(ClusterPlan, SharesGradientsAndParametersInAPipelineToo) {
  const auto gpt = [](std::vector<std::string> words) {
    words.insert(words.end(), {"--params", "30e9", "--cluster", "8xA100-80G*4", "--pipeline", "4",
                               "--global-batch", "64"});
    return planned(words);
  };
  const json plain = gpt({"--zero", "1"});
  const json shared = gpt({"--zero", "3"});
  const json kept = gpt({"--zero", "3", "--keep-gathered"});
  EXPECT_LT(total(shared), total(plain));
  EXPECT_GT(shared.at("comm_bytes_per_step"), 2 * plain.at("comm_bytes_per_step").get<double>());
  EXPECT_GT(total(kept), total(shared));
  EXPECT_LT(kept.at("comm_bytes_per_step"), shared.at("comm_bytes_per_step"));
  EXPECT_THAT(refused({"--params", "7e9", "--gpus", "8", "--zero", "3", "--keep-gathered"}),
              ElementsAre("--keep-gathered LS-6105"));
}

TEST(ClusterPlan, OfModelsWithoutTokensCountsSamples) {
  const std::vector<std::string> words{"--model",    "resnet50",      "--cluster",
                                       "8xV100-32G", "--micro-batch", "32"};
  std::vector<std::string> whole = words;
  whole.insert(whole.end(), {"--samples", "115e6", "--need-within", "3d"});
  const json document = planned(whole);
  EXPECT_NEAR(document.at("time_to_train_s").get<double>(),
              115e6 / document.at("samples_per_s").get<double>(), 1);
  EXPECT_TRUE(document.at("need_within").at("met").is_boolean());
  EXPECT_THAT(plan(whole).out, HasSubstr("115M samples in"));
  std::vector<std::string> tokens = words;
  tokens.insert(tokens.end(), {"--tokens", "1e9"});
  EXPECT_THAT(refused(tokens), ElementsAre("--tokens LS-1020"));
  EXPECT_THAT(plan(tokens).err, HasSubstr("--samples 115e6"));
}

TEST(HostPlan, IsSearchedOverRanksAndMicroBatches) {
  const TemporaryFolder folder;
  const std::string file = folder / "run.toml";
  write_file(file,
             "[model]\nfamily = \"gpt\"\nwidth = 96\nlayers = 2\n[batch]\nglobal_batch = 8\n");
  const json document = planned({file, "--search"});
  EXPECT_EQ(document.at("fits"), true);
  const json& layout = document.at("layout");
  EXPECT_EQ(layout.at("data").get<int>() * layout.at("micro_batch").get<int>() *
                layout.at("accumulation").get<int>(),
            8);
  for (const json& row : document.at("alternatives")) {
    EXPECT_TRUE(row.contains("flags") && row.contains("because")) << row;
  }
  EXPECT_FALSE(document.at("rejected").empty());
  EXPECT_THAT(plan({file, "--search"}).out, HasSubstr("the best that fits: --nproc-per-node"));
  EXPECT_THAT(refused({file, "--search", "--nproc-per-node", "2"}),
              ElementsAre("--nproc-per-node LS-1020"));
}

// M4: caomaolufei/AIInfraGuide#24.
TEST(ClusterPlan, CountsAdamWhole) {
  const json memory =
      planned({"--params", "6.7e9", "--gpus", "1", "--precision", "fp16", "--states-only"})
          .at("memory_bytes");
  EXPECT_EQ(memory.at("parameters"), 13'400'000'000);
  EXPECT_EQ(memory.at("gradients"), 13'400'000'000);
  EXPECT_EQ(memory.at("optimizer"), 80'400'000'000);
  EXPECT_EQ(memory.at("total"), 107'200'000'000);
  EXPECT_TRUE(memory.at("activations").is_null());
}

// M5: AI-Hypercomputer/maxtext#606.
TEST(ClusterPlan, KnowsEachWayToStoreNumbers) {
  const auto bytes = [](const char* precision) {
    return total(planned({"--params", "6.7B", "--precision", precision, "--states-only"}));
  };
  EXPECT_EQ(bytes("fp32-master-cast"), 80.4e9);
  EXPECT_EQ(bytes("fp16-20"), 134.0e9);
  EXPECT_EQ(bytes("bf16-fp32grad"), 120.6e9);
  EXPECT_EQ(bytes("fp32"), 107.2e9);
}

// M6: karpathy/llm.c PR#309.
TEST(ClusterPlan, OfGpt2IsExactToTheByte) {
  const json alone = planned({"--model", "gpt2-llm.c", "--precision", "bf16", "--states-only"});
  EXPECT_EQ(alone.at("parameters"), 124'475'904);
  EXPECT_EQ(alone.at("memory_bytes").at("parameters"), 248'951'808);
  EXPECT_EQ(alone.at("memory_bytes").at("gradients"), 248'951'808);
  EXPECT_EQ(alone.at("optimizer_bytes").at("moments"), 2 * 497'903'616);
  const json shared =
      planned({"--model", "gpt2-llm.c", "--gpus", "2", "--zero", "1", "--states-only"});
  EXPECT_EQ(shared.at("memory_bytes").at("parameters"), 248'951'808);
  EXPECT_EQ(shared.at("optimizer_bytes").at("moments"), 2 * 248'951'808);
}

// M7: Alpha-VLLM/LLaMA2-Accessory#26.
TEST(ClusterPlan, OfThirteenBillionOnTwoDevicesSaysWhatWouldDo) {
  const std::vector<std::string> words{"--params", "13e9", "--gpus", "2", "--gpu", "A100-80G"};
  const json document = planned(words);
  EXPECT_EQ(document.at("fits"), false);
  const std::string advice = document.at("advice").dump();
  EXPECT_THAT(advice, HasSubstr("at least 3 devices"));
  EXPECT_THAT(advice, HasSubstr("--gpus 4 --zero 3"));
  EXPECT_THAT(advice, HasSubstr("--offload-optimizer cpu"));
  EXPECT_EQ(document.at("distribute").at("needed"), true);

  std::vector<std::string> check = words;
  check.emplace_back("--check");
  EXPECT_EQ(plan(check).exit_code, 1);
  EXPECT_EQ(plan({"--params", "13e9", "--gpus", "4", "--gpu", "A100-80G", "--zero", "3",
                  "--recompute", "full", "--check"})
                .exit_code,
            0);
}

// M8: meta-llama/llama-cookbook#413 and #100.
TEST(ClusterPlan, OfSevenBillionLiesWhereItWasSeen) {
  const json alone = planned({"--model", "llama-2-7b", "--gpus", "1", "--gpu", "A100-80G"});
  EXPECT_EQ(alone.at("parameters"), 6'738'415'616);
  EXPECT_EQ(alone.at("fits"), false);
  EXPECT_NEAR(total(planned({"--model", "llama-2-7b", "--states-only"})) / kGib, 100.4, 0.1);
  EXPECT_GT(total(alone) / kGib, 100.4);

  const std::vector<std::string> four{"--model", "llama-2-7b", "--cluster",   "4xA100-40G",
                                      "--zero",  "3",          "--precision", "bf16-only"};
  std::vector<std::string> states = four;
  states.emplace_back("--states-only");
  EXPECT_NEAR(total(planned(states)) / kGib, 12.55, 0.01);
  std::vector<std::string> run = four;
  run.insert(run.end(), {"--micro-batch", "4", "--seq-len", "2048", "--recompute", "full"});
  EXPECT_GT(total(planned(run)), 22e9);
  EXPECT_LT(total(planned(run)), 32e9);
}

// M10: flagos-ai/FlagScale PR#454, the shard of one of four tensor ranks.
TEST(ClusterPlan, OfAPublishedShardAgreesToAMebibyte) {
  const auto mebibytes = [](std::vector<std::string> words) {
    words.insert(words.end(), {"--zero", "1", "--precision", "bf16-fp32grad", "--states-only"});
    return total(planned(words)) / kMib;
  };
  EXPECT_NEAR(mebibytes({"--params", "4.1055e9", "--gpus", "2"}), 46'983.28, 1);
  EXPECT_NEAR(mebibytes({"--params", "16.422e9", "--gpus", "8", "--tensor", "4"}), 46'983.28, 1);
}

TEST(ClusterPlan, HasEveryKeyOfTheContractAndInventsNone) {
  const json full =
      planned({"--model", "gpt2-xl", "--gpus", "8", "--gpu", "A100-80G", "--tokens", "10e9"});
  const json states = planned({"--model", "gpt2-xl", "--gpus", "8", "--states-only"});
  for (const char* key : {"parameters", "fits", "memory_bytes", "device_memory_bytes", "step_s",
                          "tokens_per_s", "tflops_per_device", "mfu", "bubble_fraction",
                          "exposed_comm_s", "comm_bytes_per_step", "time_to_train_s", "layout",
                          "alternatives", "distribute", "advice", "assumptions", "error_band"}) {
    EXPECT_TRUE(full.contains(key)) << key;
    EXPECT_FALSE(full.at(key).is_null()) << key;
    EXPECT_TRUE(states.contains(key)) << key;
  }
  for (const char* key : {"fits", "device_memory_bytes", "step_s", "tokens_per_s", "mfu"}) {
    EXPECT_TRUE(states.at(key).is_null()) << key;
  }
  const json& memory = full.at("memory_bytes");
  std::int64_t sum = 0;
  for (const auto& [category, bytes] : memory.items()) {
    if (category != "total") sum += bytes.get<std::int64_t>();
  }
  EXPECT_EQ(memory.at("total"), sum);
  EXPECT_NEAR(full.at("time_to_train_s").get<double>(),
              10e9 / full.at("tokens_per_s").get<double>(), 1e-3);
  EXPECT_EQ(full.at("layout").at("data"), 8);
}

TEST(ClusterPlan, TakesAModelFromADescriptionOrARunToo) {
  const TemporaryFolder folder;
  write_file(folder / "config.json",
             R"({"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12,
                 "n_positions": 1024, "vocab_size": 50257})");
  EXPECT_EQ(planned({"--model", folder / "config.json", "--gpus", "2"}).at("parameters"),
            124'439'808);
  write_file(folder / "run.toml",
             "[model]\nfamily = \"gpt\"\nwidth = 384\nlayers = 6\n[batch]\nmicro_batch = 3\n"
             "[precision]\ncompute = \"bf16\"\n");
  const json run = planned({folder / "run.toml", "--gpus", "4", "--gpu", "H100-80G"});
  EXPECT_EQ(run.at("layout").at("micro_batch"), 3);
  EXPECT_EQ(run.at("layout").at("data"), 4);
  EXPECT_EQ(run.at("memory_bytes").at("optimizer").get<double>(),
            12 * run.at("parameters").get<double>());
}

/// What a run's file says of batch, sequence and precision counts for any model that it names.
TEST(ClusterPlan, TakesAnyModelFromARun) {
  const TemporaryFolder folder;
  const std::string run = folder / "run.toml";
  for (const char* name : {"gpt2-xl", "llama-3-8b", "mixtral-8x7b", "bert-large", "t5-3b",
                           "resnet50", "dlrm-kaggle", "wide_deep"}) {
    write_file(run, "[model]\nconfig = \"" + std::string(name) +
                        "\"\n[batch]\nglobal_batch = 64\nmicro_batch = 2\n");
    const json document = planned({run, "--gpus", "8", "--gpu", "H100-80G"});
    const json same =
        planned({"--model", name, "--gpus", "8", "--gpu", "H100-80G", "--global-batch", "64",
                 "--micro-batch", "2", "--precision", "fp32"});
    EXPECT_EQ(document.at("parameters"), same.at("parameters")) << name;
    EXPECT_EQ(document.at("step_s"), same.at("step_s")) << name;
    EXPECT_EQ(document.at("memory_bytes"), same.at("memory_bytes")) << name;
    EXPECT_EQ(document.at("layout").at("accumulation"), 4) << name;
  }
  write_file(run, "[model]\nconfig = \"gpt2\"\n[data]\nseq_len = 512\n");
  EXPECT_THAT(plan({run, "--gpus", "1", "--gpu", "A100-40G"}).out, HasSubstr("of 512 tokens"));
  write_file(folder / "config.json",
             R"({"model_type": "dlrm", "inputs": 4, "table_rows": [100, 50], "embedding_width": 8,
                 "bottom": [8], "hidden": [4]})");
  write_file(run, "[model]\nconfig = \"" + (folder / "config.json") + "\"\n");
  EXPECT_EQ(planned({run, "--gpus", "1", "--gpu", "A100-40G"}).at("parameters"),
            150 * 8 + 5 * 8 + (3 + 8 + 1) * 4 + 5);
  EXPECT_THAT(refused({run}), ElementsAre("model.config LS-6026"));
  write_file(run, "[model]\nconfig = \"gtp2\"\n");
  EXPECT_THAT(refused({run}), ElementsAre("model.config LS-6021"));
  EXPECT_THAT(refused({run, "--gpus", "1"}), ElementsAre("model.config LS-6021"));
}

TEST(ClusterPlan, SettlesTheBatchAndTheDegrees) {
  const json layout = planned({"--params", "175B", "--cluster", "8xA100-80G*128", "--tensor", "8",
                               "--pipeline", "16", "--global-batch", "1536", "--micro-batch", "1"})
                          .at("layout");
  EXPECT_EQ(layout.at("data"), 8);
  EXPECT_EQ(layout.at("accumulation"), 192);
  EXPECT_EQ(layout.at("schedule"), "1f1b");
  const json set = planned({"--model", "llama-2-7b", "--gpus", "8", "--set", "parallel.zero=3",
                            "--set", "batch.micro_batch=2"})
                       .at("layout");
  EXPECT_EQ(set.at("zero"), 3);
  EXPECT_EQ(set.at("micro_batch"), 2);
}

TEST(ClusterPlan, RefusesFlagsThatContradictEachOther) {
  EXPECT_THAT(refused({"--model", "gpt2", "--params", "7e9"}), ElementsAre("--model LS-1020"));
  EXPECT_THAT(refused({"run.toml", "--model", "gpt2"}), ElementsAre("run.toml LS-1020"));
  EXPECT_THAT(refused({"--model", "gpt2", "--nproc-per-node", "2"}),
              ElementsAre("--nproc-per-node LS-1020"));
  EXPECT_THAT(refused({"--params", "7e9", "--cluster", "8xA100-80G", "--gpu", "A64FX"}),
              ElementsAre("--cluster LS-1020"));
  EXPECT_THAT(refused({"--zero", "2", "--tensor", "2"}),
              ElementsAre("--zero LS-1020", "--tensor LS-1020"));
  EXPECT_THAT(refused({"--params", "7e9", "--set", "model.width=4", "--check"}),
              ElementsAre("--set model.width LS-1020", "--check LS-1013"));
  EXPECT_THAT(refused({"--gpu", "A100-80G"}), ElementsAre("--model LS-1013"));
}

TEST(ClusterPlan, RefusesAllThatIsWrongAtOnceWithTheNearestNames) {
  EXPECT_THAT(
      refused({"--model", "lama-2-7b", "--gpu", "A100-80", "--precision", "bf61", "--gpus", "12",
               "--tensor", "8"}),
      ElementsAre("--model LS-6021", "--gpu LS-6111", "--precision LS-6101", "--gpus LS-6104"));
  EXPECT_THAT(refused({"--model", "llama-2-7b", "--gpus", "15", "--tensor", "3", "--pipeline", "5",
                       "--global-batch", "7", "--accumulation", "2"}),
              ElementsAre("--global-batch LS-1009", "--tensor LS-6103", "--tensor LS-6103",
                          "--pipeline LS-6103"));
  EXPECT_THAT(plan({"--model", "lama-2-7b"}).err, HasSubstr("llama-2-7b"));
  EXPECT_THAT(plan({"--params", "7e9", "--gpu", "A100-80"}).err, HasSubstr("A100-80G"));
  EXPECT_THAT(refused({"--params", "7e9", "--cluster", "eightxA100-80G"}),
              ElementsAre("--cluster LS-6114"));
  EXPECT_THAT(refused({"--params", "7e9", "--cluster", "8xA100-80G*4@11 GbE"}),
              ElementsAre("--cluster LS-6112"));
}

/// Wrong flags do not hide wrong values, nor the other way round.
TEST(ClusterPlan, TellsWrongFlagsAndWrongValuesInOneRound) {
  EXPECT_THAT(
      refused({"--model", "llama-3-8b", "--gpus", "x", "--gpu", "A10", "--pipeline", "7", "--foo"}),
      testing::UnorderedElementsAre("--gpus LS-1013", "--foo LS-1012", "--gpu LS-6111",
                                    "--pipeline LS-6103"));
  const TemporaryFolder folder;
  write_file(folder / "run.toml", "[run]\nstpes = 3\n");
  EXPECT_THAT(
      refused({folder / "run.toml", "--foo"}),
      testing::UnorderedElementsAre("--foo LS-1012", (folder / "run.toml") + ":2:1 LS-1003"));
}

TEST(ClusterPlan, ForPeopleFitsOnAScreen) {
  const ProgramResult result =
      plan({"--model", "llama-2-13b", "--gpus", "2", "--gpu", "A100-80G", "--zero", "3"});
  EXPECT_EQ(result.exit_code, 0) << result.describe();
  EXPECT_EQ(result.err, "");
  for (const char* part : {"plan of llama-2-13b on 2 x A100-80G", "does NOT fit into 85.2 GB",
                           "to make it fit", "one step", "assumes"}) {
    EXPECT_THAT(result.out, HasSubstr(part));
  }
  EXPECT_LE(std::count(result.out.begin(), result.out.end(), '\n'), 52);
  EXPECT_THAT(plan({"--params", "7e9"}).out, HasSubstr("not predicted: no device is named"));
}

// The fastest of some, as other programs take turns: 20 ms and 12 MB.
TEST(ClusterPlan, AnswersAtOnce) {
  double fastest_s = std::numeric_limits<double>::max();
  for (int i = 0; i < 5; ++i) {
    const ProgramResult result = plan({"--params", "175e9", "--cluster", "8xA100-80G*128",
                                       "--tensor", "8", "--pipeline", "16", "--json"});
    ASSERT_EQ(result.exit_code, 0) << result.describe();
    fastest_s = std::min(fastest_s, result.seconds);
  }
  rusage children{};
  ASSERT_EQ(getrusage(RUSAGE_CHILDREN, &children), 0);
  std::cout << "plan of 175e9 parameters on 1,024 devices: " << fastest_s * 1e3
            << " ms (bar: 20), largest program so far "
            << static_cast<double>(children.ru_maxrss) / 1e3 << " MB (bar: 12)\n";
  EXPECT_LT(fastest_s, 0.2);  // ten times the bar: a machine under load
}

}  // namespace
}  // namespace lockstep::test
