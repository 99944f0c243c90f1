// What rank 0 of a side reports while it times: lines of JSON, of our ranks and of peer programs.
#pragma once
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "lockstep/comm/bench/collective.h"

namespace lockstep::bench {

/// Of several times, in microseconds.
struct Spread {
  double min = 0;
  double median = 0;
  double max = 0;
};

/// The upper of the two in the middle of an even count; 0 of nothing.
[[nodiscard]] double median_of(std::vector<double> values);
[[nodiscard]] Spread spread_of(const std::vector<double>& values);

/// One collective at one size in one round.
struct Sample {
  bool is_theirs = false;  // of the side compared with
  Collective op = Collective::all_reduce;
  std::int64_t bytes = 0;  // moved: Extent::bytes()
  int round = 1;
  Spread time_us;         // on rank 0, from issuing to the end of wait()
  double slowest_us = 0;  // median of what the slowest rank took
};

/// How fast one core hands data to another before a side's part of a round: bench::probe_us().
struct Probe {
  bool is_theirs = false;
  int round = 1;
  double handover_us = 0;  // of 256 KiB; NaN when there is only one core
};

using Report = std::variant<Sample, Probe>;

/// {"side":"ours","op":...} or {"side":"ours","round":1,"probe_us":...}, without the line end.
[[nodiscard]] std::string to_json_text(const Report& report);
/// \throws BadData when it is neither.
[[nodiscard]] Report read_report(const std::string& line);

}  // namespace lockstep::bench
