#include "lockstep/model/stats/model_stats.h"

#include <array>
#include <functional>
#include <numeric>
#include <utility>

#include "lockstep/base/saturated.h"
#include "lockstep/model/stats/architecture_stats.h"
#include "lockstep/model/stats/families.h"

namespace lockstep::model {
namespace {

constexpr auto kFamilies = std::to_array<FamilyStats>({
    {config::Family::mlp, "mlp", mlp_stats, check_mlp},
    {config::Family::resnet, "resnet", resnet_stats, check_resnet},
    {config::Family::gpt, "gpt", gpt_stats, check_gpt},
});

const FamilyStats& row_of(config::Family family) {
  for (const FamilyStats& row : kFamilies) {
    if (row.family == family) return row;
  }
  throw Bug(__FILE__, __LINE__, "a model family without a row in the statistics table");
}

/// Our own blocks are those of the architecture; what our worker keeps of them stands beside.
void take_operators(ModelStats& stats, ModelStats general) {
  LOCKSTEP_CHECK(stats.blocks.size() == general.blocks.size(), "a family with other blocks");
  for (std::size_t i = 0; i < stats.blocks.size(); ++i) {
    BlockStats& from = general.blocks[i];
    LOCKSTEP_CHECK(stats.blocks[i].name == from.name, "a family whose blocks have other names");
    stats.blocks[i].is_layer = from.is_layer;
    stats.blocks[i].input_elements = from.input_elements;
    stats.blocks[i].operators = std::move(from.operators);
  }
}

template <typename Counts>
double sum_over_layers(const ModelStats& stats, Counts counts) {
  double sum = 0;
  for (const BlockStats& block : stats.blocks) {
    if (!block.is_layer) continue;
    for (const OperatorStats& op : block.operators) {
      if (counts(op)) sum += op.forward_flops;
    }
  }
  return sum;
}

}  // namespace

std::span<const FamilyStats> family_stats() { return kFamilies; }

std::int64_t ParameterStats::count() const {
  return std::accumulate(shape.begin(), shape.end(), Saturated(1), std::multiplies<>()).value();
}

std::int64_t ModelStats::parameters() const {
  Saturated sum;
  for (const BlockStats& block : blocks) {
    for (const ParameterStats& parameter : block.parameters) sum += parameter.count();
  }
  return sum.value();
}

double ModelStats::forward_flops_per_sample() const {
  double sum = 0;
  for (const BlockStats& block : blocks) sum += block.forward_flops;
  return sum;
}

double ModelStats::layer_flops_per_sample() const {
  return sum_over_layers(*this, [](const OperatorStats&) { return true; });
}

double ModelStats::attention_flops_per_sample() const {
  return sum_over_layers(
      *this, [](const OperatorStats& op) { return op.kind == OperatorKind::attention; });
}

ModelStats model_stats(const config::ModelSection& config, std::int64_t seq_len) {
  ModelStats stats = row_of(config.family).stats(config, seq_len);
  take_operators(stats, architecture_stats(architecture_of(config, seq_len), seq_len));
  return stats;
}

std::vector<Problem> check_model(const config::ModelSection& config) {
  return row_of(config.family).check(config);
}

void require_at_least(std::vector<Problem>& problems, const std::string& key, std::int64_t value,
                      std::int64_t least) {
  if (value >= least) return;
  problems.push_back({"LS-6001", "model." + key, key + " is " + std::to_string(value),
                      "use " + std::to_string(least) + " or more"});
}

}  // namespace lockstep::model
