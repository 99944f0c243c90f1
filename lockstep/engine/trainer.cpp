#include "lockstep/engine/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numbers>

#include "lockstep/base/error.h"
#include "lockstep/comm/records/flight_recorder.h"
#include "lockstep/config/run_length.h"
#include "lockstep/engine/evaluate.h"
#include "lockstep/engine/gradient_check.h"
#include "lockstep/memory/category.h"
#include "lockstep/optim/schedule.h"
#include "lockstep/parallel/loss_scaling.h"

namespace lockstep::engine {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// As comm::monotonic_ns, which is the same clock.
std::int64_t nanoseconds(Clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
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
  const std::int64_t count = batch.leaves_per_rank();
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
  keep_loss_scale();
}

/// The state holds the session's scale, so that whoever saves it saves both.
void Trainer::keep_loss_scale() {
  const optim::LossScale* scale = parts_.session.loss_scale();
  state_.loss_scale = scale != nullptr ? scale->state() : optim::LossScaleState{};
}

void Trainer::loaded() {
  parts_.session.loaded(state_.step);
  parts_.session.set_loss_scale(state_.loss_scale);
  keep_loss_scale();
  scale_watch_ = {};
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
    if (agreed == Answer::stop) {
      parts_.session.settle();  // what is saved is one state, also after a skipped step
      return Outcome::stopped;
    }
    const std::int64_t every = parts_.config.run.eval_every;
    const bool due = every > 0 && state_.step % every == 0 && state_.step != before;
    if (due && state_.step < total_steps_ && !evaluate_now()) return Outcome::stopped;
  }
  return evaluate_now() ? Outcome::done : Outcome::stopped;
}

Answer Trainer::step() {
  const Clock::time_point begin = Clock::now();
  tried_step_ = state_.step + 1;
  StepReport report = begin_report();
  comm::set_phase(parts_.flight, comm::Phase::data);
  pass_over_bad_data();
  const std::optional<data::StepData> data = next_data();
  report.times.data_s = seconds_since(begin);

  const parallel::StepSums sums = forward_backward(data);
  if (sums.abandon_votes > 0) return abandon(sums);
  if (sums.memory_votes > 0) return cut_finer(sums);
  finish_report(report, *data, sums);
  report_graph(report, nanoseconds(begin));
  const double check_s = check_gradients(report);
  comm::set_phase(parts_.flight, comm::Phase::optimizer);
  const Clock::time_point optimizer_begin = Clock::now();
  report.comm_bytes -= parts_.session.payload_bytes();
  report.skipped = !update(sums, report);
  report.comm_bytes += parts_.session.payload_bytes();  // of an average of the parameters
  if (report.skipped) parts_.session.drop_step();
  report.times.optimizer_s = seconds_since(optimizer_begin);

  if (report.skipped && !scale_may_help()) bad_data_ = state_.position;
  state_.position = data->after;
  report.step = tried_step_;
  report.times.step_s = seconds_since(begin) - check_s;
  const PhaseTimes& t = report.times;
  my_times_ = {static_cast<float>(t.step_s),    static_cast<float>(t.data_s),
               static_cast<float>(t.forward_s), static_cast<float>(t.backward_s),
               static_cast<float>(t.sync_s),    static_cast<float>(t.optimizer_s)};
  report_loss_scale(report);
  observe(report);
  if (report.skipped) {
    const Answer answer = on_skip(report);
    if (answer != Answer::go_on) return answer;
  } else {
    skips_in_a_row_ = 0;
  }
  if (sums.restore_votes > 0) return Answer::restore;
  return sums.stop_votes > 0 ? Answer::stop : Answer::go_on;
}

/// Nothing where there was no memory for it and the step can be cut finer.
std::optional<data::StepData> Trainer::next_data() {
  try {
    return parts_.loader.next();
  } catch (const std::exception& error) {
    if (!can_cut_finer() || !memory::is_out_of_memory(error)) throw;
    return std::nullopt;
  }
}

parallel::StepSums Trainer::forward_backward(const std::optional<data::StepData>& data) {
  parallel::Session& session = parts_.session;
  session.begin_step(state_.step);
  parallel::StepControl control{my_answer_ == Answer::stop ? 1 : 0,
                                my_answer_ == Answer::restore ? 1 : 0, my_times_, 0};
  for (std::int64_t i = 0; i < leaves_.count; ++i) {
    if (stops_now()) control.abandon_votes = 1;
    if (!data) control.memory_votes = 1;
    session.set_control(control);  // what stands at the last micro-batch goes out
    data::Batch batch = data ? data->micro_batches[static_cast<std::size_t>(i)] : data::Batch{};
    const bool leaves_out = control.abandon_votes + control.memory_votes > 0;
    if (leaves_out) batch.samples = batch.weight = 0;  // collectives without work
    try {
      session.forward_backward(batch, leaves_.first + i, i + 1 == leaves_.count);
    } catch (const std::exception& error) {
      if (!can_cut_finer() || !memory::is_out_of_memory(error)) throw;
      control.memory_votes = 1;
      session.set_control(control);
      session.give_up_micro_batch();
    }
  }
  return session.reduce();
}

bool Trainer::can_cut_finer() const {
  return !parts_.finer.empty() && parts_.session.may_give_up();
}

/// A rank had no memory for its micro-batch: all repeat the step with smaller ones.
Answer Trainer::cut_finer(const parallel::StepSums& sums) {
  parts_.session.drop_step();
  (void)parts_.session.take_times();
  memory::release_cached();
  const FinerCut cut{tried_step_, sums.memory_rank, parts_.finer.front()};
  parts_.finer.erase(parts_.finer.begin());
  leaves_ = leaves_of_rank(cut.batch, parts_.group.rank());
  parts_.session.set_leaves(leaves_.count);
  parts_.loader.seek(state_.position, leaves_);
  for (Observer* observer : observers_) observer->on_finer_cut(cut);
  return Answer::go_on;
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

/// Clips and updates; leaves everything as it is when loss or gradients are not finite. In fp16
/// that is for the session to see, whose loss scale must follow.
bool Trainer::update(const parallel::StepSums& sums, StepReport& report) {
  const bool scaled = parts_.session.loss_scale() != nullptr;
  if (!scaled && !std::isfinite(report.loss)) return false;
  const double max_norm = parts_.config.optimizer.clip_grad_norm;
  if (max_norm > 0) {
    report.grad_norm = parts_.session.clip_grad_norm(max_norm);
    if (!scaled && !std::isfinite(*report.grad_norm)) return false;
  }
  LOCKSTEP_CHECK(sums.weight > 0, "a step without samples");
  if (!parts_.session.optimizer_step(report.lr)) return false;
  ++state_.step;
  return true;
}

StepReport Trainer::begin_report() const {
  StepReport report;
  report.total_steps = total_steps_;
  report.lr = optim::learning_rate(parts_.config, parts_.plan.batch.global_batch, state_.step,
                                   total_steps_);
  report.comm_bytes = -parts_.session.payload_bytes();
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
  report.peak_rss_bytes = memory::recent_peak_resident_bytes();
  report.comm_bytes += parts_.session.payload_bytes();
}

/// What the printing rank knows of buckets and of the use of parameters.
void Trainer::report_graph(StepReport& report, std::int64_t begin_ns) const {
  if (parts_.group.rank() != 0) return;
  const auto since_begin = [&](std::int64_t ns) {
    return static_cast<double>(ns - begin_ns) * 1e-9;
  };
  for (parallel::TimedBucket& bucket : parts_.session.timed_buckets()) {
    const parallel::BucketTimes& times = bucket.times;
    report.buckets.push_back({std::move(bucket.name), bucket.bytes, since_begin(times.ready_ns),
                              since_begin(times.issued_ns), since_begin(times.done_ns),
                              static_cast<double>(times.wait_ns) * 1e-9});
  }
  report.parameter_use = parts_.session.take_use_news();
}

/// Collective in the steps that run.check_gradients names. \returns the seconds that it took, which
/// are none of training.
double Trainer::check_gradients(StepReport& report) const {
  const std::int64_t every = parts_.config.run.check_gradients;
  const bool due = every > 0 && (state_.step + 1) % every == 0 && std::isfinite(report.loss);
  if (!due || parts_.train == nullptr || parts_.session.not_finite()) return 0;
  comm::set_phase(parts_.flight, comm::Phase::eval);
  const memory::NoLimit no_limit;
  const Clock::time_point begin = Clock::now();
  const double computing_s = report.times.forward_s + report.times.backward_s;
  report.gradient_check = engine::check_gradients(
      {parts_.config, parts_.session, parts_.group, *parts_.train, parts_.sampler},
      {state_.position, leaves_, computing_s / static_cast<double>(leaves_.count)},
      [this] { return stops_now(); });
  return seconds_since(begin);
}

void Trainer::observe(const StepReport& report) {
  my_answer_ = Answer::go_on;
  for (Observer* observer : observers_) {
    my_answer_ = std::max(my_answer_, observer->on_step(report, state_));
  }
}

/// What the step was scaled by and, when it was skipped, where it first was not finite.
void Trainer::report_loss_scale(StepReport& report) {
  const optim::LossScale* scale = parts_.session.loss_scale();
  if (scale == nullptr) return;
  report.loss_scale = state_.loss_scale.scale;  // still that of this step
  keep_loss_scale();
  if (report.skipped) report.not_finite = parts_.session.not_finite();
  report.warning = scale_watch_.add(report.skipped, *scale);
  if (!report.warning.empty() && report.not_finite) {
    report.warning += "; " + parallel::to_text(*report.not_finite);
  }
}

/// In fp16 a skip is the business of the loss scale, until too many in a row say that none helps.
bool Trainer::scale_may_help() const {
  return parts_.session.loss_scale() != nullptr && skips_in_a_row_ + 1 < kMaxSkips;
}

/// The loss is a sum over all ranks, so every rank comes here at the same step.
Answer Trainer::on_skip(const StepReport& report) {
  const bool scale_may_help = this->scale_may_help();
  ++state_.skipped_steps;
  ++skips_in_a_row_;
  if (scale_may_help) return Answer::go_on;
  return parts_.session.loss_scale() != nullptr ? on_useless_scale() : on_not_finite(report);
}

Answer Trainer::on_useless_scale() {
  if (parts_.config.recovery.on_nan == config::OnNan::rollback) return Answer::restore;
  throw parallel::scale_does_not_help(tried_step(), *parts_.session.loss_scale(),
                                      parts_.session.not_finite());
}

Answer Trainer::on_not_finite(const StepReport& report) {
  const config::OnNan policy = parts_.config.recovery.on_nan;
  const std::string where = tried_step();
  const std::optional<parallel::NotFinite> sum = parts_.session.not_finite();
  const std::string what = (!std::isfinite(report.loss) ? "the loss"
                            : sum                       ? sum->where
                                                        : "the gradient norm") +
                           " is not finite; parameters are unchanged";
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
  throw Error(Exit::failed, {{"LS-7103", tried_step(),
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
  parts_.session.settle();
  if (parts_.eval == nullptr) return true;
  comm::set_phase(parts_.flight, comm::Phase::eval);
  const memory::NoLimit no_limit;
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
