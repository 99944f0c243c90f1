// All rounds of one rank count put together: a row for each collective and size.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/comm/bench/sample.h"

namespace lockstep::bench {

/// All that was reported by one or both sides.
struct Measured {
  int ranks = 1;
  std::string backend;
  std::string against;   // empty = nobody
  bool crowded = false;  // more ranks than cores: they take turns
  std::vector<Sample> samples;
  std::vector<Probe> probes;
  bool symmetric = false;  // ours were in symmetric memory
};

/// Medians of one round.
struct RoundRow {
  std::string regime;  // "near", "far", "unknown"; "mixed" when it was another for the other side
  double probe_us = 0;
  double median_us = 0;
  double against_us = 0;  // 0 = nobody to compare with
  double against_probe_us = 0;
};

struct Row {
  Collective op = Collective::all_reduce;
  std::string backend;
  int ranks = 1;
  bool crowded = false;
  bool symmetric = false;
  std::int64_t bytes = 0;
  Spread time_us;          // least of all, median of the rounds' medians, most of all
  double slowest_us = 0;   // median of the rounds
  double algbw_gbs = 0;    // bytes / median; 1 GB = 1e9 bytes
  double busbw_gbs = 0;    // algbw x bus_factor()
  std::string regime;      // of all rounds, or "mixed"
  std::string against;     // empty = nobody, or this is the other side's own row
  Spread against_time_us;  // as time_us
  double ratio = 0;        // ours / theirs: median of the rounds' ratios
  std::vector<RoundRow> rounds;
};

/// Rows of ours and of theirs, both in the order they were reported. A size that one side lacks is
/// a bug.
struct Rows {
  std::vector<Row> ours;
  std::vector<Row> theirs;
};
[[nodiscard]] Rows rows_of(const Measured& measured);

/// {"op","backend","ranks","bytes","time_us":{...},"algbw_gbs","busbw_gbs",...} on one line.
[[nodiscard]] std::string to_json_text(const Row& row);

}  // namespace lockstep::bench
