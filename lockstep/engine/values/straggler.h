// Who the other ranks wait for. all_reduce makes the steps of all ranks equally long, so a slow one
// shows in what each does by itself: the time of its step without the waiting.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/engine/values/step_report.h"

namespace lockstep::engine {

/// What a rank did by itself in a step: all of it but the waiting for others.
[[nodiscard]] inline double compute_s(const PhaseTimes& times) {
  return times.step_s - times.sync_s;
}

/// From here on a slower rank counts: this much more computing than the median of the others.
inline constexpr double kStragglerShare = 0.1;

/// One rank beside the others.
struct Straggler {
  int rank = 0;
  PhaseTimes times;          // its own, of a step
  PhaseTimes others;         // of each phase the median over the other ranks
  std::string phase;         // "backward", ..., or "other": where most of the difference lies
  double slower_s = 0;       // more computing a step than the median of the others
  double others_wait_s = 0;  // what these wait for it in a step

  /// slower_s as a share of what the others compute.
  [[nodiscard]] double share() const;
  /// It computes at least kStragglerShare longer than the others, and waits less than they do.
  [[nodiscard]] bool is_straggler() const;
};

/// `rank` beside the median of the others. \param per_rank times of a step, in the order of ranks;
/// at least two.
[[nodiscard]] Straggler compare_rank(std::span<const PhaseTimes> per_rank, int rank);

/// The rank that computes longest; none with fewer than two ranks.
[[nodiscard]] std::optional<Straggler> slowest_rank(std::span<const PhaseTimes> per_rank);

/// The same, when it is a straggler. \param per_rank means over enough steps that noise does not
/// count.
[[nodiscard]] std::optional<Straggler> find_straggler(std::span<const PhaseTimes> per_rank);

/// Looks for a straggler while a run goes on. Steps are added up in blocks of at least kBlockSteps
/// and kBlockS; a rank is named when it is the straggler of all but one of kBlocks of them, and
/// again only when it has become twice as slow.
class StragglerWatch {
 public:
  /// \param per_rank of one step. \returns a straggler that was not told yet.
  [[nodiscard]] std::optional<Straggler> add(std::span<const PhaseTimes> per_rank);

  static constexpr int kBlocks = 8;
  static constexpr int kBlockSteps = 5;
  static constexpr double kBlockS = 0.2;

 private:
  [[nodiscard]] std::optional<Straggler> close_block();
  [[nodiscard]] bool is_news(const Straggler& straggler);

  bool warm_ = false;              // the first step warms up and is left out
  std::vector<PhaseTimes> block_;  // sums over its steps
  int block_steps_ = 0;
  std::vector<PhaseTimes> window_;  // sums over the blocks so far
  int window_steps_ = 0;
  int blocks_ = 0;
  std::vector<int> named_;          // by rank: blocks of this window that it is the straggler of
  std::vector<double> told_share_;  // by rank; 0 = not told
};

}  // namespace lockstep::engine
