#include "lockstep/checkpoint/bench/rows.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

namespace lockstep::checkpoint {
namespace {

/// Seconds of one part by round.
using Rounds = std::map<int, double>;

Rounds rounds_of(const BenchSide& side, BenchPart part) {
  Rounds rounds;
  for (const BenchSample& sample : side.samples) {
    if (sample.part == part) rounds[sample.round] = sample.seconds;
  }
  return rounds;
}

double median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Median over the rounds that both have of what `above` took for each second of `below`.
double ratio(const Rounds& above, const Rounds& below) {
  std::vector<double> ratios;
  for (const auto& [round, seconds] : above) {
    const auto other = below.find(round);
    if (other != below.end() && other->second > 0) ratios.push_back(seconds / other->second);
  }
  return median_of(std::move(ratios));
}

BenchRow row_of(BenchPart part, const std::string& backend, const Rounds& rounds) {
  std::vector<double> seconds;
  for (const auto& [round, taken] : rounds) seconds.push_back(taken);
  BenchRow row;
  row.part = part;
  row.backend = backend;
  row.min_s = *std::min_element(seconds.begin(), seconds.end());
  row.max_s = *std::max_element(seconds.begin(), seconds.end());
  row.median_s = median_of(seconds);
  return row;
}

}  // namespace

std::vector<BenchRow> bench_rows(const BenchSide& ours, const BenchSide& theirs, int ranks,
                                 std::int64_t bytes) {
  std::vector<BenchRow> rows;
  for (int i = 0; i < kBenchParts; ++i) {
    const auto part = static_cast<BenchPart>(i);
    const Rounds mine = rounds_of(ours, part);
    const Rounds others = rounds_of(theirs, part);
    if (!mine.empty()) {
      BenchRow row = row_of(part, ours.backend, mine);
      row.times_as_fast = ratio(others, mine);
      if (part == BenchPart::save || part == BenchPart::async_save) {
        row.share_of_disk = ratio(rounds_of(ours, BenchPart::disk_write), mine);
      }
      if (part == BenchPart::async_stall) {
        row.share_of_save = ratio(mine, rounds_of(ours, BenchPart::save));
      }
      rows.push_back(row);
    }
    if (!others.empty()) rows.push_back(row_of(part, theirs.backend, others));
  }
  for (BenchRow& row : rows) {
    row.ranks = ranks;
    row.bytes = bytes;
    row.gb_per_s = row.median_s > 0 ? static_cast<double>(bytes) / row.median_s / 1e9 : 0;
  }
  return rows;
}

std::string to_json_text(const BenchRow& row) {
  nlohmann::ordered_json json{
      {"part", name_of(row.part)},
      {"backend", row.backend},
      {"ranks", row.ranks},
      {"bytes", row.bytes},
      {"time_us",
       {{"min", row.min_s * 1e6}, {"median", row.median_s * 1e6}, {"max", row.max_s * 1e6}}},
      {"gbs", row.gb_per_s}};
  if (row.share_of_disk > 0) json["share_of_disk"] = row.share_of_disk;
  if (row.share_of_save > 0) json["share_of_save"] = row.share_of_save;
  if (row.times_as_fast > 0) json["times_as_fast"] = row.times_as_fast;
  return json.dump();
}

}  // namespace lockstep::checkpoint
