// Sentences of a plan name what the model has: no attention in a ResNet, no layers in a DLRM.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "lockstep/model/stats/architecture_stats.h"
#include "lockstep/model/stats/known_models.h"
#include "lockstep/parallel/cost/check_layout.h"
#include "lockstep/planner/advice.h"
#include "lockstep/planner/cluster_fit.h"
#include "lockstep/planner/cluster_plan.h"

namespace lockstep::planner {
namespace {

using model::Architecture;
using model::ArchitectureKind;
using parallel::Layout;

Architecture mlp() {
  Architecture a;
  a.name = "mlp";
  a.kind = ArchitectureKind::mlp;
  a.inputs = 784;
  a.hidden = {1024, 1024, 1024, 1024};
  a.classes = 10;
  return a;
}

std::vector<Architecture> families() {
  std::vector<Architecture> all{mlp()};
  for (const char* name : {"gpt2-xl", "llama-3-8b", "mixtral-8x7b", "bert-large", "t5-3b",
                           "resnet50", "resnet18", "dlrm", "dlrm-kaggle", "wide_deep"}) {
    all.push_back(model::known_model(name).architecture);
  }
  return all;
}

/// Words that no sentence about such a model may have.
std::vector<std::string> strange_words(const ClusterJob& job) {
  using model::OperatorKind;
  std::vector<std::string> words;
  const auto without = [&](bool has, std::vector<std::string> names) {
    if (!has) words.insert(words.end(), names.begin(), names.end());
  };
  const ArchitectureKind kind = job.architecture.kind;
  without(parallel::has_operator(job.model, OperatorKind::attention),
          {"attention", "scores", "heads"});
  without(parallel::has_operator(job.model, OperatorKind::dropout), {"dropout"});
  without(parallel::has_operator(job.model, OperatorKind::norm), {"norms"});
  without(parallel::has_operator(job.model, OperatorKind::embedding), {"embedding"});
  without(parallel::table_parameters(job.model) > 0, {"table"});
  without(job.model.counts_tokens, {"token", "sequence", "seq-len"});
  without(job.architecture.experts.experts > 0, {"expert"});
  without(kind == ArchitectureKind::resnet, {"batch norm", "convolution", "sync_batch_norm"});
  without(parallel::has_layers(job.model), {"each layer", "two layers", "split layers"});
  return words;
}

std::vector<Layout> layouts() {
  std::vector<Layout> all;
  for (const int data : {1, 8, 64}) {
    for (const int tensor : {1, 2}) {
      for (const int zero : {0, 1, 2, 3}) {
        for (const auto recompute : {parallel::Recompute::none, parallel::Recompute::selective,
                                     parallel::Recompute::full}) {
          Layout layout;
          layout.data = data;
          layout.tensor = tensor;
          layout.zero = data > 1 ? zero : 0;
          layout.recompute = recompute;
          layout.micro_batch = 4;
          all.push_back(layout);
        }
      }
    }
  }
  return all;
}

std::vector<std::string> sentences_of(const ClusterJob& job) {
  TrainingFacts facts;
  facts.data_bytes = 5e9;
  facts.loader_samples_per_s = 10;
  facts.cores_per_host = 64;
  facts.need_within_s = 3600;
  std::vector<std::string> all = plan_cluster(job).assumptions;
  for (const std::string& reason : distribute(job, facts).reasons) all.push_back(reason);
  for (const GivenAdvice& one : advice(job, facts)) all.push_back(one.say + ": " + one.because);
  for (const WayToFit& way : ways_to_fit(job).ways) all.push_back(way.flags);
  return all;
}

TEST(FamilyWords, NameNothingThatTheModelHasNot) {
  std::map<ArchitectureKind, int> looked_at;
  for (const Architecture& architecture : families()) {
    ClusterJob job;
    job.architecture = architecture;
    job.model = model::architecture_stats(architecture);
    job.recipe = parallel::find_recipe("bf16");
    for (const char* device : {"A100-80G", "V100-16G"}) {
      for (const Layout& layout : layouts()) {
        job.layout = layout;
        job.layout.tables = parallel::table_parameters(job.model) > 0 ? layout.data : 1;
        job.machine = usual_machine(*find_device(device), layout.devices());
        job.layout.flash_attention =
            job.model.attention_flops_per_sample() > 0 && job.machine->device.flash_attention;
        if (!parallel::check_layout({job.layout, &job.model, &architecture, 0, 0}).empty())
          continue;
        ++looked_at[architecture.kind];
        for (const std::string& sentence : sentences_of(job)) {
          for (const std::string& word : strange_words(job)) {
            EXPECT_EQ(sentence.find(word), std::string::npos)
                << architecture.name << ", '" << word << "': " << sentence;
          }
        }
      }
    }
  }
  EXPECT_EQ(looked_at.size(), 7U) << "decoder, encoder, both, resnet, mlp, dlrm, wide_deep";
}

TEST(FamilyWords, TablesAreSharedByRowsAndHaveNoGradients) {
  ClusterJob job;
  job.architecture = model::known_model("dlrm").architecture;
  job.model = model::architecture_stats(job.architecture);
  job.recipe = parallel::find_recipe("bf16");
  job.layout.data = 8;
  job.layout.tables = 8;
  job.layout.micro_batch = 8192;
  job.machine = usual_machine(*find_device("A100-80G"), 8);
  const double tables = parallel::table_parameters(job.model);
  const double others = static_cast<double>(job.model.parameters()) - tables;
  const ClusterPlan shared = plan_cluster(job);
  EXPECT_NEAR(static_cast<double>(shared.memory.device.parameters), 4 * tables / 8 + 2 * others,
              1e6);
  EXPECT_NEAR(static_cast<double>(shared.memory.device.gradients), 2 * others, 1e6);
  // Adam of the layers, a number a row of the tables.
  EXPECT_NEAR(static_cast<double>(shared.memory.device.optimizer),
              12 * others + 4 * tables / 128 / 8, 1e6);
  EXPECT_TRUE(shared.fits().value_or(false));
  EXPECT_GT(shared.time->tensor_comm_s, 0) << "rows travel to the samples that ask for them";
  job.layout.tables = 1;
  EXPECT_GT(plan_cluster(job).memory.device.parameters, 96'000'000'000);
}

}  // namespace
}  // namespace lockstep::planner
