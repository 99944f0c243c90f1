#include "lockstep/planner/advice.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <set>

#include "lockstep/model/stats/architecture_stats.h"
#include "lockstep/model/stats/gpt_of_size.h"
#include "lockstep/model/stats/known_models.h"

namespace lockstep::planner {
namespace {

constexpr double kHour = 3600;

ClusterJob job_of(model::Architecture architecture, std::string_view device, int devices) {
  ClusterJob job;
  job.architecture = std::move(architecture);
  job.model = model::architecture_stats(job.architecture);
  job.recipe = parallel::find_recipe("bf16");
  job.machine = usual_machine(*find_device(device), devices);
  job.layout.data = devices;
  job.layout.flash_attention = true;
  return job;
}

ClusterJob gpt(double parameters, std::string_view device, int devices) {
  return job_of(model::gpt_of_size(parameters), device, devices);
}

/// One device a host, with this between them.
ClusterJob over_network(ClusterJob job, std::string_view link) {
  job.machine->devices_per_host = 1;
  job.machine->between = *find_link(link);
  return job;
}

testing::AssertionResult says(const std::vector<GivenAdvice>& all, std::string_view words) {
  std::string text;
  bool found = false;
  for (const GivenAdvice& one : all) {
    found = found || one.say.find(words) != std::string::npos;
    text += "\n" + one.say + ": " + one.because;
  }
  return (found ? testing::AssertionSuccess() : testing::AssertionFailure()) << text;
}

std::string text_of(const Distribution& answer) {
  std::string text = "speed-up " + std::to_string(answer.expected_speedup);
  for (const std::string& reason : answer.reasons) text += "\n" + reason;
  return text;
}

TEST(Distribute, NeedsTwoOfThree) {
  ClusterJob job = gpt(350e6, "A100-80G", 8);
  job.tokens = 7e9;
  const Distribution fits = distribute(job);
  EXPECT_FALSE(fits.needed) << "links alone" << text_of(fits);
  EXPECT_GT(fits.expected_speedup, 4) << text_of(fits);
  EXPECT_TRUE(distribute(job, {.need_within_s = 6 * kHour}).needed) << "links and time";
  EXPECT_FALSE(distribute(job, {.need_within_s = 3000 * kHour}).needed) << "there is time";

  const ClusterJob large = gpt(13e9, "A100-80G", 8);
  EXPECT_TRUE(distribute(large).needed) << "memory and links: " << text_of(distribute(large));
  EXPECT_FALSE(distribute(over_network(large, "1 GbE")).needed) << "memory alone";
}

TEST(Distribute, CannotDoWithoutWhereNoDeviceHoldsIt) {
  const Distribution answer = distribute(over_network(gpt(175e9, "A100-80G", 64), "1 GbE"));
  EXPECT_TRUE(answer.needed) << text_of(answer);
}

// Two billion parameters on 5 GB of text gained 1.6x on 8 devices. What linked them is not known:
// here 10 GbE does, with twelve samples a device and step.
TEST(Distribute, SaysNoWhereEightDevicesAreNotTwiceAsFast) {
  ClusterJob job = gpt(2e9, "A100-80G", 8);
  job.layout.micro_batch = 4;
  job.layout.accumulation = 3;
  const double inside = distribute(job, {.data_bytes = 5e9}).expected_speedup;
  EXPECT_GT(inside, 4) << "NVLink";
  job = over_network(job, "10 GbE");
  const Distribution answer = distribute(job, {.need_within_s = kHour, .data_bytes = 5e9});
  EXPECT_LT(answer.expected_speedup, 2) << text_of(answer);
  EXPECT_NEAR(answer.expected_speedup, 1.6, 0.2) << text_of(answer);
  EXPECT_FALSE(answer.needed) << text_of(answer);
}

TEST(Distribute, CountsTheLoader) {
  ClusterJob job = job_of(model::known_model("resnet50").architecture, "A100-80G", 8);
  job.layout.micro_batch = 64;
  const double alone_rate = plan_alone(job).samples_per_s;
  TrainingFacts facts;
  facts.loader_samples_per_s = 1.6 * alone_rate;  // one host for all eight
  const Distribution answer = distribute(job, facts);
  EXPECT_NEAR(answer.expected_speedup, 1.6, 0.05) << text_of(answer);
  EXPECT_FALSE(answer.needed);
  EXPECT_GT(distribute(job).expected_speedup, 4);
}

TEST(Distribute, CountsHowMuchDataThereIs) {
  ClusterJob job = gpt(125e6, "A100-80G", 8);
  job.layout.micro_batch = 64;
  const double much = distribute(job, {.data_bytes = 1e12}).expected_speedup;
  const double little = distribute(job, {.data_bytes = 1e7}).expected_speedup;
  EXPECT_LT(little, much * 0.7) << much;
}

TEST(Distribute, AsksOfOneDeviceWhetherEightWereBetter) {
  const Distribution answer = distribute(gpt(13e9, "A100-80G", 1));
  EXPECT_TRUE(answer.needed) << text_of(answer);
  EXPECT_GT(answer.expected_speedup, 2);
}

TEST(Distribute, AnswersWithoutADevice) {
  ClusterJob job = gpt(7e9, "A100-80G", 8);
  job.machine.reset();
  const Distribution answer = distribute(job, {.need_within_s = 1, .data_bytes = 1e9});
  EXPECT_FALSE(answer.needed);
  EXPECT_EQ(answer.expected_speedup, 0);
  (void)advice(job, {.cores_per_host = 64});
}

TEST(Distribute, WantsLessOfFewerDevices) {
  EXPECT_DOUBLE_EQ(least_speedup(8), 2);
  EXPECT_DOUBLE_EQ(least_speedup(1024), 2);
  EXPECT_NEAR(least_speedup(2), 1.14, 0.01);
}

// Kaplan et al. 2020: about 1e9 tokens need batches of one or two million at most; more data, more.
TEST(Distribute, KnowsTheCriticalBatch) {
  EXPECT_NEAR(critical_batch_tokens(2e9, 1.25e9), 1.5e6, 0.1e6);
  EXPECT_LT(critical_batch_tokens(2e9, 1e8), critical_batch_tokens(2e9, 1e10));
}

TEST(Advice, SharesOutAsMuchAsMemoryAsks) {
  const ClusterJob fits = gpt(1.3e9, "A100-80G", 8);
  EXPECT_FALSE(says(advice(fits), "--zero 2"));
  EXPECT_FALSE(says(advice(fits), "--zero 3"));
  ClusterJob shared = fits;
  shared.layout.zero = 3;
  EXPECT_TRUE(says(advice(shared), "--zero 0"));
  const ClusterJob little_over = gpt(6.7e9, "A100-80G", 8);  // 107 GB of states
  EXPECT_TRUE(says(advice(little_over), "--zero 2"));
  EXPECT_FALSE(says(advice(little_over), "--zero 3"));
  const ClusterJob on_four = gpt(6.7e9, "A100-40G", 4);
  EXPECT_TRUE(says(advice(on_four), "--zero 3")) << "27 GB of states and activations beside them";
  EXPECT_TRUE(says(advice(gpt(6.7e9, "A100-80G", 1)), "use several devices and"));
  const ClusterJob far_over = gpt(30e9, "A100-80G", 8);
  EXPECT_FALSE(says(advice(far_over), "--zero 2"));
  EXPECT_TRUE(says(advice(far_over), "or split layers"));
  EXPECT_FALSE(says(advice(far_over, {.control_flow = true}), "or split layers"));
}

TEST(Advice, LeavesControlFlowWhole) {
  ClusterJob job = gpt(13e9, "A100-80G", 2);
  job.layout.tensor = 4;
  EXPECT_TRUE(says(advice(job, {.control_flow = true}), "data parallelism only"));
  EXPECT_FALSE(says(advice(job), "data parallelism only"));
}

TEST(Advice, JudgesNetworksByTheirExchange) {
  const auto told = [](double parameters, std::int64_t micro_batch, std::string_view link) {
    ClusterJob job = over_network(gpt(parameters, "A100-80G", 8), link);
    job.layout.micro_batch = micro_batch;
    EXPECT_TRUE(plan_cluster(job).fits().value_or(false)) << parameters;
    return advice(job);
  };
  EXPECT_TRUE(says(told(2e9, 4, "1 GbE"), "faster links than 1 GbE"));
  EXPECT_TRUE(says(told(125e6, 32, "1 GbE"), "faster links than 1 GbE")) << "of no use to any";
  EXPECT_TRUE(says(told(2e9, 4, "10 GbE"), "faster links than 10 GbE"));
  EXPECT_TRUE(says(told(350e6, 16, "10 GbE"), "a smaller model"));
  EXPECT_FALSE(says(told(30e6, 512, "10 GbE"), "10 GbE")) << "serves small models";
  EXPECT_FALSE(says(told(2e9, 4, "NDR InfiniBand"), "InfiniBand"));
}

TEST(Advice, SplitsWideLayersBeforeTheDepth) {
  ClusterJob job = job_of(model::known_model("llama-3-8b").architecture, "H100-80G", 4);
  job.layout.pipeline = 2;
  job.layout.schedule = parallel::PipelineSchedule::one_f_one_b;
  job.layout.accumulation = 8;
  job.machine->devices = 8;
  EXPECT_TRUE(says(advice(job), "raise --tensor to 2"));
  job.layout.tensor = 8;
  EXPECT_FALSE(says(advice(job), "raise --tensor"));
  job.layout.tensor = 16;
  EXPECT_TRUE(says(advice(job), "lower --tensor to 8"));
  ClusterJob narrow = gpt(350e6, "H100-80G", 4);
  narrow.layout.pipeline = 2;
  EXPECT_FALSE(says(advice(narrow), "raise --tensor"));
}

TEST(Advice, OffloadsOnSmallClusters) {
  ClusterJob job = gpt(13e9, "A100-80G", 2);
  job.layout.zero = 3;
  EXPECT_TRUE(says(advice(job), "--offload-optimizer cpu"));
  job.layout.offload_optimizer = parallel::Offload::cpu;
  EXPECT_FALSE(says(advice(job), "--offload-optimizer cpu"));
  EXPECT_FALSE(says(advice(gpt(13e9, "A100-80G", 8)), "--offload-optimizer cpu")) << "ZeRO-3 does";
  EXPECT_FALSE(says(advice(gpt(13e9, "A100-80G", 64)), "--offload-optimizer cpu"));
}

TEST(Advice, ComputesOnceMoreWhereActivationsAreTheTrouble) {
  ClusterJob job = gpt(1.3e9, "A100-80G", 8);
  job.layout.micro_batch = 64;
  EXPECT_TRUE(says(advice(job), "--recompute full"));
  job.layout.micro_batch = 1;
  EXPECT_FALSE(says(advice(job), "--recompute full"));
}

TEST(Advice, AccumulatesWhereGradientsKeepDevicesWaiting) {
  ClusterJob job = gpt(1.3e9, "A100-80G", 24);
  job.machine->between = *find_link("25 GbE");
  job.layout.micro_batch = 2;  // backward is shorter than the exchange, the whole step is not
  EXPECT_TRUE(says(advice(job), "--accumulation from 1 to 2"));
  job.layout.accumulation = 4096;
  EXPECT_FALSE(says(advice(job), "--accumulation"));
}

TEST(Advice, NamesTheTypeThatTheDeviceIsFastIn) {
  ClusterJob job = gpt(125e6, "A100-80G", 1);
  job.recipe = parallel::find_recipe("fp16");
  EXPECT_TRUE(says(advice(job), "--precision bf16"));
  job.recipe = parallel::find_recipe("fp32");
  EXPECT_TRUE(says(advice(job), "--precision bf16"));
  job.machine = usual_machine(*find_device("V100-32G"), 1);
  EXPECT_TRUE(says(advice(job), "--precision fp16"));
  job.recipe = parallel::find_recipe("fp16");
  EXPECT_FALSE(says(advice(job), "--precision"));
}

TEST(Advice, ScalesTheLearningRateWithTheBatch) {
  ClusterJob job = job_of(model::known_model("resnet50").architecture, "V100-32G", 256);
  job.layout.micro_batch = 32;  // 8192, as Goyal et al. 2017 trained: 0.1 becomes 3.2
  TrainingFacts facts;
  facts.small_batch = 256;
  facts.small_batch_rate = 0.1;
  EXPECT_TRUE(says(advice(job, facts), "a learning rate of 3.2"));
  EXPECT_FALSE(says(advice(job), "learning rate"));
}

TEST(Advice, NormalisesFewSamplesTogether) {
  ClusterJob job = job_of(model::known_model("resnet50").architecture, "V100-32G", 8);
  job.layout.micro_batch = 4;
  EXPECT_TRUE(says(advice(job), "sync_batch_norm"));
  job.layout.micro_batch = 32;
  EXPECT_FALSE(says(advice(job), "sync_batch_norm"));
  EXPECT_FALSE(says(advice(gpt(125e6, "V100-32G", 8)), "sync_batch_norm"));
}

TEST(Advice, DoesNotCorrectTheLayoutOfASearch) {
  ClusterJob job = gpt(125e6, "A100-80G", 8);
  job.layout.zero = 1;
  EXPECT_TRUE(says(advice(job), "plain data parallelism"));
  EXPECT_FALSE(says(advice(job, {.searched = true}), "plain data parallelism"));
}

TEST(Advice, CountsDataWorkers) {
  const ClusterJob job = gpt(125e6, "A100-80G", 16);
  EXPECT_TRUE(says(advice(job, {.cores_per_host = 64}), "data.workers = 16"));
  EXPECT_FALSE(says(advice(job), "data.workers"));
}

TEST(Advice, IsGivenWithReasonAndSource) {
  std::set<std::string_view> whens;
  for (const AdviceRule& rule : advice_rules()) {
    for (const std::string_view text : {rule.topic, rule.when, rule.act, rule.because}) {
      EXPECT_FALSE(text.empty()) << rule.when;
      EXPECT_EQ(text.find('|'), std::string_view::npos) << "would end a cell: " << text;
    }
    const bool cited = rule.source.find("arXiv:") != std::string_view::npos ||
                       rule.source.find("doi:") != std::string_view::npos ||
                       rule.source.find("https://") != std::string_view::npos;
    EXPECT_TRUE(cited) << rule.when << ": " << rule.source;
    EXPECT_TRUE(whens.insert(rule.when).second) << rule.when;
  }
  for (const GivenAdvice& one : advice(gpt(30e9, "A100-80G", 8), {.cores_per_host = 64})) {
    EXPECT_NE(one.because.find_first_of("0123456789"), std::string::npos)
        << one.say << " says nothing of this job: " << one.because;
  }
}

TEST(Advice, StandsInTheGuide) {
  std::ifstream guide(std::string(LOCKSTEP_SOURCE_DIR) + "/docs/guides/choosing.md");
  const std::string written{std::istreambuf_iterator<char>(guide), {}};
  EXPECT_EQ(written, choosing_markdown())
      << "write it anew: lockstep help --markdown choosing > docs/guides/choosing.md";
}

}  // namespace
}  // namespace lockstep::planner
