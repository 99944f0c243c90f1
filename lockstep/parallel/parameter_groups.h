// Parameters in groups by rule: how hard each is pulled towards zero and how fast it learns.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/config/run_config.h"
#include "lockstep/parallel/plan/parameter_group.h"

namespace lockstep::parallel {

/// One rule: the parameters it matches, and what holds for them.
struct ParameterRule {
  std::string name;  // of its group, for people: "no decay"
  std::function<bool(const std::string& name, at::IntArrayRef shape)> matches;
  std::optional<double> weight_decay = std::nullopt;  // unset = the optimizer's
  double lr_factor = 1;                               // rate of the step x this
};

/// Every parameter in exactly one group: that of the first rule that matches, else the last, named
/// "others", which follows the optimizer.
class ParameterGroups {
 public:
  /// Rules that the optimizer's own settings stand for (decay_rules) come after `rules`.
  ParameterGroups(std::vector<ParameterRule> rules, const config::OptimizerSection& optimizer);

  /// Puts the next parameter into its group.
  void add(const std::string& name, at::IntArrayRef shape);

  [[nodiscard]] const std::vector<ParameterGroup>& groups() const { return groups_; }
  /// \param parameter in the order they were added. \returns an index into groups().
  [[nodiscard]] std::size_t group_of(std::size_t parameter) const { return group_of_[parameter]; }

 private:
  std::vector<ParameterRule> rules_;
  std::vector<ParameterGroup> groups_;
  std::vector<std::size_t> group_of_;  // by parameter
};

/// optimizer.decay = "matrices": parameters of less than two dims are not pulled. None for "all".
[[nodiscard]] std::vector<ParameterRule> decay_rules(const config::OptimizerSection& optimizer);

}  // namespace lockstep::parallel
