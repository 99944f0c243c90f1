// A plan report as the JSON of the contract, and as a table for people.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "lockstep/base/json_fields.h"
#include "lockstep/base/units.h"
#include "lockstep/cli/plan_layout.h"
#include "lockstep/cli/plan_report.h"
#include "lockstep/cli/plan_table.h"
#include "lockstep/engine/values/memory_rows.h"
#include "lockstep/parallel/plan/plan_bars.h"

namespace lockstep::cli {
namespace {

using Json = nlohmann::ordered_json;

// Backward costs twice the forward (as ModelStats says).
constexpr double kForwardsPerStep = 3;
// Relative. What was measured keeps to plan_bars.h (docs/validation.md); a core of a machine that
// was not may be half as fast, or twice.
constexpr double kStepErrorBandUnmeasured = 0.5;

double step_band(const PlanReport& report) {
  return report.measured_rates ? parallel::kTimeBarShare : kStepErrorBandUnmeasured;
}

Json layout_json(const PricedPlan& priced) {
  const config::BatchShape& batch = priced.plan.batch;
  return {{"data", batch.data_ranks},
          {"zero", 0},
          {"tensor", 1},
          {"pipeline", 1},
          {"sequence", 1},
          {"micro_batch", batch.micro_batch},
          {"accumulation", batch.accumulation},
          {"schedule", "none"},
          {"recompute", "none"},
          {"offload", "none"}};
}

Json alternative_json(const PricedPlan& priced) {
  Json row = layout_json(priced);
  row["fits"] = priced.fits();
  row["total_bytes"] = priced.plan.memory.total();
  row["step_s"] = priced.plan.step_s;
  row["samples_per_s"] = priced.samples_per_s;
  if (priced.flags.empty()) return row;
  row["flags"] = priced.flags;
  row["because"] = priced.why;
  return row;
}

Json memory_json(const parallel::MemoryPlan& memory) {
  Json rows = Json::object();
  for (const engine::MemoryRow& row : engine::kMemoryRows) rows[row.category] = memory.*row.bytes;
  rows["total"] = memory.total();
  return rows;
}

Json known(double number) { return number > 0 ? Json(number) : Json(nullptr); }

/// Model FLOPs a second of one rank.
double flops_per_s(const PlanReport& report) {
  return kForwardsPerStep * report.model.forward_flops_per_sample() * report.chosen.samples_per_s /
         report.chosen.ranks();
}

Json advice_json(const std::vector<Advice>& advice) {
  Json rows = Json::array();
  for (const Advice& one : advice) {
    rows.push_back({{"say", one.say}, {"because", one.because}, {"source", one.source}});
  }
  return rows;
}

void add_speed(const PlanReport& report, Json& document) {
  const parallel::ParallelPlan& plan = report.chosen.plan;
  const bool tokens = report.model.counts_tokens;
  const double per_sample = tokens ? static_cast<double>(report.model.tokens_per_sample) : 1;
  document["step_s"] = known(plan.step_s);
  document[tokens ? "tokens_per_s" : "samples_per_s"] =
      known(report.chosen.samples_per_s * per_sample);
  document["tflops_per_device"] = known(flops_per_s(report) / 1e12);
  document["mfu"] =
      known(report.peak_flops_per_s > 0 ? flops_per_s(report) / report.peak_flops_per_s : 0);
  document["bubble_fraction"] = 0.0;
  document["exposed_comm_s"] = plan.exposed_comm_s;
  document["comm_bytes_per_step"] = plan.comm_bytes_per_step;
  const double steps = static_cast<double>(report.steps.value_or(0));
  document["time_to_train_s"] = known(steps * plan.step_s);
}

/// What a step could be cut into, the first choice first.
Json search_json(const PlanReport& report) {
  std::vector<parallel::ParallelPlan> cuts{report.chosen.plan};
  cuts.insert(cuts.end(), report.search->finer.begin(), report.search->finer.end());
  Json candidates = Json::array();
  for (const parallel::ParallelPlan& plan : cuts) {
    candidates.push_back({{"micro_batch", plan.batch.micro_batch},
                          {"accumulation", plan.batch.accumulation},
                          {"total_bytes", plan.memory.total()},
                          {"step_s", plan.step_s}});
  }
  return {{"because", report.search->because},
          {"memory_limit_bytes", report.search->memory_limit_bytes},
          {"will_probe", report.search->probes},
          {"candidates", candidates}};
}

std::string batch_text(const config::BatchShape& batch) {
  std::string text = counted(batch.global_batch, "sample") +
                     " a step = " + counted(batch.data_ranks, "rank") + " x " +
                     format_count(batch.micro_batch);
  if (batch.accumulation > 1) text += " x " + format_count(batch.accumulation) + " accumulated";
  return text;
}

void add_choice(const planner::HostSearch& found, PlanTable& table) {
  table.row("", counted(found.considered, "layout") + " looked at" +
                    (found.ranked.empty()
                         ? ", none fits"
                         : ", this one is the best that fits: " + found.ranked.front().flags));
  add_rejected(found.rejected, table);
}

std::string search_text(const planner::BatchSearch& search) {
  return search.because + (search.probes ? "; a training first tries it and finer ones" : "");
}

void add_memory(const PlanReport& report, PlanTable& table) {
  const parallel::MemoryPlan& memory = report.chosen.plan.memory;
  table.title("memory of one rank");
  const std::int64_t device = report.chosen.device_memory_bytes;
  for (const engine::MemoryRow& row : engine::kMemoryRows) {
    if (report.states_only && memory.*row.bytes == 0) continue;  // not counted
    table.amount(row.category, memory.*row.bytes, memory.total());
  }
  table.amount("total", memory.total(), memory.total());
  if (device == 0) return;
  const double share = static_cast<double>(memory.total()) / static_cast<double>(device);
  table.row("", (report.chosen.fits() ? "fits into " : "does NOT fit into ") +
                    format_bytes(device) + " a rank: takes " + share_text(share) +
                    " (give or take " + format_percent(parallel::kMemoryBarShare, 0) + ")");
}

/// "1 epoch, as run.steps and run.epochs are unset: 625 steps, 2 min 05 s"; empty where the steps
/// are not known.
std::string length_text(const PlanReport& report) {
  const config::RunSection& run = report.config.run;
  const bool unset = !run.steps && !run.epochs;
  std::string text = unset ? "1 epoch, as run.steps and run.epochs are unset" : "";
  if (!report.steps) return text;
  const double seconds = static_cast<double>(*report.steps) * report.chosen.plan.step_s;
  return text + (unset ? ": " : "") + counted(*report.steps, "step") + ", " +
         format_duration(seconds);
}

void add_step(const PlanReport& report, PlanTable& table) {
  const parallel::ParallelPlan& plan = report.chosen.plan;
  if (plan.step_s <= 0 || report.states_only) return;
  table.blank();
  table.title("one step");
  table.row("time", format_duration(plan.step_s) + " (give or take " +
                        format_percent(step_band(report), 0) + ")");
  table.row("forward", format_duration(plan.forward_s));
  table.row("backward", format_duration(plan.backward_s));
  table.row("exposed sync", format_duration(plan.exposed_comm_s));
  table.row("optimizer", format_duration(plan.optimizer_s));
  table.row("speed", speed_text(report.model, report.chosen.samples_per_s));
  table.row("sends", format_bytes(plan.comm_bytes_per_step) + " a rank");
  if (const std::string text = length_text(report); !text.empty()) table.row("whole run", text);
}

void add_advice(const PlanReport& report, PlanTable& table) {
  table.blank();
  for (const PricedPlan& other : report.alternatives) {
    const std::string speed = speed_text(report.model, other.samples_per_s) + ", ";
    table.row("or " + counted(other.ranks(), "rank"),
              (report.states_only ? "" : speed) + format_bytes(other.plan.memory.total()) +
                  " a rank" + (other.fits() ? "" : ", does not fit"));
  }
  for (const Advice& one : report.advice) table.row("advice", one.say + ": " + one.because);
  for (const std::string& one : report.assumptions) table.row("assumes", one);
}

}  // namespace

std::string plan_json(const PlanReport& report) {
  const PricedPlan& chosen = report.chosen;
  Json document{{"parameters", report.model.parameters()},
                {"fits", chosen.fits()},
                {"memory_bytes", memory_json(chosen.plan.memory)},
                {"device_memory_bytes", chosen.device_memory_bytes}};
  add_speed(report, document);
  document["layout"] = layout_json(chosen);
  if (!chosen.flags.empty()) document["layout"]["flags"] = chosen.flags;
  document["alternatives"] = Json::array();
  for (const PricedPlan& other : report.alternatives) {
    document["alternatives"].push_back(alternative_json(other));
  }
  document["distribute"] = {{"needed", report.distribution_needed},
                            {"expected_speedup", known(report.expected_speedup.value_or(0))},
                            {"reasons", report.reasons}};
  document["advice"] = advice_json(report.advice);
  document["assumptions"] = report.assumptions;
  if (report.search) document["micro_batch"] = search_json(report);
  if (report.layouts) document["rejected"] = rejected_json(report.layouts->rejected);
  document["error_band"] = {{"memory_bytes", parallel::kMemoryBarShare},
                            {"step_s", step_band(report)}};
  return to_line(document);
}

std::string plan_for_people(const PlanReport& report, std::size_t width,
                            const metrics::TextStyle& style) {
  const PricedPlan& chosen = report.chosen;
  PlanTable table(width, style);
  table.title("plan of " + report.config.run.name);
  table.row("model",
            report.model.family + ", " + format_count(report.model.parameters()) + " parameters");
  std::string strategies;
  for (const std::string& name : chosen.plan.strategies) {
    strategies += (strategies.empty() ? "" : " + ") + name;
  }
  table.row("layout", (strategies.empty() ? "one device" : strategies) + " on " +
                          counted(chosen.ranks(), "rank"));
  table.row("batch", batch_text(chosen.plan.batch));
  if (report.layouts) add_choice(*report.layouts, table);
  if (report.search) table.row("", search_text(*report.search));
  if (!chosen.plan.compute.empty()) table.row("compute", chosen.plan.compute);
  if (!chosen.plan.groups.empty()) table.row("groups", parallel::to_text(chosen.plan.groups));
  table.blank();
  add_memory(report, table);
  add_step(report, table);
  add_advice(report, table);
  return table.text();
}

}  // namespace lockstep::cli
