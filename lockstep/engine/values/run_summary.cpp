#include "lockstep/engine/values/run_summary.h"

#include "lockstep/base/json_fields.h"
#include "lockstep/engine/values/memory_rows.h"
#include "lockstep/engine/values/phase_rows.h"
#include "lockstep/engine/values/report_json.h"
#include "lockstep/engine/values/straggler.h"

namespace lockstep::engine {
namespace {

using nlohmann::ordered_json;

const char* rate_key(const RunSummary& summary) {
  return summary.counts_tokens ? "tokens_per_s" : "samples_per_s";
}

ordered_json memory_json(const RunSummary& summary) {
  ordered_json memory;
  for (const MemoryRow& row : kMemoryRows) {
    memory[row.category] = {{"planned_bytes", summary.planned.*row.bytes},
                            {"measured_bytes", summary.measured.*row.bytes}};
  }
  return memory;
}

ordered_json phases_json(const PhaseTimes& times) {
  ordered_json phases{{"step_s", times.step_s}};
  for (const PhaseRow& row : kPhaseRows) phases[row.key] = times.*row.seconds;
  return phases;
}

/// What summaries have only now and then.
void put_findings(ordered_json& document, const RunSummary& summary) {
  if (!summary.per_rank.empty()) document["per_rank"] = to_columns(summary.per_rank);
  if (!summary.hosts.empty()) document["hosts"] = summary.hosts;
  if (summary.straggler) {
    document["straggler"] = to_json(compare_rank(summary.per_rank, *summary.straggler));
  }
  if (summary.gradient_check) document["gradient_check"] = to_json(*summary.gradient_check);
  if (summary.parameter_use) document["parameter_use"] = to_json(*summary.parameter_use);
}

void read_findings(const JsonFields& fields, RunSummary& summary) {
  if (fields.has("per_rank")) summary.per_rank = from_columns(fields.object("per_rank"));
  if (fields.has("hosts")) summary.hosts = fields.texts("hosts");
  if (fields.has("straggler")) {
    const std::int64_t rank = fields.object("straggler").integer("rank");
    const auto ranks = static_cast<std::int64_t>(summary.per_rank.size());
    if (rank < 0 || rank >= ranks || ranks < 2) fields.fail("names a straggler that is no rank");
    summary.straggler = static_cast<int>(rank);
  }
  if (fields.has("gradient_check")) {
    summary.gradient_check = gradient_check_from(fields.object("gradient_check"));
  }
  if (fields.has("parameter_use")) {
    summary.parameter_use = parameter_use_from(fields.object("parameter_use"));
  }
}

void read_memory(const JsonFields& memory, RunSummary& summary) {
  for (const MemoryRow& row : kMemoryRows) {
    const JsonFields bytes = memory.object(row.category);
    summary.planned.*row.bytes = bytes.integer("planned_bytes");
    summary.measured.*row.bytes = bytes.integer("measured_bytes");
  }
}

void read_phases(const JsonFields& phases, PhaseTimes& times) {
  times.step_s = phases.number("step_s");
  for (const PhaseRow& row : kPhaseRows) times.*row.seconds = phases.number(row.key);
}

}  // namespace

std::string to_json_text(const RunSummary& summary) {
  ordered_json document{{"status", summary.status},
                        {"config_hash", summary.config_hash},
                        {"steps", summary.steps},
                        {"first_step", summary.first_step},
                        {"steps_this_run", summary.steps_this_run},
                        {"skipped_steps", summary.skipped_steps},
                        {"final_loss", summary.final_loss}};
  if (summary.eval) {
    document["eval"] = ordered_json::parse(to_json_text(*summary.eval)).at("eval");
  }
  document[rate_key(summary)] = summary.samples_or_tokens_per_s;
  document["mfu"] = summary.mfu;
  document["train_s"] = summary.train_s;
  document["peak_memory_bytes"] = summary.peak_memory_bytes;
  document["memory"] = memory_json(summary);
  document["step_s"] = {{"planned", summary.planned_step_s}, {"measured", summary.measured_step_s}};
  document["comm_bytes"] = {{"planned", summary.planned_comm_bytes},
                            {"measured", summary.measured_comm_bytes}};
  document["phases"] = phases_json(summary.mean_times);
  put_findings(document, summary);
  document["parameters_sha256"] = summary.parameters_sha256;
  document["state_sha256"] = summary.state_sha256;
  document["run_dir"] = summary.run_dir;
  return to_line(document);
}

RunSummary summary_from_json_text(const std::string& json) {
  const JsonFields fields(json, {"LS-7052", "summary.json"});
  RunSummary summary;
  summary.status = fields.text("status");
  if (fields.has("config_hash")) summary.config_hash = fields.text("config_hash");
  summary.steps = fields.integer("steps");
  summary.first_step = fields.integer_or("first_step", 1);
  summary.steps_this_run = fields.integer_or("steps_this_run", summary.steps);
  summary.skipped_steps = fields.integer_or("skipped_steps", 0);
  summary.final_loss = fields.number("final_loss");
  if (fields.has("eval")) summary.eval = eval_report_from_json(json);
  summary.counts_tokens = fields.has("tokens_per_s");
  summary.samples_or_tokens_per_s = fields.number(rate_key(summary));
  summary.mfu = fields.number("mfu");
  summary.train_s = fields.number("train_s");
  summary.peak_memory_bytes = fields.integers("peak_memory_bytes");
  read_memory(fields.object("memory"), summary);
  summary.planned_step_s = fields.object("step_s").number("planned");
  summary.measured_step_s = fields.object("step_s").number("measured");
  summary.planned_comm_bytes = fields.object("comm_bytes").integer("planned");
  summary.measured_comm_bytes = fields.object("comm_bytes").integer("measured");
  read_phases(fields.object("phases"), summary.mean_times);
  read_findings(fields, summary);
  summary.parameters_sha256 = fields.text("parameters_sha256");
  summary.state_sha256 = fields.text("state_sha256");
  summary.run_dir = fields.text("run_dir");
  return summary;
}

}  // namespace lockstep::engine
