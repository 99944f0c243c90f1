// A plan for named devices as the JSON of the contract, and as a table for people.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "lockstep/base/json_fields.h"
#include "lockstep/base/units.h"
#include "lockstep/cli/plan_cluster.h"
#include "lockstep/cli/plan_deepspeed.h"
#include "lockstep/cli/plan_layout.h"
#include "lockstep/cli/plan_table.h"
#include "lockstep/engine/values/memory_rows.h"
#include "lockstep/model/stats/described_model.h"
#include "lockstep/planner/error_bands.h"

namespace lockstep::cli {
namespace {

using Json = nlohmann::ordered_json;
using parallel::Layout;
using parallel::TimePrediction;

/// " (give or take 12 %)", or nothing where nothing of that kind was measured.
std::string give_or_take(const planner::ErrorBand& band) {
  return band.share > 0 ? " (give or take " + format_percent(band.share, 0) + ")" : "";
}

Json known(double number) { return number > 0 ? Json(number) : Json(nullptr); }

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

void add_speed(const ClusterReport& report, Json& document) {
  const char* speed = report.job.model.counts_tokens ? "tokens_per_s" : "samples_per_s";
  for (const char* key :
       {"step_s", speed, "tflops_per_device", "mfu", "bubble_fraction", "exposed_comm_s",
        "data_wait_s", "comm_bytes_per_step", "time_to_train_s"}) {
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
  document["data_wait_s"] = time.data_wait_s;
  document["comm_bytes_per_step"] = std::llround(time.wire_bytes());
  document["time_to_train_s"] = known(train_seconds(report));
}

Json advice_json(const ClusterReport& report) {
  Json rows = Json::array();
  const auto add = [&rows](const auto& all) {
    for (const auto& one : all) {
      rows.push_back({{"say", one.say}, {"because", one.because}, {"source", one.source}});
    }
  };
  add(report.ways);
  add(report.advice);
  return rows;
}

Json error_band_json(const ClusterReport& report) {
  const planner::ErrorBand memory = planner::memory_band(report.job);
  const planner::ErrorBand time = planner::time_band(report.job);
  const bool of_memory = !report.job.states_only;
  return {{"memory_bytes", of_memory ? known(memory.share) : Json(nullptr)},
          {"step_s", report.plan.time ? known(time.share) : Json(nullptr)},
          {"because",
           {{"memory_bytes", of_memory ? Json(memory.because) : Json(nullptr)},
            {"step_s", report.plan.time ? Json(time.because) : Json(nullptr)}}}};
}

Json need_within_json(const ClusterReport& report) {
  if (!report.within) return nullptr;
  const DoneWithin& within = *report.within;
  const bool is_known = within.train_s > 0 && std::isfinite(within.train_s);
  return {{"seconds", report.questions.need_within_s},
          {"met", within.train_s > 0 ? Json(within.devices > 0) : Json(nullptr)},
          {"devices", within.devices > 0 ? Json(within.devices) : Json(nullptr)},
          {"time_to_train_s", is_known ? Json(within.train_s) : Json(nullptr)},
          {"because", within.sentence}};
}

/// Null where nothing is ever finished, or how much is trained is not known.
Json expected_json(const ClusterReport& report) {
  const double seconds = planner::expected_s(*report.goodput, train_seconds(report));
  return seconds > 0 && std::isfinite(seconds) ? Json(seconds) : Json(nullptr);
}

Json goodput_json(const ClusterReport& report) {
  if (!report.goodput) return nullptr;
  return {{"fraction", report.goodput->share},
          {"exact_fraction", report.goodput->exact_share},
          {"best_interval_s", report.goodput->best_interval_s},
          {"failures_per_day", report.goodput->failures_a_day},
          {"expected_s", expected_json(report)}};
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
    return text + give_or_take(planner::memory_band(report.job));
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
  table.row("time", format_duration(time.step_s) + give_or_take(planner::time_band(report.job)));
  add_part("forward", time.forward_s, time.step_s, table);
  add_part("backward", time.backward_s, time.step_s, table);
  add_part("once more", time.recompute_s, time.step_s, table);
  add_part("exposed sync", exposed_s(time), time.step_s, table);
  add_part("bubble", time.bubble_s, time.step_s, table);
  add_part("optimizer", time.optimizer_s, time.step_s, table);
  add_part("data wait", time.data_wait_s, time.step_s, table);
  const double speed =
      report.plan.tokens_per_s > 0 ? report.plan.tokens_per_s : report.plan.samples_per_s;
  table.row("speed", format_short(speed) +
                         (report.plan.tokens_per_s > 0 ? " tokens/s, " : " samples/s, ") +
                         format_number(time.tflops_per_device, 3) + " TFLOP/s a device, " +
                         format_percent(time.mfu) + " of its peak");
  table.row("sends", format_bytes(std::llround(time.wire_bytes())) + " a device");
  if (train_seconds(report) > 0) {
    table.row("whole run",
              planner::trained_text(report.job) + " in " + format_duration(train_seconds(report)));
  }
}

void add_goodput(const ClusterReport& report, PlanTable& table) {
  if (!report.goodput) return;
  const planner::Goodput& goodput = *report.goodput;
  std::string text = format_percent(goodput.exact_share) +
                     " of the time is progress, with a checkpoint every " +
                     format_duration(goodput.best_interval_s) + " and " +
                     format_short(goodput.failures_a_day) + " failures a day";
  const Json expected = expected_json(report);
  if (!expected.is_null()) {
    text += ": the whole run takes " + format_duration(expected.get<double>());
  }
  table.row("failures", text);
}

void add_distribution(const ClusterReport& report, PlanTable& table) {
  if (report.plan.device_memory_bytes == 0 || report.job.states_only) return;
  table.blank();
  table.title(std::string("several devices are ") + (report.distribution.needed ? "" : "not ") +
              "worth it");
  for (const std::string& reason : report.distribution.reasons) {
    if (!reason.starts_with("time: ")) table.row("because", reason);  // not known
  }
}

/// Where the bands above come from.
void add_bands(const ClusterReport& report, PlanTable& table) {
  if (report.job.states_only) return;
  std::string text = "memory as " + planner::memory_band(report.job).because;
  if (report.plan.time) text += ", time as " + planner::time_band(report.job).because;
  table.row("off by", text + ": docs/validation.md");
}

void add_advice(const ClusterReport& report, PlanTable& table) {
  if (!report.ways.empty()) {
    table.blank();
    table.title("to make it fit");
    for (const Advice& one : report.ways) table.row("try", one.say + ": " + one.because);
  }
  // Where it does not fit, the ways above were tried with this model; rules are general.
  if (report.ways.empty() && !report.advice.empty() && !report.job.states_only) {
    table.blank();
    table.title("advice");
    for (const planner::GivenAdvice& one : report.advice) {
      table.row("do", one.say + ": " + one.because + " (" + one.source + ")");
    }
  }
  table.blank();
  add_bands(report, table);
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
  if (report.search && !report.search->ranked.empty()) {
    document["layout"]["flags"] = report.search->ranked.front().flags;
  }
  document["alternatives"] = alternatives_json(report);
  document["distribute"] = {
      {"needed", plan.device_memory_bytes > 0 ? Json(report.distribution.needed) : Json(nullptr)},
      {"expected_speedup", known(report.distribution.expected_speedup)},
      {"reasons", report.distribution.reasons}};
  document["advice"] = advice_json(report);
  document["assumptions"] = plan.assumptions;
  document["error_band"] = error_band_json(report);
  document["optimizer_bytes"] = {{"masters", std::llround(states.masters)},
                                 {"moments", std::llround(states.moments)}};
  document["host_memory_bytes"] = {{"device", plan.memory.host_bytes},
                                   {"host", plan.memory.host_bytes * devices_of_a_host(report)}};
  document["nvme_bytes"] = plan.memory.nvme_bytes;
  document["rejected"] =
      report.search ? rejected_json(report.search->rejected) : nlohmann::ordered_json::array();
  document["need_within"] = need_within_json(report);
  document["goodput"] = goodput_json(report);
  document["deepspeed"] = deepspeed_json(report);
  const std::string& timeline = report.questions.timeline;
  document["timeline"] = timeline.empty() ? Json(nullptr) : Json(timeline);
  return to_line(document);
}

std::string cluster_for_people(const ClusterReport& report, std::size_t width,
                               const metrics::TextStyle& style) {
  PlanTable table(width, style);
  add_model(report, table);
  add_memory(report, table);
  add_step(report, table);
  if (report.within) table.row("in time", report.within->sentence);
  add_goodput(report, table);
  if (!report.questions.timeline.empty()) {
    table.row("timeline", report.questions.timeline + ", for ui.perfetto.dev");
  }
  add_search(report, table);
  add_deepspeed(report, table);
  add_distribution(report, table);
  add_advice(report, table);
  return table.text();
}

}  // namespace lockstep::cli
