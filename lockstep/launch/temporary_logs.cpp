#include "lockstep/launch/temporary_logs.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/file_lock.h"
#include "lockstep/topology/proc_text.h"

namespace lockstep::launch {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kName = "lockstep-launch-";
constexpr std::size_t kMostRemoved = 500;  // at one start: it is not to wait for long

fs::path temporary_parent() {
  std::error_code error;
  const fs::path parent = fs::temp_directory_path(error);
  return error ? fs::path("/tmp") : parent;
}

/// The process that a temporary folder's name speaks of; 0 = none.
int maker_of(const std::string& name) {
  int pid = 0;
  if (!name.starts_with(kName)) return 0;
  const char* const digits = name.data() + kName.size();
  const auto [end, error] = std::from_chars(digits, name.data() + name.size(), pid);
  return error == std::errc() && *end == '-' && pid > 0 ? pid : 0;
}

/// Numbers are given again, and another container has its own: only a program of ours counts.
bool is_a_launcher(int pid) {
  return pid != ::getpid() &&
         read_small_file("/proc/" + std::to_string(pid) + "/comm").starts_with("lockstep");
}

Fd open_folder(const std::string& folder) {
  return Fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
}

/// A folder of an earlier launch that nobody uses: its lock is held here.
struct Kept {
  fs::path path;
  Fd lock;
  bool has_files = false;
  bool has_output = false;                                // beside what ranks said of their errors
  fs::file_time_type newest = fs::file_time_type::min();  // of its files
};

void look_into(Kept& kept) {
  std::error_code error;
  for (fs::recursive_directory_iterator at(kept.path, error), end; !error && at != end;
       at.increment(error)) {
    if (!at->is_regular_file(error)) continue;
    kept.has_files = true;
    kept.has_output = kept.has_output || at->path().filename() != "error.json";
    const auto time = at->last_write_time(error);
    if (!error) kept.newest = std::max(kept.newest, time);
  }
}

/// A live launcher holds its folder's lock, though its process may be invisible from this
/// container; where there are no locks its number has to do.
std::vector<Kept> kept_folders(const fs::path& parent) {
  std::vector<Kept> list;
  std::error_code error;
  for (fs::directory_iterator at(parent, error), end;
       !error && at != end && list.size() < kMostRemoved; at.increment(error)) {
    const int maker = maker_of(at->path().filename().string());
    if (maker == 0 || is_a_launcher(maker)) continue;
    Fd folder = open_folder(at->path().string());
    struct stat owner {};
    if (!folder || ::fstat(folder.get(), &owner) != 0 || owner.st_uid != ::geteuid()) continue;
    if (!take_lock(folder)) continue;
    list.push_back({at->path(), std::move(folder)});
    look_into(list.back());
  }
  return list;
}

void remove_old(const fs::path& parent) {
  std::vector<Kept> list = kept_folders(parent);
  std::sort(list.begin(), list.end(),
            [](const Kept& a, const Kept& b) { return a.newest > b.newest; });
  const auto oldest =
      fs::file_time_type::clock::now() - std::chrono::hours(24 * kDaysOfTemporaryLogs);
  std::size_t of_errors = 0;
  for (const Kept& kept : list) {
    if (!kept.has_output && kept.has_files) ++of_errors;
    const bool stays = kept.has_files && kept.newest >= oldest &&
                       (kept.has_output || of_errors <= kMostTemporaryLogs);
    std::error_code ignored;
    if (!stays) fs::remove_all(kept.path, ignored);
  }
}

}  // namespace

void cannot_make_logs(const fs::path& folder, const std::string& why) {
  throw EnvironmentFault({"LS-3005", folder.string(), "the folder of logs cannot be made: " + why,
                          "choose a folder that can be written with --log-dir"});
}

bool has_any_file(const fs::path& folder) {
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    if (at->is_regular_file(error)) return true;
  }
  return false;
}

TemporaryLogs make_temporary_logs() {
  const fs::path parent = temporary_parent();
  remove_old(parent);
  const std::string pattern = std::string(kName) + std::to_string(::getpid()) + "-XXXXXX";
  while (true) {  // another launcher may remove the folder before its lock is taken: then once more
    std::string name = (parent / pattern).string();
    if (::mkdtemp(name.data()) == nullptr) {
      cannot_make_logs(name, std::generic_category().message(errno));
    }
    Fd lock = open_folder(name);
    if (!lock && errno != ENOENT) cannot_make_logs(name, std::generic_category().message(errno));
    struct stat now {};
    const bool is_locked = lock && take_lock(lock) && ::fstat(lock.get(), &now) == 0;
    if (is_locked && now.st_nlink > 0) return {std::move(name), std::move(lock)};
  }
}

}  // namespace lockstep::launch
