#include "lockstep/launch/rank_logs.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "lockstep/launch/program.h"
#include "lockstep/launch/temporary_logs.h"

namespace lockstep::launch {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNoFiles = "/dev/null";
constexpr int kMostLaunches = 100'000;  // into one folder under one name

/// A run id is anything; a name of a folder is not.
std::string as_file_name(std::string name) {
  std::replace(name.begin(), name.end(), '/', '_');
  constexpr std::size_t kMostBytes = 200;
  name.resize(std::min(name.size(), kMostBytes));
  return name.empty() || name == "." || name == ".." ? "_" + name : name;
}

/// Makes the first of NAME, NAME_2, NAME_3 ... that does not exist: agents of several hosts may do
/// so in one folder at the same time.
std::string make_new_folder(const fs::path& named, const std::string& name) {
  std::error_code error;
  // A rank that goes to another folder must find its error file all the same.
  const fs::path whole = fs::absolute(named, error);
  const fs::path parent = error ? named : whole;
  fs::create_directories(parent, error);
  if (error) cannot_make_logs(parent, error.message());
  for (int i = 1; i < kMostLaunches; ++i) {
    const fs::path folder = parent / (i == 1 ? name : name + "_" + std::to_string(i));
    if (fs::create_directory(folder, error)) return folder.string();
    if (error) cannot_make_logs(folder, error.message());
  }
  cannot_make_logs(parent / name, "there are too many of this name");
}

}  // namespace

LogTree::LogTree(const LaunchOptions& options, const std::string& run_id) : options_(options) {
  if (options.log_dir == kNoFiles) return;
  if (!options.log_dir.empty()) {
    folder_ = make_new_folder(options.log_dir, as_file_name(run_id));
    return;
  }
  try {
    TemporaryLogs made = make_temporary_logs();
    folder_ = std::move(made.folder);
    lock_ = std::move(made.lock);
  } catch (const EnvironmentFault& fault) {
    if (options.redirects.any() || options.tee.any()) throw;
    const Problem& problem = fault.problems().front();
    missing_ = "ranks leave no error files: " + problem.where + ": " + problem.what;
  }
}

LogTree::~LogTree() {
  std::error_code ignored;
  const bool has_use = has_output() || !succeeded_;
  if (is_temporary() && !(has_use && has_any_file(folder_))) fs::remove_all(folder_, ignored);
}

bool LogTree::has_output() const {
  return has_files() && (options_.redirects.any() || options_.tee.any());
}

std::string LogTree::filtered_file(int attempt, bool is_stderr) const {
  return folder_ + "/attempt_" + std::to_string(attempt) +
         (is_stderr ? "/filtered_stderr.log" : "/filtered_stdout.log");
}

std::vector<RankLogs> LogTree::make_attempt(int attempt, int ranks) {
  const fs::path folder = fs::path(folder_) / ("attempt_" + std::to_string(attempt));
  std::error_code error;
  if (has_files()) fs::remove_all(folder, error);
  std::vector<RankLogs> logs;
  for (int rank = 0; rank < ranks; ++rank) {
    const fs::path of_rank = folder / std::to_string(rank);
    if (has_files()) fs::create_directories(of_rank, error);
    if (error) cannot_make_logs(of_rank, error.message());
    logs.push_back({stream(kStdout, rank, (of_rank / "stdout.log").string()),
                    stream(kStderr, rank, (of_rank / "stderr.log").string()),
                    has_files() ? (of_rank / "error.json").string() : ""});
  }
  return logs;
}

StreamLog LogTree::stream(unsigned bit, int local_rank, const std::string& file) const {
  const bool is_redirected = (options_.redirects.of(local_rank) & bit) != 0;
  const bool is_teed = (options_.tee.of(local_rank) & bit) != 0;
  const auto& filter = options_.local_ranks_filter;
  const bool is_seen = filter.empty() || filter.contains(local_rank);
  StreamLog log;
  if (has_files() && (is_redirected || is_teed)) log.file = file;
  log.shown = is_teed ? StreamLog::Shown::lines : StreamLog::Shown::raw;
  if (!is_seen || (is_redirected && !is_teed)) log.shown = StreamLog::Shown::no;
  return log;
}

std::vector<RankLogs> planned_logs(const LaunchOptions& options, const std::string& run_id) {
  std::vector<RankLogs> logs;
  if (options.log_dir.empty() || options.log_dir == kNoFiles) return logs;
  const fs::path folder = fs::path(options.log_dir) / as_file_name(run_id) / "attempt_0";
  for (int rank = 0; rank < options.nproc_per_node; ++rank) {
    logs.push_back({{}, {}, (folder / std::to_string(rank) / "error.json").string()});
  }
  return logs;
}

RankConsole::RankConsole(const LaunchOptions& options, const LogTree& tree, int attempt,
                         int base_rank, LostOutput& lost, bool only_stderr)
    : options_(options), lost_(lost), only_stderr_(only_stderr) {
  for (int rank = 0; rank < options.nproc_per_node; ++rank) {
    prefixes_.push_back(
        substituted(options.line_prefix, {{"role_name", options.role},
                                          {"local_rank", std::to_string(rank)},
                                          {"rank", std::to_string(base_rank + rank)}}));
  }
  if (!tree.has_files()) return;
  if (!options.stdout_filters.empty()) {
    filtered_[0] = std::make_unique<LogFile>(tree.filtered_file(attempt, false), lost);
  }
  if (!options.stderr_filters.empty()) {
    filtered_[1] = std::make_unique<LogFile>(tree.filtered_file(attempt, true), lost);
  }
}

void RankConsole::write(const OutputLine& line) {
  const int fd = line.is_stderr || only_stderr_ ? STDERR_FILENO : STDOUT_FILENO;
  if (line.is_raw) return lost_.write(fd, line.text);
  const std::string text =
      prefixes_.at(static_cast<std::size_t>(line.local_rank)) + line.text + "\n";
  lost_.write(fd, text);
  write_filtered(line, text);
}

void RankConsole::write_filtered(const OutputLine& line, const std::string& text) {
  const auto& file = filtered_[line.is_stderr ? 1 : 0];
  if (file == nullptr) return;
  const auto& filters = line.is_stderr ? options_.stderr_filters : options_.stdout_filters;
  const bool is_wanted = std::any_of(filters.begin(), filters.end(), [&](const std::string& word) {
    return line.text.find(word) != std::string::npos;
  });
  if (is_wanted) file->feed(text);
}

}  // namespace lockstep::launch
