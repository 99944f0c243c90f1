// Which parameters did not get a gradient from every rank, as a value.
#pragma once
#include <string>
#include <vector>

namespace lockstep::parallel {

struct PartlyUsed {
  std::string name;
  std::vector<int> ranks;  // that gave it a gradient, ascending

  friend bool operator==(const PartlyUsed&, const PartlyUsed&) = default;
};

/// Names in the order of the parameters.
struct ParameterUse {
  std::vector<std::string> never;  // got no gradient on any rank, in no step so far
  std::vector<PartlyUsed> partly;  // got one on these ranks only, in the step it was looked at

  [[nodiscard]] bool all_used() const { return never.empty() && partly.empty(); }
  friend bool operator==(const ParameterUse&, const ParameterUse&) = default;
};

/// A sentence or two for people, "" when all are used: "parameters without a gradient on any rank:
/// head.{weight, bias}; with one on some ranks only: gate.weight (rank 1)".
[[nodiscard]] std::string to_text(const ParameterUse& use);

/// Names on one line: those of one layer together, "layers.3.{weight, bias}", and at most `most` of
/// such groups, "... and 12 more".
[[nodiscard]] std::string short_list(const std::vector<std::string>& names, std::size_t most = 5);

}  // namespace lockstep::parallel
