// What the ranks of `bench checkpoint` are to time, and what they report: lines of JSON between the
// front, the ranks and the peer program.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::checkpoint {

struct BenchRequest {
  std::string dir;                             // a folder for the files; on the disk in question
  std::int64_t bytes = std::int64_t{1} << 30;  // of all ranks together
  int rounds = 1;
  int first_round = 1;
  bool operator==(const BenchRequest&) const = default;
};

[[nodiscard]] std::string to_json_text(const BenchRequest& request);
/// \throws BadData when the text is not a request.
[[nodiscard]] BenchRequest bench_request_from(const std::string& json);

/// What is timed. All ranks start together, and a time is that of the last one.
enum class BenchPart : std::uint8_t {
  disk_write,   // the same bytes past the page cache, one file a rank, flushed: what the disk gives
  save,         // until all of it is on the disk under its final name
  load,         // of files that are in the page cache, checksums compared
  async_stall,  // until training may go on while a save is written behind it
  async_save,   // until that one is on the disk
};
inline constexpr int kBenchParts = 5;
[[nodiscard]] std::string_view name_of(BenchPart part);  // "disk write"

struct BenchSample {
  BenchPart part = BenchPart::save;
  int round = 1;
  double seconds = 0;
  bool operator==(const BenchSample&) const = default;
};

/// {"part":"save","round":1,"seconds":1.25} on one line.
[[nodiscard]] std::string to_json_text(const BenchSample& sample);
/// \throws BadData when the text is no sample.
[[nodiscard]] BenchSample bench_sample_from(const std::string& json);

}  // namespace lockstep::checkpoint
