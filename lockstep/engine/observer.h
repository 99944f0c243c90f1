// What watches a training loop and may stop it or send it back: checkpoints, metrics, signals.
#pragma once
#include <cstdint>

#include "lockstep/engine/train_state.h"
#include "lockstep/engine/values/step_report.h"

namespace lockstep::engine {

/// Ordered: the answers of all ranks and observers are combined by maximum before acting.
enum class Answer : std::uint8_t { go_on = 0, stop = 1, restore = 2 };

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
  /// Called on every rank when the combined answer is restore, by the observer list in order: the
  /// first that returns true has written the state to go on from into the views of `state`.
  [[nodiscard]] virtual bool restore(TrainState& state) {
    (void)state;
    return false;
  }
};

}  // namespace lockstep::engine
