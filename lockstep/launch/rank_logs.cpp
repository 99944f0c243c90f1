#include "lockstep/launch/rank_logs.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "lockstep/base/file_lock.h"
#include "lockstep/launch/output_pump.h"
#include "lockstep/launch/program.h"

namespace lockstep::launch {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNoFiles = "/dev/null";
constexpr int kMostLaunches = 100'000;  // into one folder under one name

[[noreturn]] void cannot_make(const fs::path& folder, const std::string& why) {
  throw EnvironmentFault({"LS-3005", folder.string(), "the folder of logs cannot be made: " + why,
                          "choose a folder that can be written with --log-dir"});
}

/// A run id is anything; a name of a folder is not.
std::string as_file_name(std::string name) {
  std::replace(name.begin(), name.end(), '/', '_');
  constexpr std::size_t kMostBytes = 200;
  name.resize(std::min(name.size(), kMostBytes));
  return name.empty() || name == "." || name == ".." ? "_" + name : name;
}

/// Makes the first of NAME, NAME_2, NAME_3 ... that does not exist: agents of several hosts may do
/// so in one folder at the same time.
std::string make_new_folder(const fs::path& parent, const std::string& name) {
  std::error_code error;
  fs::create_directories(parent, error);
  if (error) cannot_make(parent, error.message());
  for (int i = 1; i < kMostLaunches; ++i) {
    const fs::path folder = parent / (i == 1 ? name : name + "_" + std::to_string(i));
    if (fs::create_directory(folder, error)) return folder.string();
    if (error) cannot_make(folder, error.message());
  }
  cannot_make(parent / name, "there are too many of this name");
}

/// Whether there is any file below: folders alone say nothing.
bool has_any_file(const fs::path& folder) {
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    if (at->is_regular_file(error)) return true;
  }
  return false;
}

constexpr std::string_view kTemporaryName = "lockstep-launch-";

fs::path temporary_parent() {
  std::error_code error;
  const fs::path parent = fs::temp_directory_path(error);
  return error ? fs::path("/tmp") : parent;
}

/// The process that a temporary folder's name speaks of; 0 = none.
int maker_of(const std::string& name) {
  int pid = 0;
  if (!name.starts_with(kTemporaryName)) return 0;
  const char* const digits = name.data() + kTemporaryName.size();
  const auto [end, error] = std::from_chars(digits, name.data() + name.size(), pid);
  return error == std::errc() && *end == '-' && pid > 0 ? pid : 0;
}

Fd open_folder(const std::string& folder) {
  return Fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
}

/// Takes away what launchers left that were killed. A live one holds its folder's lock, whose
/// process may be invisible from this container; where there are no locks its number has to do.
void remove_abandoned(const fs::path& parent) {
  std::error_code error;
  for (fs::directory_iterator at(parent, error), end; !error && at != end; at.increment(error)) {
    const int maker = maker_of(at->path().filename().string());
    if (maker == 0 || (maker != ::getpid() && ::kill(maker, 0) == 0)) continue;
    const Fd folder = open_folder(at->path().string());
    struct stat owner {};
    if (!folder || ::fstat(folder.get(), &owner) != 0 || owner.st_uid != ::geteuid()) continue;
    std::error_code ignored;
    if (take_lock(folder) && !has_any_file(at->path())) fs::remove_all(at->path(), ignored);
  }
}

/// \returns its path; `lock` is taken. Another launcher may remove it before that: then once more.
std::string make_temporary_folder(Fd& lock) {
  const fs::path parent = temporary_parent();
  remove_abandoned(parent);
  const std::string pattern = std::string(kTemporaryName) + std::to_string(::getpid()) + "-XXXXXX";
  while (true) {
    std::string name = (parent / pattern).string();
    if (::mkdtemp(name.data()) == nullptr) {
      cannot_make(name, std::generic_category().message(errno));
    }
    lock = open_folder(name);
    if (!lock && errno != ENOENT) cannot_make(name, std::generic_category().message(errno));
    struct stat now {};
    const bool is_locked = lock && take_lock(lock) && ::fstat(lock.get(), &now) == 0;
    if (is_locked && now.st_nlink > 0) return name;
  }
}

}  // namespace

LogTree::LogTree(const LaunchOptions& options, const std::string& run_id) : options_(options) {
  if (options.log_dir == kNoFiles) return;
  folder_ = options.log_dir.empty() ? make_temporary_folder(lock_)
                                    : make_new_folder(options.log_dir, as_file_name(run_id));
}

LogTree::~LogTree() {
  std::error_code ignored;
  if (lock_ && !has_any_file(folder_)) fs::remove_all(folder_, ignored);
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
    if (error) cannot_make(of_rank, error.message());
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
                         int base_rank, bool only_stderr)
    : options_(options), only_stderr_(only_stderr) {
  for (int rank = 0; rank < options.nproc_per_node; ++rank) {
    prefixes_.push_back(
        substituted(options.line_prefix, {{"role_name", options.role},
                                          {"local_rank", std::to_string(rank)},
                                          {"rank", std::to_string(base_rank + rank)}}));
  }
  if (!tree.has_files()) return;
  if (!options.stdout_filters.empty()) {
    filtered_[0] = std::make_unique<LogFile>(tree.filtered_file(attempt, false));
  }
  if (!options.stderr_filters.empty()) {
    filtered_[1] = std::make_unique<LogFile>(tree.filtered_file(attempt, true));
  }
}

void RankConsole::write(const OutputLine& line) {
  const int fd = line.is_stderr || only_stderr_ ? STDERR_FILENO : STDOUT_FILENO;
  if (line.is_raw) return write_whole(fd, line.text);
  const std::string text =
      prefixes_.at(static_cast<std::size_t>(line.local_rank)) + line.text + "\n";
  write_whole(fd, text);
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
