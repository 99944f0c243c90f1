// The training loop. Knows sessions and data, but neither checkpoints nor metrics: those observe.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/comm/group.h"
#include "lockstep/config/run_config.h"
#include "lockstep/data/dataset.h"
#include "lockstep/data/loader.h"
#include "lockstep/data/sampler.h"
#include "lockstep/engine/observer.h"
#include "lockstep/engine/scale_watch.h"
#include "lockstep/engine/train_state.h"
#include "lockstep/parallel/plan/parallel_plan.h"
#include "lockstep/parallel/session.h"

namespace lockstep::comm {
class FlightRecorder;
}  // namespace lockstep::comm

namespace lockstep::engine {

/// All of it outlives the trainer.
struct TrainerParts {
  const config::RunConfig& config;
  const parallel::ParallelPlan& plan;
  parallel::Session& session;
  comm::Group& group;  // data-parallel ranks
  const data::Sampler& sampler;
  data::Loader& loader;
  const data::Dataset* eval = nullptr;
  bool counts_tokens = false;
  comm::FlightRecorder* flight = nullptr;  // is told what the rank does
  const data::Dataset* train = nullptr;    // what the loader reads; null = gradients go unchecked
  /// How a step is cut when memory runs out in it, ever finer; empty = that ends the run.
  std::vector<config::BatchShape> finer{};
};

enum class Outcome : std::uint8_t { done, stopped };

/// The leaves of the data-parallel rank `rank`: contiguous.
[[nodiscard]] data::LeafRange leaves_of_rank(const config::BatchShape& batch, int rank);

class Trainer {
 public:
  explicit Trainer(const TrainerParts& parts);

  /// Observers are asked in the order they were added. \param observer outlives the trainer.
  void add_observer(Observer& observer) { observers_.push_back(&observer); }

  /// Views of everything a checkpoint holds. Write into it, then call loaded().
  [[nodiscard]] TrainState& state() { return state_; }
  /// Goes on from what was written into state(): tensors, step and position.
  void loaded();

  /// Collective: trains until the last step, or until an observer stops it (state() is then that of
  /// the last whole step); evaluates as
  /// configured. \throws Error (exit 1, LS-7101) when the loss is not finite and [recovery] on_nan
  /// says stop, or when kMaxSkips steps in a row were skipped (LS-7102, in fp16 LS-7104).
  [[nodiscard]] Outcome run();
  /// Collective: one step. \returns what all ranks agreed on.
  [[nodiscard]] Answer step();
  [[nodiscard]] std::optional<EvalReport> last_eval() const { return last_eval_; }
  [[nodiscard]] std::int64_t total_steps() const { return total_steps_; }

  static constexpr std::int64_t kMaxSkips = optim::kMaxSkippedSteps;
  static constexpr std::int64_t kMaxRollbacks = 3;

 private:
  [[nodiscard]] std::optional<data::StepData> next_data();
  [[nodiscard]] parallel::StepSums forward_backward(const std::optional<data::StepData>& data);
  [[nodiscard]] bool can_cut_finer() const;
  [[nodiscard]] Answer cut_finer(const parallel::StepSums& sums);
  [[nodiscard]] bool update(const parallel::StepSums& sums, StepReport& report);
  [[nodiscard]] bool scale_may_help() const;
  [[nodiscard]] std::string tried_step() const { return "step " + std::to_string(tried_step_); }
  [[nodiscard]] Answer on_skip(const StepReport& report);
  [[nodiscard]] Answer on_not_finite(const StepReport& report);
  [[nodiscard]] Answer on_useless_scale();
  void keep_loss_scale();
  void report_loss_scale(StepReport& report);
  [[nodiscard]] StepReport begin_report() const;
  void finish_report(StepReport& report, const data::StepData& data,
                     const parallel::StepSums& sums) const;
  void report_graph(StepReport& report, std::int64_t begin_ns) const;
  [[nodiscard]] double check_gradients(StepReport& report) const;
  void observe(const StepReport& report);
  void restore();
  void pass_over_bad_data();
  [[nodiscard]] Answer abandon(const parallel::StepSums& sums);
  [[nodiscard]] bool stops_now() const;
  [[nodiscard]] bool evaluate_now();

  TrainerParts parts_;
  std::vector<Observer*> observers_;
  data::LeafRange leaves_;
  std::int64_t total_steps_;
  TrainState state_;
  Answer my_answer_ = Answer::go_on;  // travels with the next step's sums
  parallel::RankTimes my_times_{};    // of the last step, likewise
  std::int64_t skips_in_a_row_ = 0;
  std::int64_t rollbacks_ = 0;
  std::int64_t tried_step_ = 0;  // the step at hand, or the last one, whatever became of it
  ScaleWatch scale_watch_;
  std::optional<data::Position> bad_data_;  // where a rolled-back step read: passed over next time
  std::optional<EvalReport> last_eval_;
};

}  // namespace lockstep::engine
