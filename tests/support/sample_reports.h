// Reports as a small run would send them: the material of the tests of this folder.
#pragma once
#include <cmath>

#include "lockstep/engine/values/run_summary.h"
#include "lockstep/engine/values/step_report.h"
#include "lockstep/parallel/plan/parallel_plan.h"

namespace lockstep::metrics::sample {

inline engine::StepReport step(std::int64_t number, std::int64_t total, double step_s = 0.1) {
  engine::StepReport report;
  report.step = number;
  report.total_steps = total;
  report.epoch = static_cast<double>(number) / 100;
  report.loss = 2.0 / static_cast<double>(number);
  report.lr = 0.05;
  report.samples = 128;
  report.times = {step_s, 0.01 * step_s, 0.3 * step_s, 0.5 * step_s, 0.1 * step_s, 0.05 * step_s};
  return report;
}

inline engine::EvalReport eval(std::int64_t number, double accuracy) {
  return {number, 0.25, accuracy, std::nullopt, 10000, 3.2};
}

inline parallel::ParallelPlan plan() {
  parallel::ParallelPlan plan;
  plan.strategies = {"data_parallel"};
  plan.degree = {1, 2, 1};
  plan.batch = {128, 64, 1, 2, 2, false};
  plan.memory = {1'100'000, 2'200'000, 2'200'000, 301'000'000, 12'000'000, 2'200'000, 98'000'000};
  plan.comm_bytes_per_step = 1'088'000;
  return plan;
}

inline engine::RunSummary summary() {
  engine::RunSummary summary;
  summary.steps = 1876;
  summary.steps_this_run = 1876;
  summary.final_loss = 0.0931;
  summary.eval = eval(1876, 0.9287);
  summary.samples_or_tokens_per_s = 1284.5;
  summary.train_s = 186.4;
  summary.mfu = 0.41;
  summary.mean_times = {0.100, 0.010, 0.030, 0.050, 0.005, 0.005};
  summary.planned = plan().memory;
  summary.measured = plan().memory;
  summary.measured.runtime = 152'000'000;
  summary.planned_step_s = 0.095;
  summary.measured_step_s = 0.0984;
  summary.planned_comm_bytes = 1'088'000;
  summary.measured_comm_bytes = 1'088'008;
  summary.state_sha256 = "9f2c4e77aa0011bb22cc33dd44ee55ff";
  summary.run_dir = "runs/resnet20-1";
  return summary;
}

}  // namespace lockstep::metrics::sample
