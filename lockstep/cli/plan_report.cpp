#include "lockstep/cli/plan_report.h"

#include <algorithm>
#include <utility>

#include "lockstep/base/units.h"
#include "lockstep/cli/run_flags.h"
#include "lockstep/config/run_length.h"
#include "lockstep/parallel/cost/rates.h"
#include "lockstep/planner/batch_cuts.h"
#include "lockstep/planner/planner.h"

namespace lockstep::cli {
namespace {

constexpr double kMuchExposed = 0.2;  // of a step

void keep_states_only(parallel::MemoryPlan& memory) {
  memory.activations = 0;
  memory.buffers = 0;
  memory.communication = 0;
  memory.runtime = 0;
}

PricedPlan price(parallel::ParallelPlan plan, const Host& host, bool states_only) {
  PricedPlan priced{std::move(plan)};
  if (states_only) keep_states_only(priced.plan.memory);
  priced.device_memory_bytes = planner::memory_of_rank(host, priced.ranks());
  if (priced.plan.step_s > 0) {
    priced.samples_per_s = static_cast<double>(priced.plan.batch.global_batch) / priced.plan.step_s;
  }
  return priced;
}

/// The run on `ranks` ranks with the chosen global batch cut into the chosen micro-batches, or
/// nothing when it does not divide.
std::optional<PricedPlan> price_at(const PlanReport& report, const Host& host, int ranks) {
  config::RunConfig config = report.config;
  config.parallel.data.reset();
  config.batch.global_batch = report.chosen.plan.batch.global_batch;
  config.batch.micro_batch = report.chosen.plan.batch.micro_batch;
  config.batch.accumulation.reset();
  config.batch.finds_micro_batch = false;
  try {
    return price(planner::make_plan(config, host, ranks, report.data_size.resident_bytes), host,
                 report.states_only);
  } catch (const UsageError&) {  // this many ranks cannot share the batch
    return std::nullopt;
  }
}

std::optional<std::int64_t> steps_of(const rundir::CheckedRun& run) {
  const config::RunSection& length = run.config.run;
  if (const auto samples = run.data_size.samples_per_epoch) {
    return config::total_steps(length,
                               config::steps_per_epoch(*samples, run.plan.batch.global_batch));
  }
  return length.epochs ? std::nullopt : length.steps;
}

void add_alternatives(PlanReport& report, const Host& host) {
  const int most = std::max(1, host.cores / std::max(1, report.config.run.threads));
  for (int ranks = 1; ranks <= most; ranks *= 2) {
    if (ranks == report.chosen.ranks()) continue;
    if (auto priced = price_at(report, host, ranks)) {
      report.alternatives.push_back(std::move(*priced));
    }
  }
  std::stable_sort(
      report.alternatives.begin(), report.alternatives.end(),
      [](const PricedPlan& a, const PricedPlan& b) { return a.samples_per_s > b.samples_per_s; });
}

/// The fastest that fits of the chosen plan and the alternatives; nullptr when none fits.
const PricedPlan* fastest(const PlanReport& report) {
  const PricedPlan* best = report.chosen.fits() ? &report.chosen : nullptr;
  for (const PricedPlan& other : report.alternatives) {
    if (other.fits() && (best == nullptr || other.samples_per_s > best->samples_per_s)) {
      best = &other;
    }
  }
  return best;
}

/// nullptr when one rank alone cannot run this batch.
const PricedPlan* on_one_rank(const PlanReport& report) {
  if (report.chosen.ranks() == 1) return &report.chosen;
  const auto found = std::find_if(report.alternatives.begin(), report.alternatives.end(),
                                  [](const PricedPlan& other) { return other.ranks() == 1; });
  return found == report.alternatives.end() ? nullptr : &*found;
}

void judge_distribution(PlanReport& report) {
  const PricedPlan* single = on_one_rank(report);
  if (single == nullptr) return;
  report.distribution_needed = !single->fits();
  report.reasons.push_back("one rank needs " + format_bytes(single->plan.memory.total()) + " of " +
                           format_bytes(single->device_memory_bytes));
  const PricedPlan* best = fastest(report);
  if (best == nullptr || single->samples_per_s <= 0 || best->samples_per_s <= 0) return;
  report.expected_speedup = best->samples_per_s / single->samples_per_s;
  const std::string alone = speed_text(report.model, single->samples_per_s);
  report.reasons.push_back(
      best->ranks() == 1 ? "no rank count here is faster than 1 rank, which processes " + alone
                         : counted(best->ranks(), "rank") + " process " +
                               speed_text(report.model, best->samples_per_s) + ", 1 rank " + alone);
}

void advise(PlanReport& report, const Host& host) {
  const PricedPlan& chosen = report.chosen;
  const parallel::ParallelPlan& plan = chosen.plan;
  const int threads = report.config.run.threads;
  if (!chosen.fits()) {
    const bool batch_helps = plan.memory.activations > plan.memory.total() / 4;
    report.advice.push_back({batch_helps ? "lower batch.micro_batch" : "train a smaller model",
                             format_bytes(plan.memory.total()) + " do not fit into " +
                                 format_bytes(chosen.device_memory_bytes) + " a rank",
                             "memory_bytes"});
  }
  const std::string crowding = crowding_text(chosen.ranks(), threads, host.cores);
  if (!crowding.empty()) {
    report.advice.push_back({threads > host.cores
                                 ? "set run.threads to at most " + std::to_string(host.cores)
                                 : "use at most " + counted(host.cores / threads, "rank"),
                             crowding, "layout"});
  }
  if (report.states_only) return;  // nothing else is said about times
  if (plan.exposed_comm_s > kMuchExposed * plan.step_s && plan.step_s > 0) {
    report.advice.push_back({"raise batch.accumulation or batch.micro_batch",
                             format_percent(plan.exposed_comm_s / plan.step_s) +
                                 " of a step waits for gradients of other ranks",
                             "exposed_comm_s"});
  }
  const PricedPlan* best = fastest(report);
  if (best != nullptr && best != &chosen && best->samples_per_s > 1.1 * chosen.samples_per_s) {
    report.advice.push_back({"use " + counted(best->ranks(), "rank"),
                             speed_text(report.model, best->samples_per_s) + " instead of " +
                                 speed_text(report.model, chosen.samples_per_s) +
                                 " at the same global batch",
                             "alternatives"});
  }
}

void state_assumptions(PlanReport& report, const Host& host) {
  const std::string crowding =
      crowding_text(report.chosen.ranks(), report.config.run.threads, host.cores);
  report.assumptions = {
      "all ranks run on this host: " + counted(host.cores, "core") +
          (host.cpu_model.empty() ? "" : " of " + host.cpu_model) + ", " +
          format_bytes(host.memory_bytes) +
          " of memory, nine tenths of it shared evenly by the ranks",
      crowding.empty() ? "a rank computes with " + counted(report.config.run.threads, "thread") +
                             " and nothing else uses the cores"
                       : crowding + ": threads take turns",
      "step times are sums of operators, " + host.rates().source +
          (host.measured ? "" : ": `lockstep plan --calibrate` measures this machine"),
  };
  report.assumptions.emplace_back(
      "error bands are what 52 runs of one machine kept to (docs/validation.md)");
  if (host.measured_problem) {
    report.assumptions.push_back("what was measured of this machine is not used: " +
                                 host.measured_problem->where + " " + host.measured_problem->what);
  }
  const std::int64_t data_bytes = report.data_size.resident_bytes;
  if (data_bytes > 0) {
    report.assumptions.push_back(
        "buffers include the data sets, held in memory: " + format_bytes(data_bytes) + " a rank");
  } else if (report.config.data.format != config::DataFormat::synthetic) {
    report.assumptions.emplace_back(
        "the size of the data sets is not known here: buffers do not include them");
  }
  if (report.states_only) {
    report.assumptions.emplace_back("memory counts parameters, gradients and optimizer state only");
  }
}

}  // namespace

std::string speed_text(const model::ModelStats& model, double samples_per_s) {
  if (!model.counts_tokens) return format_short(samples_per_s) + " samples/s";
  return format_short(samples_per_s * static_cast<double>(model.tokens_per_sample)) + " tokens/s";
}

PlanReport make_plan_report(const rundir::CheckedRun& run, const Host& host, bool states_only) {
  PlanReport report;
  report.config = run.config;
  report.data_size = run.data_size;
  report.states_only = states_only;
  report.measured_rates = host.measured != nullptr;
  report.chosen = price(run.plan, host, states_only);
  report.steps = steps_of(run);
  report.model = model::model_stats(run.config.model, run.config.data.seq_len);
  report.peak_flops_per_s =
      parallel::matmul_flops_per_s({run.config, report.model, host, report.chosen.ranks()});
  add_alternatives(report, host);
  judge_distribution(report);
  advise(report, host);
  state_assumptions(report, host);
  return report;
}

}  // namespace lockstep::cli
