// Where the numbers of a step first were not finite, as a value.
#pragma once
#include <string>

namespace lockstep::parallel {

struct NotFinite {
  static constexpr int kNoRank = -1;  // of a sum over all ranks

  int rank = 0;
  std::string where;  // "output of blocks.3", "the loss", "gradient of blocks.3.fc2.weight"

  friend bool operator==(const NotFinite&, const NotFinite&) = default;
};

}  // namespace lockstep::parallel
