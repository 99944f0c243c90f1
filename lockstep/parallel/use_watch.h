// Which parameters get gradients from which ranks: known without a collective while all do, and by
// a small one when that changes.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/comm/group.h"
#include "lockstep/parallel/plan/parameter_use.h"

namespace lockstep::parallel {

/// What one step told about the use of parameters.
struct StepUse {
  /// By parameter, of all ranks: micro-batches that gave it a gradient. Equal on all ranks.
  std::span<const float> counts;
  std::int64_t micro_batches = 0;  // that ran, of all ranks; equal on all ranks
  const std::vector<bool>& here;   // by parameter: whether one of this rank did
  bool ran_here = true;            // this rank had samples
};

class UseWatch {
 public:
  /// \param names of the parameters.
  explicit UseWatch(std::vector<std::string> names);

  /// After each step. Collective when a parameter has become one that only some micro-batches use:
  /// all ranks see so in the same counts. They look at most once in each doubling of the steps, so
  /// that a model that picks its parameters by the data pays for few looks.
  void step(comm::Group& group, const StepUse& use);

  [[nodiscard]] ParameterUse report() const;
  /// The report, when it names a parameter that no earlier news did.
  [[nodiscard]] std::optional<ParameterUse> take_news();

 private:
  void look(comm::Group& group, const StepUse& use);

  std::vector<std::string> names_;
  std::vector<bool> ever_;     // by parameter: some rank gave it a gradient in some step
  std::vector<bool> in_part_;  // by parameter: when the ranks last looked, only some used it
  std::vector<PartlyUsed> partly_;
  std::int64_t steps_ = 0;
  std::int64_t next_look_ = 1;  // the step from which they look again
  bool unread_ = false;         // the report may have news
  std::vector<std::string> told_;
};

}  // namespace lockstep::parallel
