#include "lockstep/model/stats/model_stats.h"

#include <array>
#include <functional>
#include <numeric>

#include "lockstep/base/saturated.h"
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

ModelStats model_stats(const config::ModelSection& config, std::int64_t seq_len) {
  return row_of(config.family).stats(config, seq_len);
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
