#include "lockstep/parallel/compose.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <chrono>

#include "lockstep/base/error.h"
#include "lockstep/comm/records/flight_recorder.h"
#include "lockstep/memory/category.h"
#include "lockstep/parallel/gradient_check.h"
#include "lockstep/parallel/sync_batch_norm.h"

namespace lockstep::parallel {
namespace {

using Clock = std::chrono::steady_clock;

/// Adds the time until it is destroyed to a counter of seconds.
class Stopwatch {
 public:
  explicit Stopwatch(double& total_s) : total_s_(total_s) {}
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;
  ~Stopwatch() { total_s_ += std::chrono::duration<double>(Clock::now() - begin_).count(); }

 private:
  double& total_s_;
  Clock::time_point begin_ = Clock::now();
};

/// No samples, in the shape of those of `batch`.
data::Batch no_rows(const data::Batch& batch) {
  return {batch.input.narrow(0, 0, 0), batch.target.narrow(0, 0, 0), 0, 0};
}

/// While it lives batch normalisation takes the statistics of this rank's samples alone.
class OwnStatistics {
 public:
  OwnStatistics(const model::Model& model, comm::Group* group, std::shared_ptr<double> waited_s)
      : model_(model), group_(group), waited_s_(std::move(waited_s)) {
    if (waited_s_) keep_own_statistics(model_);
  }
  OwnStatistics(const OwnStatistics&) = delete;
  OwnStatistics& operator=(const OwnStatistics&) = delete;
  ~OwnStatistics() {
    if (waited_s_) share_statistics(model_, group_, waited_s_);
  }

 private:
  const model::Model& model_;
  comm::Group* group_;
  std::shared_ptr<double> waited_s_;
};

class ComposedSession : public Session {
 public:
  ComposedSession(SessionParts parts, const BuildSetting& setting)
      : parts_(std::move(parts)),
        groups_(setting.groups),
        seed_(static_cast<std::uint64_t>(setting.config.run.seed)),
        flight_(setting.flight) {
    parts_.runner->set_training(true);
  }

  void begin_step(std::int64_t step) override {
    step_ = step;
    parts_.replica->begin_step();
  }

  void forward_backward(const data::Batch& batch, std::int64_t leaf, bool /*last*/) override {
    parts_.replica->begin_micro_batch();
    if (batch.samples > 0) return run_blocks(batch, leaf);
    if (!parts_.blocks_waited_s) return parts_.replica->skip();
    run_blocks(no_rows(batch), leaf);
  }

  void give_up_micro_batch() override { parts_.replica->skip(); }
  bool may_give_up() const override { return parts_.blocks_waited_s == nullptr; }
  void set_leaves(std::int64_t leaves) override { parts_.replica->set_leaves(leaves); }

  void set_control(const StepControl& control) override { parts_.replica->set_control(control); }

  StepSums reduce() override {
    comm::set_phase(flight_, comm::Phase::sync);
    const Stopwatch watch(times_.sync_s);
    return parts_.replica->reduce();
  }

  double clip_grad_norm(double max_norm) override {
    return parts_.replica->clip_grad_norm(max_norm);
  }

  /// Blocks are watched while steps are skipped: the place is told by the next one.
  bool optimizer_step(double lr) override {
    const bool updated = parts_.replica->optimizer_step(lr);
    parts_.runner->watch_outputs(!updated);
    return updated;
  }
  void settle() override { parts_.replica->settle(); }
  void drop_step() override { parts_.replica->drop_step(); }

  CheckSplit check_split() const override {
    if (parts_.blocks_waited_s) return CheckSplit::ranks;
    const auto& blocks = parts_.model->blocks();
    const bool draws = std::any_of(blocks.begin(), blocks.end(),
                                   [](const auto& block) { return block->draws_random(); });
    const bool has_statistics = parts_.replica->reducer().buffers().float_count() > 0;
    return draws || has_statistics ? CheckSplit::micro_batches : CheckSplit::whole;
  }

  GradientDifference check_gradients(
      const std::function<std::optional<CheckPart>()>& next) override {
    DataParallel& replica = *parts_.replica;
    const memory::Scope scope(memory::Category::activations);
    const OwnStatistics alone(*parts_.model, groups_.statistics, parts_.blocks_waited_s);
    GradientCheck check(replica.parameters(), replica.reducer());
    while (const std::optional<CheckPart> part = next()) {
      const data::Batch& batch = part->batch;
      check.begin_part();
      const model::LossSum loss = parts_.model->loss(
          parts_.runner->forward(batch.input, {seed_, step_, part->leaf}), batch);
      check.add(loss.sum);
    }
    return check.worst();
  }

  std::optional<ParameterUse> take_use_news() override {
    return parts_.replica->reducer().graph().take_news();
  }

  std::vector<TimedBucket> timed_buckets() const override {
    std::vector<TimedBucket> buckets;
    const GradientReducer& reducer = parts_.replica->reducer();
    if (groups_.data.size() == 1 || !reducer.summed()) return buckets;
    for (std::size_t b = 0; b < reducer.bucket_count(); ++b) {
      buckets.push_back({reducer.bucket_name(b), reducer.bucket_bytes(b), reducer.bucket_times(b)});
    }
    return buckets;
  }

  model::EvalSum evaluate(const data::Batch& batch) override {
    const at::NoGradGuard no_grad;
    const memory::Scope scope(memory::Category::activations);
    parts_.runner->set_training(false);
    const at::Tensor output = parts_.runner->forward(batch.input, {seed_, 0, 0});
    const model::EvalSum sum = parts_.model->evaluate(output, batch);
    parts_.runner->set_training(true);
    return sum;
  }

  std::vector<SessionTensor> state() override {
    using Kind = SessionTensor::Kind;
    std::vector<SessionTensor> tensors;
    for (const ParameterViews& v : parts_.replica->parameters().views()) {
      tensors.push_back({v.name, Kind::parameter, v.master, v.aliases});
      if (v.moment1.defined()) {
        tensors.push_back({v.name + "/moment1", Kind::optimizer, v.moment1, {}});
      }
      if (v.moment2.defined()) {
        tensors.push_back({v.name + "/moment2", Kind::optimizer, v.moment2, {}});
      }
    }
    for (const model::NamedTensor& b : model::named_buffers(*parts_.model)) {
      tensors.push_back({b.name, Kind::buffer, b.tensor, b.aliases});
    }
    return tensors;
  }

  void loaded(std::int64_t updates) override {
    parts_.replica->parameters().refresh_compute();
    parts_.replica->set_updates(updates);
  }

  const optim::LossScale* loss_scale() const override { return parts_.replica->loss_scale(); }
  void set_loss_scale(const optim::LossScaleState& state) override {
    parts_.replica->set_loss_scale(state);
  }
  std::optional<NotFinite> not_finite() const override {
    return parts_.replica->not_finite(parts_.model->block_names());
  }

  SessionTimes take_times() override { return std::exchange(times_, {}); }

  std::int64_t payload_bytes() const override {
    std::int64_t bytes = groups_.world.payload_bytes();
    if (&groups_.data != &groups_.world) bytes += groups_.data.payload_bytes();
    if (groups_.statistics != nullptr) bytes += groups_.statistics->payload_bytes();
    return bytes;
  }

 private:
  void run_blocks(const data::Batch& batch, std::int64_t leaf) {
    const memory::Scope scope(memory::Category::activations);
    model::LossSum loss;
    comm::set_phase(flight_, comm::Phase::forward);
    {
      const Stopwatch watch(times_.forward_s);
      loss = parts_.model->loss(parts_.runner->forward(batch.input, {seed_, step_, leaf}), batch);
    }
    count_as_sync(times_.forward_s);
    const auto not_finite = parts_.runner->first_not_finite();
    if (not_finite) parts_.replica->note_not_finite_output(*not_finite);
    comm::set_phase(flight_, comm::Phase::backward);
    {
      const Stopwatch watch(times_.backward_s);
      parts_.replica->backward(loss);
    }
    count_as_sync(times_.backward_s);
  }

  /// What collectives of the blocks took out of a phase.
  void count_as_sync(double& phase_s) {
    if (!parts_.blocks_waited_s) return;
    const double waited_s = std::exchange(*parts_.blocks_waited_s, 0);
    phase_s -= waited_s;
    times_.sync_s += waited_s;
  }

  SessionParts parts_;
  Groups groups_;
  std::uint64_t seed_;
  comm::FlightRecorder* flight_;
  std::int64_t step_ = 0;
  SessionTimes times_;
};

}  // namespace

std::unique_ptr<Session> compose(const BuildSetting& setting, std::unique_ptr<model::Model> model,
                                 std::span<const Strategy> strategies) {
  SessionParts parts;
  parts.runner = std::make_unique<BlockRunner>(model->blocks());
  parts.model = std::move(model);
  for (const std::string& name : setting.plan.strategies) {
    const auto row = std::find_if(strategies.begin(), strategies.end(),
                                  [&](const Strategy& s) { return s.name == name; });
    if (row == strategies.end()) {
      throw UsageError({{"LS-7002", "plan.strategies", "there is no strategy '" + name + "'",
                         "see `lockstep help` for the strategies of this version"}});
    }
    row->apply(setting, parts);
  }
  LOCKSTEP_CHECK(parts.replica != nullptr, "no strategy of the plan updates the parameters");
  return std::make_unique<ComposedSession>(std::move(parts), setting);
}

}  // namespace lockstep::parallel
