// A plan for named devices as the JSON of the contract, and as a table for people.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "lockstep/base/json_fields.h"
#include "lockstep/base/units.h"
#include "lockstep/cli/plan_cluster.h"
#include "lockstep/cli/plan_table.h"
#include "lockstep/engine/values/memory_rows.h"
#include "lockstep/model/stats/described_model.h"

namespace lockstep::cli {
namespace {

using Json = nlohmann::ordered_json;
using parallel::Layout;
using parallel::Offload;
using parallel::TimePrediction;

// Relative. The largest errors over published runs: docs/planning.md, docs/validation.md.
constexpr double kMemoryErrorBand = 0.15;
constexpr double kStepErrorBand = 0.15;

Json known(double number) { return number > 0 ? Json(number) : Json(nullptr); }

/// "none", "optimizer on cpu", "optimizer and parameters on nvme"
std::string offload_text(const Layout& layout) {
  const Offload optimizer = layout.offload_optimizer;
  const Offload parameters = layout.offload_parameters;
  if (optimizer == Offload::none && parameters == Offload::none) return "none";
  const auto on = [](const char* what, Offload where) {
    return std::string(what) + " on " + std::string(to_text(where));
  };
  if (optimizer == parameters) return on("optimizer and parameters", optimizer);
  if (parameters == Offload::none) return on("optimizer", optimizer);
  if (optimizer == Offload::none) return on("parameters", parameters);
  return on("optimizer", optimizer) + ", " + on("parameters", parameters);
}

Json layout_json(const Layout& layout) {
  return {{"data", layout.data},
          {"zero", layout.zero},
          {"tensor", layout.tensor},
          {"pipeline", layout.pipeline},
          {"sequence", layout.sequence ? layout.tensor : 1},
          {"micro_batch", layout.micro_batch},
          {"accumulation", layout.accumulation},
          {"schedule", to_text(layout.schedule)},
          {"recompute", to_text(layout.recompute)},
          {"offload", offload_text(layout)},
          {"context", layout.context},
          {"expert", layout.expert},
          {"chunks", layout.chunks},
          {"flash_attention", layout.flash_attention}};
}

Json memory_json(const ClusterReport& report) {
  const parallel::MemoryPlan& memory = report.plan.memory.device;
  Json rows = Json::object();
  for (const engine::MemoryRow& row : engine::kMemoryRows) rows[row.category] = memory.*row.bytes;
  if (report.job.states_only) {
    for (const char* left_out : {"activations", "buffers", "communication", "runtime"}) {
      rows[left_out] = nullptr;
    }
  }
  rows["total"] = memory.total();
  return rows;
}

double exposed_s(const TimePrediction& time) {
  return time.tensor_comm_s + time.pipeline_comm_s + time.exposed_data_comm_s;
}

double train_s(const ClusterReport& report) {
  return report.plan.tokens_per_s > 0 ? report.job.tokens / report.plan.tokens_per_s : 0;
}

void add_speed(const ClusterReport& report, Json& document) {
  const char* speed = report.job.model.counts_tokens ? "tokens_per_s" : "samples_per_s";
  for (const char* key : {"step_s", speed, "tflops_per_device", "mfu", "bubble_fraction",
                          "exposed_comm_s", "comm_bytes_per_step", "time_to_train_s"}) {
    document[key] = nullptr;
  }
  if (!report.plan.time) return;
  const TimePrediction& time = *report.plan.time;
  document["step_s"] = known(time.step_s);
  document[speed] =
      known(report.job.model.counts_tokens ? report.plan.tokens_per_s : report.plan.samples_per_s);
  document["tflops_per_device"] = known(time.tflops_per_device);
  document["mfu"] = known(time.mfu);
  document["bubble_fraction"] = time.bubble_s / time.step_s;
  document["exposed_comm_s"] = exposed_s(time);
  document["comm_bytes_per_step"] = std::llround(time.wire_bytes());
  document["time_to_train_s"] = known(train_s(report));
}

Json advice_json(const std::vector<Advice>& advice) {
  Json rows = Json::array();
  for (const Advice& one : advice) {
    rows.push_back({{"say", one.say}, {"because", one.because}, {"source", one.source}});
  }
  return rows;
}

/// "A100-80G", or what stands for a device that was not named.
std::string device_text(const ClusterReport& report) {
  return report.job.machine ? std::string(report.job.machine->device.name) : "device of any kind";
}

std::int64_t devices_of_a_host(const ClusterReport& report) {
  constexpr std::int64_t kUsual = 8;
  const std::int64_t most = report.job.machine ? report.job.machine->devices_per_host : kUsual;
  return std::min(most, report.job.layout.devices());
}

std::string devices_text(const ClusterReport& report) {
  const std::int64_t devices = report.job.layout.devices();
  if (!report.job.machine) return counted(devices, "device") + " of any kind";
  std::string text = format_count(devices) + " x " + device_text(report);
  const std::int64_t per_host = report.job.machine->devices_per_host;
  if (devices > per_host) {
    text += " on " + counted((devices + per_host - 1) / per_host, "host");
  }
  return text;
}

void add_degree(std::string_view name, std::int64_t ranks, std::string& text) {
  if (ranks > 1) text += ", " + std::string(name) + " " + format_count(ranks);
}

std::string layout_text(const Layout& layout) {
  std::string text = "data " + format_count(layout.data);
  if (layout.zero > 0) text += " with ZeRO stage " + std::to_string(layout.zero);
  add_degree("tensor", layout.tensor, text);
  if (layout.sequence) text += " with sequence";
  add_degree("pipeline", layout.pipeline, text);
  if (layout.pipeline > 1) text += " (" + std::string(to_text(layout.schedule)) + ")";
  add_degree("chunks", layout.chunks, text);
  add_degree("context", layout.context, text);
  add_degree("expert", layout.expert, text);
  if (layout.recompute != parallel::Recompute::none) {
    text += ", recompute " + std::string(to_text(layout.recompute));
  }
  if (layout.flash_attention) text += ", flash attention";
  const std::string offload = offload_text(layout);
  return offload == "none" ? text : text + ", " + offload;
}

std::string batch_text(const Layout& layout, const model::ModelStats& model) {
  std::string text = counted(layout.global_batch(), "sample");
  if (model.counts_tokens) text += " of " + counted(model.tokens_per_sample, "token");
  text +=
      " a step = " + counted(layout.data, "data rank") + " x " + format_count(layout.micro_batch);
  if (layout.accumulation > 1) text += " x " + format_count(layout.accumulation) + " accumulated";
  return text;
}

void add_model(const ClusterReport& report, PlanTable& table) {
  const planner::ClusterJob& job = report.job;
  table.title("plan of " + job.architecture.name + " on " + devices_text(report));
  const bool given = job.given_parameters > 0;
  table.row("model", (given ? "a GPT of about so many parameters: "
                            : format_count(job.model.parameters()) + " parameters: ") +
                         model::in_words(job.architecture));
  table.row("layout", layout_text(job.layout));
  if (!job.states_only) table.row("batch", batch_text(job.layout, job.model));
  table.row("precision", job.deepspeed_rule
                             ? "DeepSpeed's estimators: 18 B a parameter"
                             : std::string(job.recipe->name) + ": " +
                                   std::string(job.recipe->summary) + ", " +
                                   format_shortest(job.recipe->states()) + " B a parameter");
}

std::string fit_text(const ClusterReport& report) {
  const planner::ClusterPlan& plan = report.plan;
  const double share = static_cast<double>(plan.memory.device.total()) /
                       static_cast<double>(plan.device_memory_bytes);
  std::string text = (*plan.fits() ? "fits into " : "does NOT fit into ") +
                     format_bytes(plan.device_memory_bytes) + " a device: takes " +
                     share_text(share);
  if (!report.job.states_only) {
    return text + " (give or take " + format_percent(kMemoryErrorBand, 0) + ")";
  }
  return text + (*plan.fits() ? ", and more with what is left out" : " for states alone");
}

void add_memory(const ClusterReport& report, PlanTable& table) {
  const parallel::MemoryPrediction& memory = report.plan.memory;
  table.blank();
  table.title(report.job.layout.pipeline > 1
                  ? "memory of one device of stage " + std::to_string(memory.stage + 1) +
                        ", the fullest"
                  : "memory of one device");
  const std::int64_t total = memory.device.total();
  for (const engine::MemoryRow& row : engine::kMemoryRows) {
    const std::int64_t bytes = memory.device.*row.bytes;
    if (report.job.states_only && bytes == 0) continue;  // not counted
    table.amount(row.category, bytes, total);
  }
  table.amount(report.job.states_only ? "states" : "total", total, total);
  if (report.plan.device_memory_bytes > 0) table.row("", fit_text(report));
  if (report.job.states_only) {
    table.row("", "left out: activations, buffers, communication, runtime");
  }
  if (memory.host_bytes > 0) {
    const std::int64_t devices = devices_of_a_host(report);
    table.row("host", format_bytes(memory.host_bytes) + " of its memory for each device, " +
                          format_bytes(memory.host_bytes * devices) + " for its " +
                          counted(devices, "device"));
  }
  if (memory.nvme_bytes > 0) {
    table.row("disk", format_bytes(memory.nvme_bytes) + " for each device");
  }
}

void add_part(std::string_view label, double seconds, double step_s, PlanTable& table) {
  if (seconds < step_s / 1000) return;
  table.row(label, format_duration(seconds) + ", " + format_percent(seconds / step_s));
}

void add_step(const ClusterReport& report, PlanTable& table) {
  if (!report.plan.time) {
    if (!report.job.states_only) table.row("time", "not predicted: no device is named (--gpu)");
    return;
  }
  const TimePrediction& time = *report.plan.time;
  table.blank();
  table.title("one step");
  table.row("time", format_duration(time.step_s) + " (give or take " +
                        format_percent(kStepErrorBand, 0) + ")");
  add_part("forward", time.forward_s, time.step_s, table);
  add_part("backward", time.backward_s, time.step_s, table);
  add_part("once more", time.recompute_s, time.step_s, table);
  add_part("exposed sync", exposed_s(time), time.step_s, table);
  add_part("bubble", time.bubble_s, time.step_s, table);
  add_part("optimizer", time.optimizer_s, time.step_s, table);
  const double speed =
      report.plan.tokens_per_s > 0 ? report.plan.tokens_per_s : report.plan.samples_per_s;
  table.row("speed", format_short(speed) +
                         (report.plan.tokens_per_s > 0 ? " tokens/s, " : " samples/s, ") +
                         format_number(time.tflops_per_device, 3) + " TFLOP/s a device, " +
                         format_percent(time.mfu) + " of its peak");
  table.row("sends", format_bytes(std::llround(time.wire_bytes())) + " a device");
  if (train_s(report) > 0) {
    table.row("whole run",
              format_short(report.job.tokens) + " tokens in " + format_duration(train_s(report)));
  }
}

void add_advice(const ClusterReport& report, PlanTable& table) {
  if (!report.advice.empty()) {
    table.blank();
    table.title("to make it fit");
    for (const Advice& one : report.advice) table.row("try", one.say + ": " + one.because);
  }
  table.blank();
  for (const std::string& one : report.plan.assumptions) {
    if (!one.starts_with("precision ")) table.row("assumes", one);  // which stands above
  }
}

}  // namespace

std::string cluster_json(const ClusterReport& report) {
  const planner::ClusterPlan& plan = report.plan;
  const parallel::StateBytes& states = plan.memory.states;
  Json document{{"parameters", std::llround(plan.parameters)}};
  document["fits"] = plan.fits() ? Json(*plan.fits()) : Json(nullptr);
  document["memory_bytes"] = memory_json(report);
  document["device_memory_bytes"] =
      plan.device_memory_bytes > 0 ? Json(plan.device_memory_bytes) : Json(nullptr);
  add_speed(report, document);
  document["layout"] = layout_json(report.job.layout);
  document["alternatives"] = Json::array();
  document["distribute"] = {
      {"needed", plan.device_memory_bytes > 0 ? Json(report.distribution_needed) : Json(nullptr)},
      {"expected_speedup", known(report.expected_speedup.value_or(0))},
      {"reasons", report.reasons}};
  document["advice"] = advice_json(report.advice);
  document["assumptions"] = plan.assumptions;
  document["error_band"] = {
      {"memory_bytes", report.job.states_only ? Json(nullptr) : Json(kMemoryErrorBand)},
      {"step_s", plan.time ? Json(kStepErrorBand) : Json(nullptr)}};
  document["optimizer_bytes"] = {{"masters", std::llround(states.masters)},
                                 {"moments", std::llround(states.moments)}};
  document["host_memory_bytes"] = {{"device", plan.memory.host_bytes},
                                   {"host", plan.memory.host_bytes * devices_of_a_host(report)}};
  document["nvme_bytes"] = plan.memory.nvme_bytes;
  return to_line(document);
}

std::string cluster_for_people(const ClusterReport& report, std::size_t width,
                               const metrics::TextStyle& style) {
  PlanTable table(width, style);
  add_model(report, table);
  add_memory(report, table);
  add_step(report, table);
  add_advice(report, table);
  return table.text();
}

}  // namespace lockstep::cli
