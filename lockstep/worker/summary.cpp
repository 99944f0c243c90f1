#include "lockstep/worker/summary.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "lockstep/comm/records/purpose.h"
#include "lockstep/config/parse.h"
#include "lockstep/engine/train_state.h"
#include "lockstep/memory/category.h"
#include "lockstep/model/stats/model_stats.h"

namespace lockstep::worker {
namespace {

double mean(const std::vector<double>& values) {
  if (values.empty()) return 0;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

parallel::MemoryPlan memory_plan(const double* bytes) {
  const auto at = [&](memory::Category category) {
    return static_cast<std::int64_t>(bytes[static_cast<std::size_t>(category)]);
  };
  using memory::Category;
  return {at(Category::parameters),  at(Category::gradients), at(Category::optimizer),
          at(Category::activations), at(Category::buffers),   at(Category::communication),
          at(Category::runtime)};
}

/// Row r holds rank r's peak bytes by category; the last column its peak resident bytes.
at::Tensor gather_memory(comm::Group& world) {
  const auto columns = static_cast<std::int64_t>(memory::kCategoryCount) + 1;
  const at::Tensor mine = at::zeros({columns}, at::TensorOptions().dtype(at::kDouble));
  const memory::Usage usage = memory::usage();
  std::copy(usage.peak_bytes.begin(), usage.peak_bytes.end(), mine.mutable_data_ptr<double>());
  mine[columns - 1] = static_cast<double>(memory::peak_resident_bytes());
  at::Tensor all = at::zeros({world.size(), columns}, mine.options());
  world.all_gather(all, mine)->wait();
  return all;
}

void add_times(engine::PhaseTimes& sum, const engine::PhaseTimes& t, double factor) {
  sum.step_s += factor * t.step_s;
  sum.data_s += factor * t.data_s;
  sum.forward_s += factor * t.forward_s;
  sum.backward_s += factor * t.backward_s;
  sum.sync_s += factor * t.sync_s;
  sum.optimizer_s += factor * t.optimizer_s;
}

/// \param bytes of the second step and those after it. Local steps send nearly nothing most of the
/// time: whole rounds of them count, without the second step, in which ranks agree on an order.
std::int64_t comm_bytes_a_step(const std::vector<double>& bytes, std::int64_t local_steps) {
  const auto every = static_cast<std::size_t>(local_steps);
  if (every <= 1 || bytes.size() <= every) return static_cast<std::int64_t>(median(bytes));
  const std::size_t whole = (bytes.size() - 1) / every * every;
  return static_cast<std::int64_t>(
      mean({bytes.end() - static_cast<std::ptrdiff_t>(whole), bytes.end()}));
}

/// NaN is worse than any number.
bool is_worse(const engine::GradientCheckReport& a, const engine::GradientCheckReport& b) {
  return std::isnan(a.worst_relative) || a.worst_relative >= b.worst_relative;
}

}  // namespace

double matmul_flops_per_s(config::Dtype compute) {
  const at::NoGradGuard no_grad;
  constexpr std::int64_t kSize = 768;
  constexpr double kSampleSeconds = 0.01;
  constexpr int kSamples = 8;  // the fastest counts: whatever else runs on the machine only slows
  // fp16 is multiplied in fp32 here (model/products.h).
  const at::ScalarType type = compute == config::Dtype::bf16 ? at::kBFloat16 : at::kFloat;
  const at::Tensor a = at::ones({kSize, kSize}, at::TensorOptions().dtype(type));
  at::Tensor b = at::matmul(a, a);
  double best = 0;
  for (int sample = 0; sample < kSamples; ++sample) {
    const auto begin = std::chrono::steady_clock::now();
    double seconds = 0;
    int products = 0;
    while (seconds < kSampleSeconds) {
      at::matmul_out(b, a, a);
      ++products;
      seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    }
    best = std::max(best, 2.0 * kSize * kSize * kSize * products / seconds);
  }
  return best;
}

engine::Answer SummaryObserver::on_step(const engine::StepReport& report,
                                        const engine::TrainState& /*state*/) {
  ++steps_seen_;
  train_s_ += report.times.step_s;
  last_loss_ = report.loss;
  samples_ += static_cast<double>(report.samples);
  tokens_ += static_cast<double>(report.tokens);
  if (steps_seen_ > 1) {
    step_s_.push_back(report.times.step_s);
    comm_bytes_.push_back(static_cast<double>(report.comm_bytes));
  }
  if (steps_seen_ > 2) {  // per_rank tells of the step before this one; its first is the warm-up
    time_sums_.resize(report.per_rank.size());
    for (std::size_t r = 0; r < time_sums_.size(); ++r) {
      add_times(time_sums_[r], report.per_rank[r], 1);
    }
    time_terms_ += 1;
  }
  if (report.parameter_use) parameter_use_ = report.parameter_use;
  if (report.gradient_check && !(worst_check_ && is_worse(*worst_check_, *report.gradient_check))) {
    worst_check_ = report.gradient_check;
  }
  return engine::Answer::go_on;
}

void SummaryObserver::set_findings(std::vector<std::string> hosts, std::optional<int> straggler) {
  hosts_ = std::move(hosts);
  straggler_ = straggler;
}

void SummaryObserver::add_rank_times(engine::RunSummary& summary) const {
  if (time_terms_ == 0) return;
  const auto ranks = static_cast<double>(time_sums_.size());
  for (const engine::PhaseTimes& sum : time_sums_) {
    summary.per_rank.emplace_back();
    add_times(summary.per_rank.back(), sum, 1 / time_terms_);
    add_times(summary.mean_times, sum, 1 / (time_terms_ * ranks));
  }
}

engine::RunSummary SummaryObserver::summarize(const planner::Job& job, const std::string& status,
                                              const engine::TrainState& state, comm::Group& world) {
  engine::RunSummary summary;
  summary.status = status;
  summary.config_hash = config::config_hash(job.config);
  summary.steps = state.step;
  summary.first_step = resumed_step_ + 1;
  summary.steps_this_run = std::max<std::int64_t>(0, state.step - resumed_step_);
  summary.skipped_steps = state.skipped_steps;
  summary.final_loss = last_loss_;
  summary.counts_tokens = tokens_ > 0;
  summary.train_s = train_s_;
  const double units = summary.counts_tokens ? tokens_ : samples_;
  if (train_s_ > 0) summary.samples_or_tokens_per_s = units / train_s_;
  add_rank_times(summary);
  summary.hosts = hosts_;
  if (summary.per_rank.size() > 1) summary.straggler = straggler_;
  summary.gradient_check = worst_check_;
  summary.parameter_use = parameter_use_;

  const at::Tensor memory_rows = gather_memory(world);
  const auto columns = memory_rows.size(1);
  const double* rows = memory_rows.const_data_ptr<double>();
  const double* fullest = rows;
  for (int r = 0; r < world.size(); ++r) {
    const double* row = rows + r * columns;
    summary.peak_memory_bytes.push_back(static_cast<std::int64_t>(row[columns - 1]));
    if (row[columns - 1] > fullest[columns - 1]) fullest = row;
  }
  summary.measured = memory_plan(fullest);
  summary.planned = job.plan.memory;
  summary.planned_step_s = job.plan.step_s;
  summary.measured_step_s = median(step_s_);
  summary.planned_comm_bytes = job.plan.comm_bytes_per_step;
  summary.measured_comm_bytes = comm_bytes_a_step(comm_bytes_, job.config.parallel.local_steps);

  const model::ModelStats stats = model::model_stats(job.config.model, job.config.data.seq_len);
  at::Tensor rate = at::full({1}, matmul_flops_per_s(job.config.precision.compute),
                             at::TensorOptions().dtype(at::kDouble));
  const comm::Purpose purpose("the summary");
  world.all_reduce(rate, comm::ReduceOp::sum)->wait();
  if (train_s_ > 0) {
    const double model_flops = 3 * stats.forward_flops_per_sample() * samples_;
    summary.mfu = model_flops / train_s_ / rate.item<double>();
  }
  summary.parameters_sha256 = engine::parameters_sha256(state);
  summary.state_sha256 = engine::state_sha256(state);
  summary.run_dir = job.run_dir;
  return summary;
}

}  // namespace lockstep::worker
