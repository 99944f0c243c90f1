// Where the ranks' output goes: torchrun's tree of files, and lines on this terminal.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/fd.h"
#include "lockstep/launch/launch_options.h"
#include "lockstep/launch/local_job.h"
#include "lockstep/launch/log_file.h"

namespace lockstep::launch {

/// The folder of one launch: <log_dir>/<run_id>, or <run_id>_2 and so on where an earlier launch
/// has left that one. Without a log_dir it is a temporary one (temporary_logs.h) that goes when
/// nothing was left in it, or only what ranks said of errors in a job that ended well. "/dev/null"
/// as log_dir: no files at all.
class LogTree {
 public:
  /// \throws EnvironmentFault when the folder cannot be made and ranks' output is to go there.
  LogTree(const LaunchOptions& options, const std::string& run_id);
  LogTree(const LogTree&) = delete;
  LogTree& operator=(const LogTree&) = delete;
  ~LogTree();

  [[nodiscard]] const std::string& folder() const { return folder_; }
  /// Whether files of output are written there, beside what ranks say of their errors.
  [[nodiscard]] bool has_output() const;
  /// <folder>/attempt_<n>/<local_rank>/{stdout.log,stderr.log,error.json}. Empties the folder of
  /// that attempt and makes it.
  [[nodiscard]] std::vector<RankLogs> make_attempt(int attempt, int ranks);
  /// <folder>/attempt_<n>/filtered_{stdout,stderr}.log.
  [[nodiscard]] std::string filtered_file(int attempt, bool is_stderr) const;
  [[nodiscard]] bool has_files() const { return !folder_.empty(); }
  /// Why there are no files where none were refused: no temporary folder can be made, and ranks do
  /// without. Empty = there are, or none were wanted.
  [[nodiscard]] const std::string& missing() const { return missing_; }
  [[nodiscard]] bool is_temporary() const { return static_cast<bool>(lock_); }
  /// The job has ended well.
  void set_succeeded() { succeeded_ = true; }

 private:
  [[nodiscard]] StreamLog stream(unsigned bit, int local_rank, const std::string& file) const;

  const LaunchOptions& options_;
  std::string folder_;
  Fd lock_;  // of a temporary folder: it is in use
  bool succeeded_ = false;
  std::string missing_;
};

/// Where ranks of a first attempt would write, when --log-dir names a folder: nothing is made.
[[nodiscard]] std::vector<RankLogs> planned_logs(const LaunchOptions& options,
                                                 const std::string& run_id);

/// Writes the ranks' lines to this process's streams as torchrun does: lines of --tee behind a
/// prefix, others as they are. One thread.
class RankConsole {
 public:
  /// \param base_rank of this host. \param lost takes what cannot be written. \param only_stderr
  /// standard output is for something else.
  RankConsole(const LaunchOptions& options, const LogTree& tree, int attempt, int base_rank,
              LostOutput& lost, bool only_stderr = false);
  void write(const OutputLine& line);

 private:
  void write_filtered(const OutputLine& line, const std::string& text);

  std::vector<std::string> prefixes_;  // by local rank
  const LaunchOptions& options_;
  LostOutput& lost_;
  bool only_stderr_;
  std::unique_ptr<LogFile> filtered_[2];  // stdout, stderr
};

}  // namespace lockstep::launch
