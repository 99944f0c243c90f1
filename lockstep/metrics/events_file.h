// RUN_DIR/events.jsonl and RUN_DIR/summary.json: what a run leaves for people and programs.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

#include "lockstep/base/fd.h"
#include "lockstep/engine/values/run_summary.h"

namespace lockstep::metrics {

/// Appends lines, each by one write, so that a reader never sees half of one and a crash loses at
/// most the last. Not synchronised to disk: the checkpoint is what a run goes on from.
class EventsFile {
 public:
  /// Opens `file` for the run that goes on after `resumed_step` (0 = from the start): lines of
  /// later steps and a torn last line are cut off. \throws EnvironmentFault when the file cannot be
  /// opened or written.
  EventsFile(std::filesystem::path file, std::int64_t resumed_step);

  /// \param line one JSON object without a line end. \throws EnvironmentFault (disk full).
  void append(const std::string& line);

 private:
  std::filesystem::path file_;
  Fd fd_;
};

/// Writes `run_dir`/summary.json, whole or not at all. \throws EnvironmentFault.
void write_summary(const std::filesystem::path& run_dir, const engine::RunSummary& summary);

/// Writes `text` to `file`, whole or not at all. \throws EnvironmentFault.
void write_whole_file(const std::filesystem::path& file, const std::string& text);

}  // namespace lockstep::metrics
