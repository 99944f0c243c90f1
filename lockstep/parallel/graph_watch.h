// What a reducer keeps about the use of parameters: in this step, on all ranks, and against the
// promise of a static graph.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/comm/group.h"
#include "lockstep/parallel/plan/parameter_use.h"
#include "lockstep/parallel/static_graph.h"
#include "lockstep/parallel/use_watch.h"

namespace lockstep::parallel {

/// The sums of a step, equal on all ranks.
struct GraphSums {
  std::span<const float> counts;    // by parameter: micro-batches that gave it a gradient
  std::span<const float> breaches;  // by rank: StaticGraph::breach
  std::int64_t micro_batches = 0;   // that had samples
  bool all_ran = false;             // every micro-batch of every rank had
};

class GraphWatch {
 public:
  /// \param names of the parameters. \param is_static they are used alike in every step.
  GraphWatch(std::vector<std::string> names, bool is_static);

  void begin_step();
  /// A gradient that is not to be: the parameter is_unused().
  void note_unexpected(std::size_t parameter) { graph_.note_unexpected(parameter); }
  /// After each micro-batch. \param seen by parameter: it got a gradient. \param ran it had
  /// samples.
  void end_leaf(const std::vector<bool>& seen, bool ran);
  /// Known to get no gradient on any rank in any step.
  [[nodiscard]] bool is_unused(std::size_t parameter) const { return graph_.is_unused(parameter); }
  /// What this rank tells the others when its step ends.
  [[nodiscard]] float breach() const { return graph_.breach(here_, ran_); }

  /// After each step that counts. Collective now and then (UseWatch::step). \returns true when it
  /// settled what is unused. \throws UsageError (LS-7005) when a rank broke the promise.
  [[nodiscard]] bool end_step(comm::Group& group, const GraphSums& sums);

  [[nodiscard]] ParameterUse report() const { return watch_.report(); }
  [[nodiscard]] std::optional<ParameterUse> take_news() { return watch_.take_news(); }

 private:
  std::vector<std::string> names_;
  std::vector<bool> here_;  // by parameter: used in this step on this rank
  bool ran_ = false;        // this rank had samples in this step
  StaticGraph graph_;
  UseWatch watch_;
};

}  // namespace lockstep::parallel
