// What `lockstep doctor watch` sees of a job: the verdict, and what each rank does.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/comm/records/flight_folder.h"

namespace lockstep::doctor {

/// One rank at one moment.
struct RankRow {
  int rank = 0;
  std::int64_t pid = 0;
  std::string host{};
  std::string state{};  // "running", "stopped", "gone", "unknown"; "finished" at its planned end
  char letter = '?';    // of /proc/<pid>/stat
  std::string phase{};
  double phase_s = 0;
  std::string last{};           // "all_reduce #812 of group dp (bucket 4: ..)"; empty = none
  std::string last_progress{};  // "entered", "started", "completed", "failed"
  double age_s = 0;             // since that progress
};

struct WatchReport {
  comm::Verdict verdict{};
  std::vector<RankRow> rows{};       // in order of rank
  std::vector<std::string> notes{};  // files that cannot be read
  bool is_over = false;              // no rank runs any more
};

/// Reads the flight files of `run_dir` once. \throws UsageError (LS-4022) naming what it looked for
/// when there are none.
[[nodiscard]] WatchReport watch_once(const std::filesystem::path& run_dir);

/// The report over ranks that were looked at already.
[[nodiscard]] WatchReport report_on(const comm::FlightFolder& folder);

/// {"verdict":{...},"ranks":[...],"notes":[...],"is_over"} on one line.
[[nodiscard]] std::string to_json_text(const WatchReport& report);

/// The verdict, wrapped, and a table with a line per rank: none longer than `width` columns.
[[nodiscard]] std::vector<std::string> to_lines(const WatchReport& report, std::size_t width);

}  // namespace lockstep::doctor
