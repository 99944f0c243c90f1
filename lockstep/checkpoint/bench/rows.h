// What `bench checkpoint` measured, put together: a row for each part and side.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/checkpoint/bench/request.h"

namespace lockstep::checkpoint {

/// Samples of one side: ours, or "torch".
struct BenchSide {
  std::string backend;  // "lockstep", "torch"
  std::vector<BenchSample> samples;
};

struct BenchRow {
  BenchPart part = BenchPart::save;
  std::string backend;
  int ranks = 1;
  std::int64_t bytes = 0;
  double min_s = 0;
  double median_s = 0;
  double max_s = 0;
  double gb_per_s = 0;       // bytes / median; 1 GB = 1e9 bytes
  double share_of_disk = 0;  // of a save: its rate / that of disk writes, median of the rounds
  double share_of_save = 0;  // of a stall: its time / that of a save, median of the rounds
  double times_as_fast = 0;  // of ours beside another side: median of the rounds; 0 = nobody
};

/// In the order of BenchPart, ours before theirs. Parts that were not timed have no row.
[[nodiscard]] std::vector<BenchRow> bench_rows(const BenchSide& ours, const BenchSide& theirs,
                                               int ranks, std::int64_t bytes);

/// {"part","backend","ranks","bytes","time_us":{min,median,max},"gbs",...} on one line.
[[nodiscard]] std::string to_json_text(const BenchRow& row);

}  // namespace lockstep::checkpoint
