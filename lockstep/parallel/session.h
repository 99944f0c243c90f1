// A model bound to this rank's part of the mesh: what strategies build and the Trainer drives.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/data/batch.h"
#include "lockstep/model/model.h"
#include "lockstep/optim/loss_scale.h"
#include "lockstep/parallel/control_block.h"
#include "lockstep/parallel/gradient_check.h"
#include "lockstep/parallel/plan/not_finite.h"
#include "lockstep/parallel/plan/parameter_use.h"

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

/// In how many pieces a global batch may be run alone so that its gradients are those of the ranks.
enum class CheckSplit : std::uint8_t {
  whole,          // samples do not see each other: in one
  ranks,          // one of the n-th micro-batches of all ranks: they share statistics
  micro_batches,  // each for itself: statistics, or random draws, belong to a micro-batch
};

/// A part of a global batch that a gradient check runs at once.
struct CheckPart {
  data::Batch batch;
  std::int64_t leaf = 0;  // keys random draws
};

struct TimedBucket {
  std::string name;
  std::int64_t bytes = 0;  // of its fp32 gradients
  BucketTimes times;
};

class Session {
 public:
  virtual ~Session() = default;

  /// \param step updates made before this one; keys random draws.
  virtual void begin_step(std::int64_t step) = 0;
  /// One micro-batch, in leaf order. \param batch of 0 samples: an empty part, whose tensors only
  /// give the shape of a sample. \param leaf virtual rank. The `last` of the step syncs gradients.
  virtual void forward_backward(const data::Batch& batch, std::int64_t leaf, bool last) = 0;
  /// Ends a micro-batch that forward_backward() threw out of, as if it had been empty. All ranks
  /// must drop the step then. Where blocks have collectives of their own it cannot be done: others
  /// wait.
  virtual void give_up_micro_batch() = 0;
  [[nodiscard]] virtual bool may_give_up() const = 0;
  /// How many micro-batches each step has from now on; between steps, and not with an ordered sum.
  virtual void set_leaves(std::int64_t leaves) = 0;
  virtual void set_control(const StepControl& control) = 0;
  /// Collective: gradients, loss and weight summed over the global batch.
  [[nodiscard]] virtual StepSums reduce() = 0;
  /// L2 norm of the mean gradient; clips the coming update to `max_norm` (0 = measure only).
  [[nodiscard]] virtual double clip_grad_norm(double max_norm) = 0;
  /// \returns false when fp16 made the step not finite: then nothing was updated, drop_step() was
  /// done, and a loss scale has seen to it.
  virtual bool optimizer_step(double lr) = 0;
  /// Collective: makes the state of all ranks equal, where local steps made it differ.
  virtual void settle() = 0;
  /// Instead of optimizer_step: buffers go back to what they were before the step.
  virtual void drop_step() = 0;

  [[nodiscard]] virtual CheckSplit check_split() const = 0;
  /// The gradients of the last reduce(), not updated with yet, against those of the parts that
  /// `next` makes, which this rank computes alone. No collective; nothing of the session changes.
  /// \param next nothing = there are no more.
  [[nodiscard]] virtual GradientDifference check_gradients(
      const std::function<std::optional<CheckPart>()>& next) = 0;
  /// Which parameters are not used by all ranks, when there is something new to tell.
  [[nodiscard]] virtual std::optional<ParameterUse> take_use_news() = 0;
  /// Of the last reduced step, in order; empty with one rank, and where gradients did not travel.
  [[nodiscard]] virtual std::vector<TimedBucket> timed_buckets() const = 0;

  /// Summed loss and hits of one batch in evaluation mode; no collective.
  [[nodiscard]] virtual model::EvalSum evaluate(const data::Batch& batch) = 0;

  /// Views that stay valid for the session's life.
  [[nodiscard]] virtual std::vector<SessionTensor> state() = 0;
  /// After tensors of state() were written: refreshes what depends on them.
  virtual void loaded(std::int64_t updates) = 0;

  /// Of fp16 compute; null without.
  [[nodiscard]] virtual const optim::LossScale* loss_scale() const = 0;
  /// After a state was loaded. Without a scale in it (0) the scale stays what it is.
  virtual void set_loss_scale(const optim::LossScaleState& state) = 0;
  /// Where the last reduced step first was not finite in fp16, on any rank or in their sum.
  [[nodiscard]] virtual std::optional<NotFinite> not_finite() const = 0;

  [[nodiscard]] virtual SessionTimes take_times() = 0;
  /// Payload that its groups handed to collectives so far (comm::Group::payload_bytes).
  [[nodiscard]] virtual std::int64_t payload_bytes() const = 0;
};

}  // namespace lockstep::parallel
