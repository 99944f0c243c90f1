#include "lockstep/metrics/plan_text.h"

#include <algorithm>
#include <vector>

#include "lockstep/base/units.h"
#include "lockstep/engine/values/memory_rows.h"

namespace lockstep::metrics {
namespace {

constexpr std::size_t kLabelColumns = 8;
constexpr double kLeastShown = 0.02;  // of the total

std::string layout_line(const parallel::ParallelPlan& plan) {
  std::string names;
  for (const std::string& strategy : plan.strategies)
    names += (names.empty() ? "" : " + ") + strategy;
  std::string line = names.empty() ? "one device" : names;
  line += " on " + counted(Mesh(plan.degree).world_size(), "rank");
  if (plan.batch.ordered) {
    line += ", sums over " + counted(plan.batch.leaves, "virtual rank") + " in fixed order";
  }
  return line;
}

std::string batch_line(const config::BatchShape& batch, const TextStyle& style) {
  const std::string times(style.pick(" × ", " x "));
  std::string line = counted(batch.global_batch, "sample") +
                     " a step = " + counted(batch.data_ranks, "rank") + times +
                     format_count(batch.micro_batch);
  if (batch.accumulation > 1) line += times + format_count(batch.accumulation) + " accumulated";
  return line;
}

std::string memory_line(const parallel::MemoryPlan& memory) {
  std::vector<engine::MemoryRow> rows(engine::kMemoryRows.begin(), engine::kMemoryRows.end());
  std::stable_sort(rows.begin(), rows.end(),
                   [&](const auto& a, const auto& b) { return memory.*a.bytes > memory.*b.bytes; });
  std::string parts;
  for (const engine::MemoryRow& row : rows) {
    const std::int64_t bytes = memory.*row.bytes;
    if (static_cast<double>(bytes) < kLeastShown * static_cast<double>(memory.total())) continue;
    if (bytes <= 0) continue;
    parts += (parts.empty() ? ": " : ", ") + std::string(row.category) + " " + format_bytes(bytes);
  }
  return format_bytes(memory.total()) + " a rank" + parts;
}

std::string step_line(const parallel::ParallelPlan& plan) {
  return format_duration(plan.step_s) + ": forward " + format_duration(plan.forward_s) +
         ", backward " + format_duration(plan.backward_s) + ", exposed sync " +
         format_duration(plan.exposed_comm_s) + ", optimizer " + format_duration(plan.optimizer_s);
}

// Breaks behind commas; what follows is indented by `indent`.
std::string wrapped(const std::string& text, std::size_t width, std::size_t indent) {
  std::string lines;
  std::size_t used = indent;
  for (std::size_t from = 0; from < text.size();) {
    const std::size_t comma = text.find(", ", from);
    const std::size_t end = comma == std::string::npos ? text.size() : comma + 2;
    const std::string piece = text.substr(from, end - from);
    if (used > indent && used + columns(piece) > width) {
      lines.pop_back();  // the blank behind the comma
      lines += "\n" + std::string(indent, ' ');
      used = indent;
    }
    lines += piece;
    used += columns(piece);
    from = end;
  }
  return lines;
}

}  // namespace

std::string plan_text(const parallel::ParallelPlan& plan, const std::string& title,
                      std::size_t width, const TextStyle& style) {
  std::string text = style.paint(Tone::strong, "plan  " + printable(title, style.utf8)) + "\n";
  const auto row = [&](const char* label, const std::string& value) {
    text += "  " + style.paint(Tone::faint, pad_right(label, kLabelColumns)) +
            wrapped(value, width, kLabelColumns + 2) + "\n";
  };
  row("layout", layout_line(plan));
  row("batch", batch_line(plan.batch, style));
  if (!plan.compute.empty()) row("compute", plan.compute);
  if (!plan.groups.empty()) row("groups", parallel::to_text(plan.groups));
  if (plan.memory.total() > 0) row("memory", memory_line(plan.memory));
  if (plan.step_s > 0) row("step", step_line(plan));
  if (plan.comm_bytes_per_step > 0) {
    row("sends", format_bytes(plan.comm_bytes_per_step) + " a rank and step");
  }
  return text;
}

}  // namespace lockstep::metrics
