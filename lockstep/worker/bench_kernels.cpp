#include "lockstep/worker/bench_kernels.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "lockstep/base/clock.h"
#include "lockstep/comm/bench/regime.h"
#include "lockstep/comm/bench/sample.h"
#include "lockstep/comm/world.h"
#include "lockstep/data/dataset.h"
#include "lockstep/data/loader.h"
#include "lockstep/engine/trainer.h"
#include "lockstep/model/model.h"
#include "lockstep/parallel/compose.h"
#include "lockstep/parallel/strategies/registry.h"
#include "lockstep/planner/planner.h"
#include "lockstep/topology/kernel_grid.h"
#include "lockstep/topology/reference_model.h"
#include "lockstep/worker/kernel_cases.h"

namespace lockstep::worker {
namespace {

/// Copies of an operator that are run in turn: as many as a model's layers put between two uses of
/// the same memory, where that fits.
constexpr double kMostBytes = 128e6;
constexpr double kMostFlops = 0.5e9;
constexpr double kMostCopies = 8;
constexpr std::size_t kFewestTimes = 5;
constexpr std::int64_t kStepsAtOnce = 20;
constexpr int kTinyRounds = 25;  // of so many steps: as many on each rank
constexpr int kModelSteps = 7;   // of a model, one by one
constexpr std::int64_t kTinySamples = 4096;
constexpr std::uint64_t kSeed = 1;

KernelRequest read_request(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  if (file.empty() || !in) {
    throw UsageError({{"LS-7201", "lockstep-worker bench-kernels",
                       "its --job file '" + file + "' cannot be read",
                       "start it with `lockstep bench kernels`"}});
  }
  return kernel_request_from(text.str());
}

/// All copies of one operator.
class Copies {
 public:
  explicit Copies(const KernelPoint& point) {
    const double fit = std::min(kMostBytes / std::max(1.0, bytes_of(point)),
                                kMostFlops / std::max(1.0, flops_of(point)));
    const auto wanted = static_cast<std::size_t>(std::clamp(fit, 1.0, kMostCopies));
    for (std::size_t i = 0; i < wanted; ++i) copies_.push_back(make_operands(point));
  }

  [[nodiscard]] bool has_backward() const {
    const KernelOperands& one = copies_.front();
    return one.run_backward || one.input.defined() || !one.parameters.empty();
  }
  [[nodiscard]] bool has_input() const {
    return copies_.front().input.defined() && !copies_.front().parameters.empty();
  }
  void set_input_gradient(bool wanted) {
    for (KernelOperands& one : copies_) one.input.set_requires_grad(wanted);
  }

  /// Seconds of one copy, forward and backward.
  void time_once(double& forward_s, double& backward_s) {
    std::vector<at::Tensor> outputs;
    outputs.reserve(copies_.size());
    const Stopwatch forward;
    for (const KernelOperands& one : copies_) outputs.push_back(one.run());
    forward_s = forward.elapsed_s() / size();
    if (copies_.front().run_backward) {
      const Stopwatch backward;
      for (const KernelOperands& one : copies_) outputs.front() = one.run_backward();
      backward_s = backward.elapsed_s() / size();
    } else if (has_backward()) {
      backward_s = backward_of(outputs) / size();
    }
  }

 private:
  [[nodiscard]] double size() const { return static_cast<double>(copies_.size()); }

  double backward_of(const std::vector<at::Tensor>& outputs) {
    if (gradients_.empty()) {
      for (const at::Tensor& output : outputs) gradients_.push_back(at::ones_like(output));
    }
    const Stopwatch watch;
    torch::autograd::backward(outputs, gradients_);
    const double seconds = watch.elapsed_s();
    for (KernelOperands& one : copies_) {
      if (one.input.defined()) one.input.mutable_grad().reset();
      for (at::Tensor& parameter : one.parameters) parameter.mutable_grad().reset();
    }
    return seconds;
  }

  std::vector<KernelOperands> copies_;
  std::vector<at::Tensor> gradients_;
};

/// Next to nothing to compute: a step is then what surrounds the operators.
config::RunConfig tiny_config(std::int64_t blocks, config::Dtype type) {
  config::RunConfig config;
  config.model.family = config::Family::mlp;
  config.model.layers = blocks - 1;
  config.model.width = kTinyWidth;
  config.model.inputs = kTinyWidth;
  config.model.classes = kTinyClasses;
  config.precision.compute = type;
  config.data.format = config::DataFormat::synthetic;
  config.data.train_samples = kTinySamples;
  config.batch.micro_batch = kTinyBatch;
  return config;
}

/// A training of all ranks of `world` without an end. Collective.
class Training {
 public:
  Training(config::RunConfig config, comm::Group& world)
      : config_(endless(std::move(config))),
        plan_(planner::make_plan(config_, Host{}, world.size(), 0)) {
    session_ = parallel::compose({config_, plan_, mesh_, {world, world}, nullptr},
                                 model::make_model(config_.model, config_.data.seq_len, kSeed),
                                 parallel::strategies());
    data_ = data::open_data(config_);
    sampler_ =
        std::make_unique<data::Sampler>(data_.train->size(), kSeed, plan_.batch.global_batch);
    loader_ = std::make_unique<data::Loader>(
        *data_.train, *sampler_, engine::leaves_of_rank(plan_.batch, world.rank()),
        data::LoaderOptions{kSeed, config_.data.workers, config_.data.prefetch});
    trainer_ = std::make_unique<engine::Trainer>(engine::TrainerParts{
        config_, plan_, *session_, world, *sampler_, *loader_, nullptr, false});
  }

  /// Seconds of each of so many steps, on average.
  double seconds_of_a_step(std::int64_t steps) {
    const Stopwatch watch;
    for (std::int64_t i = 0; i < steps; ++i) (void)trainer_->step();
    return watch.elapsed_s() / static_cast<double>(steps);
  }

 private:
  static config::RunConfig endless(config::RunConfig config) {
    config.run.steps = std::int64_t{1} << 40;
    return config;
  }

  config::RunConfig config_;
  parallel::ParallelPlan plan_;
  Mesh mesh_{plan_.degree};
  std::unique_ptr<parallel::Session> session_;
  data::DataPair data_;
  std::unique_ptr<data::Sampler> sampler_;
  std::unique_ptr<data::Loader> loader_;
  std::unique_ptr<engine::Trainer> trainer_;
};

/// Members are in the order they depend on each other.
class KernelBench {
 public:
  KernelBench(KernelRequest request, const config::RankEnv& env)
      : request_(std::move(request)), env_(env) {
    at::set_num_threads(1);
    const std::vector<int> cores = bench::allowed_cores();
    const auto core = static_cast<std::size_t>(env.local_rank);
    if (static_cast<std::size_t>(env.world_size) <= cores.size() && core < cores.size()) {
      bench::pin_to(cores[core]);
    }
    world_ = comm::join_world(env, nullptr);
  }

  void run() {
    for (KernelPoint point : points_to_time(request_)) {
      world_->barrier();  // the others compute the same meanwhile
      if (point.kernel == Kernel::step) {
        time_step(point);
      } else if (is_step(point.kernel)) {
        time_model(point);
      } else {
        time_operator(point);
      }
      if (env_.rank == 0) report(point);
    }
  }

 private:
  /// \param once gives the times of one round: forward and backward. Medians of all rounds.
  template <typename Once>
  void repeat(const Once& once, double& forward_s, double& backward_s) const {
    double forward = 0;
    double backward = 0;
    once(forward, backward);  // not timed: the first makes primitives
    std::vector<double> forwards;
    std::vector<double> backwards;
    const Stopwatch watch;
    while (forwards.size() < kFewestTimes || watch.elapsed_s() < request_.seconds_a_point) {
      once(forward, backward);
      forwards.push_back(forward);
      backwards.push_back(backward);
    }
    forward_s = bench::median_of(forwards);
    backward_s = bench::median_of(backwards);
  }

  void time_operator(KernelPoint& point) const {
    Copies copies(point);
    const auto once = [&](double& forward, double& backward) {
      copies.time_once(forward, backward);
    };
    repeat(once, point.forward_s, point.backward_s);
    point.backward_first_s = point.backward_s;
    if (!copies.has_input()) return;
    copies.set_input_gradient(false);
    double forward_s = 0;
    repeat(once, forward_s, point.backward_first_s);
  }

  void time_step(KernelPoint& point) const {
    Training training(tiny_config(static_cast<std::int64_t>(point.size[0]), point.type), *world_);
    std::vector<double> seconds;
    const int rounds = request_.few ? 1 : kTinyRounds;
    for (int i = 0; i < rounds; ++i) seconds.push_back(training.seconds_of_a_step(kStepsAtOnce));
    point.forward_s = bench::median_of(seconds);
  }

  /// Each rank trains by itself, all at once.
  void time_model(KernelPoint& point) const {
    config::RankEnv by_itself;
    by_itself.backend = env_.backend;
    const auto alone = comm::join_world(by_itself, nullptr);
    Training training(reference_config(point.kernel, point.type), *alone);
    (void)training.seconds_of_a_step(1);  // makes primitives
    std::vector<double> seconds;
    const int steps = request_.few ? 1 : kModelSteps;
    for (int i = 0; i < steps; ++i) seconds.push_back(training.seconds_of_a_step(1));
    point.forward_s = bench::median_of(seconds);
  }

  void report(const KernelPoint& point) const {
    const int fd = env_.report_fd >= 0 ? env_.report_fd : STDOUT_FILENO;
    ::dprintf(fd, "%s\n", lockstep::to_json_text(point).c_str());
  }

  KernelRequest request_;
  config::RankEnv env_;
  std::unique_ptr<comm::Group> world_;
};

}  // namespace

Exit run_bench_kernels(const RankArgs& args, const config::RankEnv& env) {
  KernelBench(read_request(args.job_file), env).run();
  return Exit::ok;
}

}  // namespace lockstep::worker
