#include "lockstep/parallel/compose.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <chrono>

#include "lockstep/base/error.h"
#include "lockstep/comm/records/flight_recorder.h"
#include "lockstep/memory/category.h"

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

class ComposedSession : public Session {
 public:
  ComposedSession(SessionParts parts, std::uint64_t seed, comm::FlightRecorder* flight)
      : parts_(std::move(parts)), seed_(seed), flight_(flight) {
    parts_.runner->set_training(true);
  }

  void begin_step(std::int64_t step) override {
    step_ = step;
    parts_.replica->begin_step();
  }

  void forward_backward(const data::Batch& batch, std::int64_t leaf, bool /*last*/) override {
    parts_.replica->begin_micro_batch();
    if (batch.samples == 0) return parts_.replica->skip();
    const memory::Scope scope(memory::Category::activations);
    model::LossSum loss;
    {
      comm::set_phase(flight_, comm::Phase::forward);
      const Stopwatch watch(times_.forward_s);
      loss = parts_.model->loss(parts_.runner->forward(batch.input, {seed_, step_, leaf}), batch);
    }
    comm::set_phase(flight_, comm::Phase::backward);
    const Stopwatch watch(times_.backward_s);
    parts_.replica->backward(loss);
  }

  void set_control(const StepControl& control) override { parts_.replica->set_control(control); }

  StepSums reduce() override {
    comm::set_phase(flight_, comm::Phase::sync);
    const Stopwatch watch(times_.sync_s);
    return parts_.replica->reduce();
  }

  double clip_grad_norm(double max_norm) override {
    return parts_.replica->clip_grad_norm(max_norm);
  }

  void optimizer_step(double lr) override { parts_.replica->optimizer_step(lr); }
  void drop_step() override { parts_.replica->drop_step(); }

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

  SessionTimes take_times() override { return std::exchange(times_, {}); }

 private:
  SessionParts parts_;
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
  return std::make_unique<ComposedSession>(std::move(parts),
                                           static_cast<std::uint64_t>(setting.config.run.seed),
                                           setting.flight);
}

}  // namespace lockstep::parallel
