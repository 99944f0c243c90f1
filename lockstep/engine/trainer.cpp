#include "lockstep/engine/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numbers>

#include "lockstep/base/error.h"
#include "lockstep/comm/records/flight_recorder.h"
#include "lockstep/config/run_length.h"
#include "lockstep/engine/evaluate.h"
#include "lockstep/memory/category.h"
#include "lockstep/optim/schedule.h"

namespace lockstep::engine {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

StateKind kind_of(parallel::SessionTensor::Kind kind) {
  using Kind = parallel::SessionTensor::Kind;
  if (kind == Kind::parameter) return StateKind::parameter;
  return kind == Kind::buffer ? StateKind::buffer : StateKind::optimizer;
}

TrainState views_of(parallel::Session& session) {
  TrainState state;
  for (parallel::SessionTensor& t : session.state()) {
    StateEntry entry;
    entry.name = t.name;
    entry.kind = kind_of(t.kind);
    entry.tensor = t.tensor;
    entry.global_shape = t.tensor.sizes().vec();
    entry.offset.assign(entry.global_shape.size(), 0);
    entry.aliases = t.aliases;
    state.entries.push_back(std::move(entry));
  }
  return state;
}

}  // namespace

data::LeafRange leaves_of_rank(const config::BatchShape& batch, int rank) {
  const std::int64_t count = batch.leaves / batch.data_ranks;
  return {rank * count, count, batch.leaves};
}

Trainer::Trainer(const TrainerParts& parts)
    : parts_(parts),
      leaves_(leaves_of_rank(parts.plan.batch, parts.group.rank())),
      total_steps_(config::total_steps(
          parts.config.run,
          config::steps_per_epoch(parts.sampler.dataset_size(), parts.plan.batch.global_batch))),
      state_(views_of(parts.session)) {
  parts_.loader.seek(state_.position);
}

void Trainer::loaded() {
  parts_.session.loaded(state_.step);
  parts_.loader.seek(state_.position);
  skips_in_a_row_ = 0;
  my_answer_ = Answer::go_on;
}

Outcome Trainer::run() {
  while (state_.step < total_steps_) {
    const std::int64_t before = state_.step;
    const Answer agreed = step();
    if (agreed == Answer::restore) {
      restore();
      continue;
    }
    if (agreed == Answer::stop) return Outcome::stopped;
    const std::int64_t every = parts_.config.run.eval_every;
    const bool due = every > 0 && state_.step % every == 0 && state_.step != before;
    if (due && state_.step < total_steps_ && !evaluate_now()) return Outcome::stopped;
  }
  return evaluate_now() ? Outcome::done : Outcome::stopped;
}

Answer Trainer::step() {
  const Clock::time_point begin = Clock::now();
  StepReport report = begin_report();
  comm::set_phase(parts_.flight, comm::Phase::data);
  pass_over_bad_data();
  const data::StepData data = parts_.loader.next();
  report.times.data_s = seconds_since(begin);

  const parallel::StepSums sums = forward_backward(data);
  if (sums.abandon_votes > 0) return abandon(sums);
  finish_report(report, data, sums);
  comm::set_phase(parts_.flight, comm::Phase::optimizer);
  const Clock::time_point optimizer_begin = Clock::now();
  report.skipped = !update(sums, report);
  if (report.skipped) parts_.session.drop_step();
  report.times.optimizer_s = seconds_since(optimizer_begin);

  if (report.skipped) bad_data_ = state_.position;
  state_.position = data.after;
  report.step = state_.step + (report.skipped ? 1 : 0);
  report.times.step_s = seconds_since(begin);
  const PhaseTimes& t = report.times;
  my_times_ = {static_cast<float>(t.step_s),    static_cast<float>(t.data_s),
               static_cast<float>(t.forward_s), static_cast<float>(t.backward_s),
               static_cast<float>(t.sync_s),    static_cast<float>(t.optimizer_s)};
  observe(report);
  if (report.skipped) return on_not_finite(report);
  skips_in_a_row_ = 0;
  if (sums.restore_votes > 0) return Answer::restore;
  return sums.stop_votes > 0 ? Answer::stop : Answer::go_on;
}

parallel::StepSums Trainer::forward_backward(const data::StepData& data) {
  parallel::Session& session = parts_.session;
  session.begin_step(state_.step);
  parallel::StepControl control{my_answer_ == Answer::stop ? 1 : 0,
                                my_answer_ == Answer::restore ? 1 : 0, my_times_, 0};
  const data::Batch nothing;  // joins every collective without work
  for (std::int64_t i = 0; i < leaves_.count; ++i) {
    if (stops_now()) control.abandon_votes = 1;
    session.set_control(control);  // what stands at the last micro-batch goes out
    session.forward_backward(
        control.abandon_votes > 0 ? nothing : data.micro_batches[static_cast<std::size_t>(i)],
        leaves_.first + i, i + 1 == leaves_.count);
  }
  return session.reduce();
}

/// A rank left its part of the step out: all go back to the state of before.
Answer Trainer::abandon(const parallel::StepSums& sums) {
  parts_.session.drop_step();
  (void)parts_.session.take_times();
  return sums.restore_votes > 0 ? Answer::restore : Answer::stop;
}

bool Trainer::stops_now() const {
  return std::any_of(observers_.begin(), observers_.end(),
                     [](const Observer* observer) { return observer->stops_now(); });
}

/// Clips and updates; leaves everything as it is when loss or gradients are not finite.
bool Trainer::update(const parallel::StepSums& sums, StepReport& report) {
  if (!std::isfinite(report.loss)) return false;
  const double max_norm = parts_.config.optimizer.clip_grad_norm;
  if (max_norm > 0) {
    report.grad_norm = parts_.session.clip_grad_norm(max_norm);
    if (!std::isfinite(*report.grad_norm)) return false;
  }
  LOCKSTEP_CHECK(sums.weight > 0, "a step without samples");
  parts_.session.optimizer_step(report.lr);
  ++state_.step;
  return true;
}

StepReport Trainer::begin_report() const {
  StepReport report;
  report.total_steps = total_steps_;
  report.lr = optim::learning_rate(parts_.config, parts_.plan.batch.global_batch, state_.step,
                                   total_steps_);
  report.comm_bytes = -parts_.group.payload_bytes();
  return report;
}

void Trainer::finish_report(StepReport& report, const data::StepData& data,
                            const parallel::StepSums& sums) const {
  const parallel::SessionTimes times = parts_.session.take_times();
  report.times.forward_s = times.forward_s;
  report.times.backward_s = times.backward_s;
  report.times.sync_s = times.sync_s;
  report.loss = sums.loss_sum / static_cast<double>(sums.weight);
  report.samples = data.global_samples;
  report.tokens = parts_.counts_tokens ? sums.weight : 0;
  report.epoch =
      static_cast<double>(data.after.epoch) +
      static_cast<double>(data.after.sample) / static_cast<double>(parts_.sampler.dataset_size());
  for (const parallel::RankTimes& t : sums.times) {
    report.per_rank.push_back({t[0], t[1], t[2], t[3], t[4], t[5]});
  }
  report.peak_rss_bytes = memory::peak_resident_bytes();
  report.comm_bytes += parts_.group.payload_bytes();
}

void Trainer::observe(const StepReport& report) {
  my_answer_ = Answer::go_on;
  for (Observer* observer : observers_) {
    my_answer_ = std::max(my_answer_, observer->on_step(report, state_));
  }
}

/// The loss is a sum over all ranks, so every rank comes here at the same step.
Answer Trainer::on_not_finite(const StepReport& report) {
  ++state_.skipped_steps;
  ++skips_in_a_row_;
  const config::OnNan policy = parts_.config.recovery.on_nan;
  const std::string where = "step " + std::to_string(state_.step + 1);
  const std::string what = std::isfinite(report.loss)
                               ? "the gradient norm is not finite; parameters are unchanged"
                               : "the loss is not finite; parameters are unchanged";
  if (policy == config::OnNan::stop) {
    throw Error(Exit::failed, {{"LS-7101", where, what,
                                "lower optimizer.lr, set optimizer.clip_grad_norm, or choose "
                                "recovery.on_nan = \"skip\" or \"rollback\""}});
  }
  if (skips_in_a_row_ >= kMaxSkips) {
    throw Error(Exit::failed,
                {{"LS-7102", where,
                  what + "; " + std::to_string(kMaxSkips) + " steps in a row were not finite",
                  "the run has diverged: lower optimizer.lr or start from an older "
                  "checkpoint with --resume"}});
  }
  return policy == config::OnNan::rollback ? Answer::restore : Answer::go_on;
}

void Trainer::restore() {
  const std::int64_t skipped = state_.skipped_steps;
  for (Observer* observer : observers_) {
    if (rollbacks_ >= kMaxRollbacks || !observer->restore(state_)) continue;
    ++rollbacks_;
    state_.skipped_steps = skipped;
    loaded();
    return;
  }
  const bool spent = rollbacks_ >= kMaxRollbacks;
  throw Error(Exit::failed, {{"LS-7103", "step " + std::to_string(state_.step),
                              spent ? std::to_string(rollbacks_) + " rollbacks did not help"
                                    : "there is no checkpoint to go back to",
                              "set checkpoint.every, lower optimizer.lr, or choose "
                              "recovery.on_nan = \"skip\""}});
}

/// The batch that broke the rolled-back step is read again and dropped.
void Trainer::pass_over_bad_data() {
  if (bad_data_ != state_.position) return;
  bad_data_.reset();
  state_.position = parts_.loader.next().after;
}

/// \returns false when it was abandoned.
bool Trainer::evaluate_now() {
  if (parts_.eval == nullptr) return true;
  comm::set_phase(parts_.flight, comm::Phase::eval);
  const std::int64_t batch = eval_batch_samples(*parts_.eval, parts_.config.data.seq_len);
  std::optional<EvalReport> report = evaluate(parts_.session, *parts_.eval, parts_.group, batch,
                                              state_.step, [this] { return stops_now(); });
  if (!report) return false;
  if (parts_.config.data.format == config::DataFormat::text) {  // tokens are bytes
    report->bits_per_byte = report->loss / std::numbers::ln2;
  }
  last_eval_ = report;
  for (Observer* observer : observers_) observer->on_eval(*report);
  return true;
}

}  // namespace lockstep::engine
