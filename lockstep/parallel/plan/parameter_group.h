// Parameters that are updated alike, as a value.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::parallel {

struct ParameterGroup {
  std::string name;
  double weight_decay = 0;
  double lr_factor = 1;         // rate of the step x this
  std::int64_t parameters = 0;  // how many tensors
  std::int64_t elements = 0;    // in all of them

  friend bool operator==(const ParameterGroup&, const ParameterGroup&) = default;
};

/// "no decay: 28 parameters (9,984 elements), weight decay 0; others: ...". Empty groups are left
/// out.
[[nodiscard]] std::string to_text(const std::vector<ParameterGroup>& groups);

}  // namespace lockstep::parallel
