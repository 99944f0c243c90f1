#include "lockstep/parallel/parameter_groups.h"

#include <c10/util/accumulate.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace lockstep::parallel {

ParameterGroups::ParameterGroups(std::vector<ParameterRule> rules,
                                 const config::OptimizerSection& optimizer)
    : rules_(std::move(rules)) {
  std::vector<ParameterRule> own = decay_rules(optimizer);
  std::move(own.begin(), own.end(), std::back_inserter(rules_));
  for (const ParameterRule& rule : rules_) {
    groups_.push_back(
        {rule.name, rule.weight_decay.value_or(optimizer.weight_decay), rule.lr_factor});
  }
  groups_.push_back({"others", optimizer.weight_decay});
}

void ParameterGroups::add(const std::string& name, at::IntArrayRef shape) {
  const auto rule = std::find_if(rules_.begin(), rules_.end(),
                                 [&](const ParameterRule& r) { return r.matches(name, shape); });
  const auto group = static_cast<std::size_t>(rule - rules_.begin());  // the last when none matched
  ++groups_[group].parameters;
  groups_[group].elements += c10::multiply_integers(shape);
  group_of_.push_back(group);
}

std::vector<ParameterRule> decay_rules(const config::OptimizerSection& optimizer) {
  if (optimizer.decay == config::Decay::all) return {};
  return {{"no decay", [](const std::string&, at::IntArrayRef shape) { return shape.size() < 2; },
           0.0}};
}

}  // namespace lockstep::parallel
