// Which part of a sample's activations a device has.
#pragma once
#include "lockstep/model/stats/operators.h"
#include "lockstep/parallel/plan/layout.h"

namespace lockstep::parallel {

/// Each way to split multiplies its part in (layout_part.h).
struct Shares {
  double tokens = 1;    // of everything: context ranks share a sample's tokens
  double tensor = 1;    // of what tensor ranks split
  double sequence = 1;  // of what they split with sequence parallelism alone
  [[nodiscard]] double of(model::Share share) const {
    switch (share) {
      case model::Share::whole:
        return tokens;
      case model::Share::sequence:
        return tokens * sequence;
      case model::Share::tensor:
      case model::Share::expert:  // as much as a rank's own samples cause (operators.h)
        break;
    }
    return tokens * tensor;
  }
};

[[nodiscard]] Shares shares_of(const Layout& layout);

}  // namespace lockstep::parallel
