#include "lockstep/doctor/watch.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/json_fields.h"
#include "lockstep/base/units.h"
#include "lockstep/comm/records/flight_words.h"

namespace lockstep::doctor {
namespace {

using comm::CollectiveRecord;
using comm::ProcessState;
using comm::RankView;

std::string state_of(const RankView& view) {
  if (view.flight.finished) return "finished";
  switch (view.process.state) {
    case ProcessState::running:
      return "running";
    case ProcessState::stopped:
      return "stopped";
    case ProcessState::gone:
      return "gone";
    case ProcessState::unknown:
      break;
  }
  return "unknown";
}

/// The latest that happened to a collective.
std::int64_t progress_ns(const CollectiveRecord& record) {
  return std::max({record.entered_ns, record.started_ns, record.finished_ns});
}

double seconds_until_now(const RankView& view, std::int64_t then_ns) {
  return std::max(static_cast<double>(view.now_ns - then_ns) * 1e-9, 0.0);
}

std::string collective_of(const RankView& view, const CollectiveRecord& record) {
  return comm::collective_text(record, view.flight.groups[record.group].name);
}

RankRow row_of(const RankView& view) {
  RankRow row;
  row.rank = view.flight.rank;
  row.pid = view.flight.process.pid;
  row.host = view.flight.process.host;
  row.state = state_of(view);
  row.letter = view.process.letter;
  row.phase = name(view.flight.phase);
  row.phase_s = seconds_until_now(view, view.flight.phase_since_ns);
  if (view.flight.records.empty()) return row;
  const CollectiveRecord& last = view.flight.records.back();
  row.last = collective_of(view, last);
  row.last_progress = name(last.state);
  row.age_s = seconds_until_now(view, progress_ns(last));
  return row;
}

/// Cuts `text` at blanks into lines of `width`.
std::vector<std::string> wrapped(const std::string& text, std::size_t width) {
  std::vector<std::string> lines;
  std::size_t at = 0;
  while (text.size() - at > width) {
    std::size_t end = text.rfind(' ', at + width);
    const bool has_blank = end != std::string::npos && end > at;
    if (!has_blank) end = at + width;
    lines.push_back(text.substr(at, end - at));
    at = has_blank ? end + 1 : end;
  }
  lines.push_back(text.substr(at));
  return lines;
}

constexpr std::array<std::size_t, 5> kColumns{6, 9, 12, 11, 10};

std::string table_line(const std::array<std::string, 6>& cells, std::size_t width) {
  std::string line;
  for (std::size_t i = 0; i < kColumns.size(); ++i) {
    std::string cell = cells.at(i);
    cell.resize(std::max(cell.size() + 1, kColumns.at(i)), ' ');
    line += cell;
  }
  line += cells.back();
  if (line.size() > width) line.resize(width);
  return line;
}

std::array<std::string, 6> cells_of(const RankRow& row) {
  const std::string letter = row.state == "stopped" ? std::string(" ") + row.letter : "";
  std::string last =
      row.last.empty() ? "none yet"
                       : row.last_progress + " " + format_duration(row.age_s) + " ago: " + row.last;
  return {std::to_string(row.rank),     std::to_string(row.pid), row.state + letter, row.phase,
          format_duration(row.phase_s), std::move(last)};
}

}  // namespace

WatchReport report_on(const comm::FlightFolder& folder) {
  WatchReport report;
  report.verdict = comm::judge(folder.views);
  report.notes = folder.notes;
  for (const RankView& view : folder.views) report.rows.push_back(row_of(view));
  report.is_over = std::all_of(report.rows.begin(), report.rows.end(), [](const RankRow& row) {
    return row.state == "finished" || row.state == "gone";
  });
  return report;
}

WatchReport watch_once(const std::filesystem::path& run_dir) {
  const comm::FlightFolder folder = comm::look_at_folder(run_dir / "flight");
  if (folder.views.empty()) {
    std::string what = "there is no " + (run_dir / "flight/rank-<rank>.ring").string();
    for (const std::string& note : folder.notes) what += "; " + note;
    throw UsageError({{"LS-4022", run_dir.string(), what,
                       "name the run directory of a job that `lockstep train` started; its ranks "
                       "make these files once they have met"}});
  }
  return report_on(folder);
}

std::string to_json_text(const WatchReport& report) {
  using json = nlohmann::ordered_json;
  const comm::Verdict& v = report.verdict;
  json verdict{
      {"kind", name(v.kind)}, {"is_wrong", v.is_wrong()}, {"text", v.text}, {"ranks", v.ranks}};
  if (!v.group.empty()) {
    verdict["collective"] = {
        {"group", v.group}, {"op", v.op}, {"sequence", v.sequence}, {"site", v.site}};
  }
  json ranks = json::array();
  for (const RankRow& row : report.rows) {
    json entry{{"rank", row.rank},
               {"pid", row.pid},
               {"host", row.host},
               {"state", row.state},
               {"process_state", std::string(1, row.letter)},
               {"phase", row.phase},
               {"phase_s", row.phase_s}};
    if (!row.last.empty()) {
      entry["last"] = {
          {"collective", row.last}, {"state", row.last_progress}, {"age_s", row.age_s}};
    }
    ranks.push_back(std::move(entry));
  }
  return to_line(json{{"verdict", std::move(verdict)},
                      {"ranks", std::move(ranks)},
                      {"notes", report.notes},
                      {"is_over", report.is_over}});
}

std::vector<std::string> to_lines(const WatchReport& report, std::size_t width) {
  std::vector<std::string> lines = wrapped(report.verdict.text, width);
  lines.emplace_back();
  lines.push_back(table_line({"rank", "pid", "state", "phase", "since", "last collective"}, width));
  for (const RankRow& row : report.rows) lines.push_back(table_line(cells_of(row), width));
  for (const std::string& note : report.notes) {
    for (std::string& line : wrapped("note: " + note, width)) lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace lockstep::doctor
