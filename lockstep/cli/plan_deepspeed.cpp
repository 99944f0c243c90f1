#include "lockstep/cli/plan_deepspeed.h"

#include <nlohmann/json.hpp>

namespace lockstep::cli {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

Json deepspeed_json(const ClusterReport& report) {
  if (!report.deepspeed) return nullptr;
  Json filled = Json::object();
  Json because = Json::object();
  Json left = Json::object();
  for (const planner::FilledKey& row : report.deepspeed->keys) {
    if (row.value.empty()) {
      left[row.key] = row.why;
    } else {
      filled[row.key] = Json::parse(row.value);
      because[row.key] = row.why;
    }
  }
  return {{"file", report.job.deepspeed->file.where},
          {"filled", filled},
          {"because", because},
          {"left", left},
          {"config", Json::parse(report.deepspeed->config)}};
}

void add_deepspeed(const ClusterReport& report, PlanTable& table) {
  if (!report.deepspeed || report.deepspeed->keys.empty()) return;
  table.blank();
  table.title(report.job.deepspeed->file.where + ", with its \"auto\" filled");
  for (const planner::FilledKey& row : report.deepspeed->keys) {
    const bool left = row.value.empty();
    table.row(left ? "left" : "set",
              "\"" + row.key + "\": " + (left ? "\"auto\"" : row.value) + "   " + row.why);
  }
  table.row("", "the whole file: --json, deepspeed.config");
}

}  // namespace lockstep::cli
