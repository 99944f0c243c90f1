// The promise that the same parameters get gradients in every step: what follows from it, and who
// broke it.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace lockstep::parallel {

/// The first step in which every micro-batch ran settles which parameters are used: those that got
/// a gradient on some rank. From then on a gradient for another one is a breach, and so is none for
/// one on a rank that gave it a gradient then.
class StaticGraph {
 public:
  /// \param promised false = nothing follows, nothing is a breach.
  StaticGraph(bool promised, std::size_t parameters)
      : promised_(promised), used_(parameters, false), used_here_(parameters, false) {}

  /// No rank gives it a gradient: nobody waits for it.
  [[nodiscard]] bool is_unused(std::size_t parameter) const {
    return settled_ && !used_[parameter];
  }

  void begin_step() { unexpected_ = 0; }
  /// A gradient for a parameter that is_unused().
  void note_unexpected(std::size_t parameter);
  /// What this rank tells the others at the end of its step: 0 = it kept the promise, p + 1 = a
  /// gradient for parameter p was not to be, -(p + 1) = one was missing.
  /// \param here by parameter: whether a micro-batch of this rank gave it a gradient. \param ran a
  /// micro-batch of this rank ran.
  [[nodiscard]] float breach(const std::vector<bool>& here, bool ran) const;

  /// After each step that nobody broke. \param counts of all ranks: micro-batches that gave each
  /// parameter a gradient. \param all_ran every micro-batch of every rank did. \returns true when
  /// this step settled what is used.
  bool end_step(std::span<const float> counts, const std::vector<bool>& here, bool all_ran);

 private:
  bool promised_;
  bool settled_ = false;
  std::vector<bool> used_;       // by parameter, on some rank
  std::vector<bool> used_here_;  // on this rank
  std::int64_t unexpected_ = 0;  // the first one of this step, plus 1
};

/// \param breaches what each rank told. \throws UsageError (LS-7005) naming parameters and ranks
/// when one is not 0.
void require_static_graph(std::span<const float> breaches, const std::vector<std::string>& names);

}  // namespace lockstep::parallel
