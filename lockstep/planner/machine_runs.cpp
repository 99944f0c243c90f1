#include "lockstep/planner/machine_runs.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "lockstep/base/error.h"
#include "lockstep/base/units.h"
#include "lockstep/config/parse.h"
#include "lockstep/parallel/plan/plan_bars.h"
#include "lockstep/planner/published_runs.h"

namespace lockstep::planner {
namespace {

using parallel::MemoryPlan;

struct Category {
  const char* name;  // of its columns
  std::int64_t MemoryPlan::*bytes;
};

constexpr auto kCategories = std::to_array<Category>({
    {"parameters", &MemoryPlan::parameters},
    {"gradients", &MemoryPlan::gradients},
    {"optimizer", &MemoryPlan::optimizer},
    {"activations", &MemoryPlan::activations},
    {"buffers", &MemoryPlan::buffers},
    {"communication", &MemoryPlan::communication},
    {"runtime", &MemoryPlan::runtime},
});
constexpr std::size_t kStates = 3;  // the first ones share a column

[[noreturn]] void refuse(const std::string& run, const std::string& what) {
  throw BadData(Problem{"LS-6113", run, what, "write it anew with benchmarks/validate_plans.py"});
}

const std::string& text(const PublishedRow& row, const std::string& column) {
  const auto found = row.find(column);
  if (found == row.end()) refuse("machine_runs.csv", "has no column " + column);
  return found->second;
}

template <class Number>
Number number(const PublishedRow& row, const std::string& column) {
  const std::string& field = text(row, column);
  Number value{};
  const auto [end, fault] = std::from_chars(field.data(), field.data() + field.size(), value);
  if (fault != std::errc{} || end != field.data() + field.size()) {
    refuse(text(row, "run"), "column " + column + " says '" + field + "'");
  }
  return value;
}

RunCost cost(const PublishedRow& row, const std::string& side) {
  RunCost cost;
  for (const Category& category : kCategories) {
    cost.memory.*category.bytes = number<std::int64_t>(row, side + "_" + category.name + "_bytes");
  }
  cost.comm_bytes = number<std::int64_t>(row, side + "_comm_bytes");
  cost.step_s = number<double>(row, side + "_step_s");
  return cost;
}

/// "key = value; key = value" is a run.toml on one line.
config::RunConfig config_of(const PublishedRow& row) {
  std::string toml = text(row, "settings");
  for (std::size_t at = 0; (at = toml.find("; ", at)) != std::string::npos;) {
    toml.replace(at, 2, "\n");
  }
  config::ParsedConfig parsed = config::parse_run_config(toml, text(row, "run"));
  if (!parsed.problems.empty()) throw BadData(parsed.problems.front());
  return parsed.config;
}

double error_of(double planned, double measured) {
  return measured == 0 ? 0 : planned / measured - 1;
}

std::string signed_percent(double share) { return (share < 0 ? "" : "+") + format_percent(share); }

std::string megabytes(std::int64_t bytes) {
  return format_fixed(static_cast<double>(bytes) / 1e6, 1);
}

/// "162.3 +0.4": measured, and by how much more was planned; both in MB.
std::string memory_cell(std::int64_t planned, std::int64_t measured) {
  const std::string more = megabytes(planned - measured);
  if (more == "0.0" || more == "-0.0") return megabytes(measured);
  return megabytes(measured) + (more.front() == '-' ? " " : " +") + more;
}

std::string row_of(const MachineRun& run) {
  const auto cell = [](const std::string& text) { return text + " | "; };
  std::int64_t planned_states = 0;
  std::int64_t measured_states = 0;
  std::string line = "| " + cell(run.name);
  for (std::size_t i = 0; i < kCategories.size(); ++i) {
    const std::int64_t planned = run.planned.memory.*kCategories[i].bytes;
    const std::int64_t measured = run.measured.memory.*kCategories[i].bytes;
    planned_states += planned;
    measured_states += measured;
    if (i + 1 == kStates) line += cell(memory_cell(planned_states, measured_states));
    if (i >= kStates) line += cell(memory_cell(planned, measured));
  }
  const std::int64_t total = run.measured.memory.total();
  line += cell(megabytes(total));
  line += cell(signed_percent(
      error_of(static_cast<double>(run.planned.memory.total()), static_cast<double>(total))));
  const bool equal = run.planned.comm_bytes == run.measured.comm_bytes;
  line += cell(format_count(run.measured.comm_bytes) +
               (equal ? "" : ", not " + format_count(run.planned.comm_bytes)));
  line += cell(format_number(1e3 * run.measured.step_s, 3));
  return line + signed_percent(error_of(run.planned.step_s, run.measured.step_s)) + " |\n";
}

/// Absolute errors over all runs.
struct Errors {
  double sum = 0;
  double most = 0;
  std::string worst;  // whose the last one is
  int rows = 0;

  void add(double error, const std::string& name) {
    const double size = std::abs(error);
    sum += size;
    ++rows;
    if (size <= most) return;
    most = size;
    worst = name;
  }
  [[nodiscard]] std::string text() const {
    return "mean error " + format_percent(sum / std::max(rows, 1)) + ", largest " +
           format_percent(most) + " (" + worst + ")";
  }
};

std::string totals(const std::vector<MachineRun>& runs) {
  Errors memory;
  Errors time;
  int outside = 0;
  int unequal = 0;
  int in_time = 0;
  for (const MachineRun& run : runs) {
    memory.add(error_of(static_cast<double>(run.planned.memory.total()),
                        static_cast<double>(run.measured.memory.total())),
               run.name);
    time.add(error_of(run.planned.step_s, run.measured.step_s), run.name);
    in_time += parallel::keeps_time(run.planned.step_s, run.measured.step_s) ? 1 : 0;
    outside += outside_memory_bar(run).empty() ? 0 : 1;
    unequal += run.planned.comm_bytes == run.measured.comm_bytes ? 0 : 1;
  }
  const auto count = [](int runs) { return runs == 0 ? "none" : counted(runs, "run"); };
  return "\n" + counted(static_cast<std::int64_t>(runs.size()), "run") + ":\n\n" +
         "- memory of a rank: " + memory.text() + "; a category more than 5 % and 32 MiB off in " +
         count(outside) + ";\n- bytes on the wire: unequal in " + count(unequal) +
         ";\n- time of a step: " + time.text() + "; within 15 % in " + std::to_string(in_time) +
         ".\n";
}

}  // namespace

std::vector<MachineRun> read_machine_runs(std::string_view csv) {
  std::vector<MachineRun> runs;
  for (const PublishedRow& row : read_published_rows(csv)) {
    runs.push_back({text(row, "run"), text(row, "cpu"), number<int>(row, "cores"),
                    number<int>(row, "ranks"), config_of(row), cost(row, "planned"),
                    cost(row, "measured")});
  }
  return runs;
}

std::string outside_memory_bar(const MachineRun& run) {
  std::string all;
  for (const Category& category : kCategories) {
    const std::int64_t planned = run.planned.memory.*category.bytes;
    const std::int64_t measured = run.measured.memory.*category.bytes;
    if (parallel::keeps_memory(planned, measured)) continue;
    all += (all.empty() ? "" : "; ") + std::string(category.name) + " planned " +
           format_bytes(planned) + ", measured " + format_bytes(measured);
  }
  return all;
}

std::string machine_validation(const std::vector<MachineRun>& runs) {
  if (runs.empty()) return "no run yet\n";
  std::string table =
      "On " + counted(runs.front().cores, "core") + " of one " + runs.front().cpu + ":\n\n";
  table +=
      "| run | states | activations | buffers | communication | runtime | all, MB | error | "
      "bytes sent | step, ms | error |\n"
      "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n";
  for (const MachineRun& run : runs) table += row_of(run);
  return table + totals(runs);
}

}  // namespace lockstep::planner
