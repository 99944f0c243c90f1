// Ranks entered different collectives where they must enter the same one.
#pragma once
#include <string>

#include "lockstep/base/error.h"

namespace lockstep::comm {

/// Thrown on every rank of the group, which is over. Nobody was handed a result.
class Disagreement : public Error {
 public:
  explicit Disagreement(const std::string& what)
      : Error(Exit::failed,
              {{"LS-4013", "ranks disagree", what,
                "all ranks of a group must enter the same collectives in the same order, with one "
                "dtype and count: look at the two call sites, and whether the ranks run one "
                "program with one configuration and batches of one shape"}}) {}
};

}  // namespace lockstep::comm
