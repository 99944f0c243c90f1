// What watches a training loop and may stop it or send it back: checkpoints, metrics, signals.
#pragma once
#include <cstdint>

#include "lockstep/config/batch_shape.h"
#include "lockstep/engine/train_state.h"
#include "lockstep/engine/values/step_report.h"

namespace lockstep::engine {

/// Ordered: the answers of all ranks and observers are combined by maximum before acting.
enum class Answer : std::uint8_t { go_on = 0, stop = 1, restore = 2 };

/// Memory ran out in a step, so that it is repeated with the same batch cut finer.
struct FinerCut {
  std::int64_t step = 0;     // 1 = the first
  int rank = -1;             // that had no memory; -1 = several had none
  config::BatchShape batch;  // from now on
};

class Observer {
 public:
  virtual ~Observer() = default;
  /// After each update on every rank. `state` views live tensors: copy what must outlive the call.
  /// The answer of any rank takes effect on all ranks at the same step, at the latest one step
  /// later.
  [[nodiscard]] virtual Answer on_step(const StepReport& report, const TrainState& state) = 0;
  /// Whether this rank wants to stop before its step or evaluation is through: asked between
  /// micro-batches and evaluation batches. One rank's yes abandons it on all, and the run stops
  /// with the state of before.
  [[nodiscard]] virtual bool stops_now() const { return false; }
  virtual void on_eval(const EvalReport& report) { (void)report; }
  virtual void on_finer_cut(const FinerCut& cut) { (void)cut; }
  /// Called on every rank when the combined answer is restore, by the observer list in order: the
  /// first that returns true has written the state to go on from into the views of `state`.
  [[nodiscard]] virtual bool restore(TrainState& state) {
    (void)state;
    return false;
  }
};

}  // namespace lockstep::engine
