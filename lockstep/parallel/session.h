// A model bound to this rank's part of the mesh: what strategies build and the Trainer drives.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/data/batch.h"
#include "lockstep/model/model.h"
#include "lockstep/parallel/control_block.h"

namespace lockstep::parallel {

/// Seconds a session spent since the last take_times().
struct SessionTimes {
  double forward_s = 0;
  double backward_s = 0;
  double sync_s = 0;  // exposed: waiting for other ranks with nothing else to do
};

/// A live tensor of the session by name: what a checkpoint reads and load writes into.
struct SessionTensor {
  enum class Kind : std::uint8_t { parameter, buffer, optimizer };
  std::string name;  // optimizer state: "<parameter>/moment1"
  Kind kind = Kind::parameter;
  at::Tensor tensor;  // a view of live memory, logical shape
  std::vector<std::string> aliases;
};

class Session {
 public:
  virtual ~Session() = default;

  /// \param step updates made before this one; keys random draws.
  virtual void begin_step(std::int64_t step) = 0;
  /// One micro-batch, in leaf order. \param leaf virtual rank. The `last` of the step syncs
  /// gradients.
  virtual void forward_backward(const data::Batch& batch, std::int64_t leaf, bool last) = 0;
  virtual void set_control(const StepControl& control) = 0;
  /// Collective: gradients, loss and weight summed over the global batch.
  [[nodiscard]] virtual StepSums reduce() = 0;
  /// L2 norm of the mean gradient; clips the coming update to `max_norm` (0 = measure only).
  [[nodiscard]] virtual double clip_grad_norm(double max_norm) = 0;
  virtual void optimizer_step(double lr) = 0;
  /// Instead of optimizer_step: buffers go back to what they were before the step.
  virtual void drop_step() = 0;

  /// Summed loss and hits of one batch in evaluation mode; no collective.
  [[nodiscard]] virtual model::EvalSum evaluate(const data::Batch& batch) = 0;

  /// Views that stay valid for the session's life.
  [[nodiscard]] virtual std::vector<SessionTensor> state() = 0;
  /// After tensors of state() were written: refreshes what depends on them.
  virtual void loaded(std::int64_t updates) = 0;

  [[nodiscard]] virtual SessionTimes take_times() = 0;
};

}  // namespace lockstep::parallel
