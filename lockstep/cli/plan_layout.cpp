#include "lockstep/cli/plan_layout.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "lockstep/base/units.h"

namespace lockstep::cli {
namespace {

using Json = nlohmann::ordered_json;
using parallel::Layout;
using parallel::Offload;
using planner::RankedLayout;
using planner::Rejection;

constexpr std::size_t kShown = 5;  // layouts, to people

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

void add_degree(std::string_view name, std::int64_t ranks, std::string& text) {
  if (ranks > 1) text += ", " + std::string(name) + " " + format_count(ranks);
}

/// Tokens, or samples of a model without tokens.
double speed_of(const ClusterReport& report, const RankedLayout& row) {
  const double each =
      report.job.model.counts_tokens ? static_cast<double>(report.job.model.tokens_per_sample) : 1;
  return each * static_cast<double>(row.layout.global_batch()) / row.time.step_s;
}

struct KindOfRejection {
  Rejection kind;
  std::string_view label;
};

constexpr auto kRejections = std::to_array<KindOfRejection>({
    {Rejection::not_better, "not better"},
    {Rejection::too_large, "too large"},
    {Rejection::impossible, "impossible"},
});

/// "3 choices: tensor 1, tensor 2, zero 3".
std::string choices_text(const std::vector<planner::RejectedLayouts>& rejected, Rejection kind) {
  std::int64_t count = 0;
  std::string names;
  for (const planner::RejectedLayouts& row : rejected) {
    if (row.kind != kind) continue;
    ++count;
    names += (names.empty() ? "" : ", ") + row.what;
  }
  return count == 0 ? "" : counted(count, "choice") + ": " + names;
}

}  // namespace

nlohmann::ordered_json layout_json(const Layout& layout) {
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
          {"tables", layout.tables},
          {"chunks", layout.chunks},
          {"flash_attention", layout.flash_attention},
          {"keep_gathered", layout.keeps_gathered}};
}

std::string layout_text(const Layout& layout) {
  std::string text = "data " + format_count(layout.data);
  if (layout.zero > 0) text += " with ZeRO stage " + std::to_string(layout.zero);
  if (layout.keeps_gathered) text += " (gathered for a step)";
  add_degree("tensor", layout.tensor, text);
  if (layout.sequence) text += " with sequence";
  add_degree("pipeline", layout.pipeline, text);
  if (layout.pipeline > 1) text += " (" + std::string(to_text(layout.schedule)) + ")";
  add_degree("chunks", layout.chunks, text);
  add_degree("context", layout.context, text);
  add_degree("expert", layout.expert, text);
  add_degree("tables over", layout.tables, text);
  if (layout.recompute != parallel::Recompute::none) {
    text += ", recompute " + std::string(to_text(layout.recompute));
  }
  if (layout.flash_attention) text += ", flash attention";
  const std::string offload = offload_text(layout);
  return offload == "none" ? text : text + ", " + offload;
}

Json alternatives_json(const ClusterReport& report) {
  Json rows = Json::array();
  if (!report.search) return rows;
  const char* speed = report.job.model.counts_tokens ? "tokens_per_s" : "samples_per_s";
  const std::vector<RankedLayout>& ranked = report.search->ranked;
  for (std::size_t i = 1; i < ranked.size(); ++i) {  // the first is the plan
    Json row = layout_json(ranked[i].layout);
    row["fits"] = true;
    row["total_bytes"] = ranked[i].memory.total();
    row["step_s"] = ranked[i].time.step_s;
    row[speed] = speed_of(report, ranked[i]);
    row["flags"] = ranked[i].flags;
    row["because"] = ranked[i].why;
    rows.push_back(std::move(row));
  }
  return rows;
}

Json rejected_json(const std::vector<planner::RejectedLayouts>& rejected) {
  Json rows = Json::array();
  for (const planner::RejectedLayouts& row : rejected) {
    rows.push_back({{"what", row.what}, {"because", row.because}});
  }
  return rows;
}

void add_rejected(const std::vector<planner::RejectedLayouts>& rejected, PlanTable& table) {
  for (const KindOfRejection& kind : kRejections) {
    const std::string text = choices_text(rejected, kind.kind);
    if (!text.empty()) table.row(kind.label, text);
  }
  table.row("", "--json says of each choice why");
}

void add_search(const ClusterReport& report, PlanTable& table) {
  if (!report.search) return;
  const planner::SearchResult& found = *report.search;
  table.blank();
  table.title(counted(found.considered, "layout") + " looked at" +
              (found.ranked.empty() ? ", none fits" : ", the best that fit"));
  for (std::size_t i = 0; i < std::min(kShown, found.ranked.size()); ++i) {
    const RankedLayout& row = found.ranked[i];
    table.row(std::to_string(i + 1) + (i == 0 ? ", this plan" : ""),
              format_duration(row.time.step_s) + ", " + format_bytes(row.memory.total()) + ": " +
                  row.flags);
  }
  add_rejected(found.rejected, table);
}

}  // namespace lockstep::cli
