#include "lockstep/metrics/scaling.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/json_fields.h"
#include "lockstep/base/units.h"
#include "lockstep/engine/values/phase_rows.h"

namespace lockstep::metrics {
namespace {

using engine::kPhaseRows;
using engine::PhaseTimes;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

double mean_over_ranks(const engine::StepReport& report, double PhaseTimes::*seconds) {
  // A run's first report has no step before it: its ranks are all zero.
  const bool is_known = !report.per_rank.empty() && report.per_rank.front().step_s > 0;
  if (!is_known) return report.times.*seconds;
  double sum_s = 0;
  for (const PhaseTimes& times : report.per_rank) sum_s += times.*seconds;
  return sum_s / static_cast<double>(report.per_rank.size());
}

double median_of(const std::vector<engine::StepReport>& reports, const auto& number) {
  std::vector<double> numbers;
  numbers.reserve(reports.size());
  for (const engine::StepReport& report : reports) numbers.push_back(number(report));
  return median(std::move(numbers));
}

PhaseTimes median_times(const std::vector<engine::StepReport>& reports) {
  PhaseTimes times;
  times.step_s = median_of(reports, [](const auto& report) { return report.times.step_s; });
  for (const engine::PhaseRow& row : kPhaseRows) {
    times.*row.seconds = median_of(
        reports, [&](const auto& report) { return mean_over_ranks(report, row.seconds); });
  }
  return times;
}

/// Of each rank the medians over steps; empty when no report tells of all ranks.
std::vector<PhaseTimes> rank_medians(const ScalingRun& run) {
  std::vector<engine::StepReport> known;
  for (const engine::StepReport& report : run.reports) {
    const bool is_known = report.per_rank.size() == static_cast<std::size_t>(run.ranks) &&
                          report.per_rank.front().step_s > 0;
    if (is_known) known.push_back(report);
  }
  std::vector<PhaseTimes> ranks(known.empty() ? 0 : static_cast<std::size_t>(run.ranks));
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    ranks[r].step_s =
        median_of(known, [&](const auto& report) { return report.per_rank[r].step_s; });
    for (const engine::PhaseRow& row : kPhaseRows) {
      ranks[r].*row.seconds =
          median_of(known, [&](const auto& report) { return report.per_rank[r].*row.seconds; });
    }
  }
  return ranks;
}

ScalingRow measure(const ScalingRun& run, int cores) {
  LOCKSTEP_CHECK(!run.reports.empty(), "a scaling run without measured steps");
  ScalingRow row;
  row.ranks = run.ranks;
  row.oversubscribed = run.ranks > cores;
  row.times = median_times(run.reports);
  row.slowest = engine::slowest_rank(rank_medians(run));
  const auto per_s = [&](std::int64_t engine::StepReport::*amount) {
    const double per_step =
        median_of(run.reports, [&](const auto& r) { return static_cast<double>(r.*amount); });
    return row.times.step_s > 0 ? per_step / row.times.step_s : 0;
  };
  row.samples_per_s = per_s(&engine::StepReport::samples);
  row.tokens_per_s = per_s(&engine::StepReport::tokens);
  return row;
}

/// Seconds of each phase in order of kPhaseRows, then of what is in none.
std::vector<std::pair<std::string, double>> phase_seconds(const PhaseTimes& times) {
  std::vector<std::pair<std::string, double>> seconds;
  for (const engine::PhaseRow& row : kPhaseRows) seconds.emplace_back(row.name, times.*row.seconds);
  seconds.emplace_back("other", engine::other_s(times));
  return seconds;
}

std::string dominating_phase(const PhaseTimes& times, const PhaseTimes& least, double ideal_share) {
  const auto seconds = phase_seconds(times);
  const auto base = phase_seconds(least);
  std::size_t longest = 0;
  std::size_t costliest = 0;
  double most_excess_s = 0;
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    if (seconds[i].second > seconds[longest].second) longest = i;
    const double excess_s = seconds[i].second - base[i].second * ideal_share;
    if (excess_s <= most_excess_s) continue;
    most_excess_s = excess_s;
    costliest = i;
  }
  return seconds[most_excess_s > 0 ? costliest : longest].first;
}

nlohmann::ordered_json times_json(const PhaseTimes& times) {
  nlohmann::ordered_json json{{"step_s", times.step_s}};
  for (const engine::PhaseRow& row : kPhaseRows) json[row.key] = times.*row.seconds;
  json["other_s"] = engine::other_s(times);
  return json;
}

}  // namespace

std::vector<ScalingRow> scaling_rows(const std::vector<ScalingRun>& runs, Scaling scaling,
                                     int cores) {
  std::vector<ScalingRow> rows;
  for (const ScalingRun& run : runs) rows.push_back(measure(run, cores));
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.ranks < b.ranks; });
  for (ScalingRow& row : rows) {
    const ScalingRow& least = rows.front();
    const double gain = least.samples_per_s > 0 ? row.samples_per_s / least.samples_per_s : 0;
    row.speedup = gain * least.ranks;
    row.efficiency = row.speedup / row.ranks;
    const double ideal_share =
        scaling == Scaling::weak ? 1.0 : static_cast<double>(least.ranks) / row.ranks;
    row.dominating_phase = dominating_phase(row.times, least.times, ideal_share);
  }
  return rows;
}

std::string to_json_text(const ScalingRow& row) {
  nlohmann::ordered_json json{{"ranks", row.ranks},
                              {"samples_per_s", row.samples_per_s},
                              {"speedup", row.speedup},
                              {"efficiency", row.efficiency},
                              {"dominating_phase", row.dominating_phase},
                              {"oversubscribed", row.oversubscribed}};
  if (row.tokens_per_s > 0) json["tokens_per_s"] = row.tokens_per_s;
  json.update(times_json(row.times));
  if (row.slowest) {
    json["slowest_rank"] = row.slowest->rank;
    json["slowest_share"] = row.slowest->share();
    json["others_wait_s"] = row.slowest->others_wait_s;
  }
  return to_line(json);
}

std::string scaling_csv(const std::vector<ScalingRow>& rows) {
  std::string csv =
      "ranks,samples_per_s,tokens_per_s,speedup,efficiency,dominating_phase,oversubscribed,step_s";
  for (const engine::PhaseRow& row : kPhaseRows) csv += std::string(",") + row.key;
  csv += ",other_s,slowest_rank,slowest_share,others_wait_s\n";
  for (const ScalingRow& row : rows) {
    csv += std::to_string(row.ranks) + "," + format_fixed(row.samples_per_s, 3) + "," +
           format_fixed(row.tokens_per_s, 3) + "," + format_fixed(row.speedup, 4) + "," +
           format_fixed(row.efficiency, 4) + "," + row.dominating_phase + "," +
           (row.oversubscribed ? "true" : "false") + "," + format_fixed(row.times.step_s, 6);
    for (const auto& [name, seconds] : phase_seconds(row.times)) {
      csv += "," + format_fixed(seconds, 6);
    }
    csv += row.slowest ? "," + std::to_string(row.slowest->rank) + "," +
                             format_fixed(row.slowest->share(), 4) + "," +
                             format_fixed(row.slowest->others_wait_s, 6)
                       : ",,,";
    csv += "\n";
  }
  return csv;
}

}  // namespace lockstep::metrics
