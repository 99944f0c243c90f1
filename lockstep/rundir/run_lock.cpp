#include "lockstep/rundir/run_lock.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <system_error>

#include "lockstep/base/error.h"
#include "lockstep/base/file_lock.h"
#include "lockstep/rundir/start.h"

namespace lockstep::rundir {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLockName = "lock";
constexpr const char* kCheckpointKey = "checkpoint.dir";

/// "pid 4711 on host7", as the holder wrote it.
std::string this_process() {
  std::array<char, 256> host{};
  const bool known = ::gethostname(host.data(), host.size() - 1) == 0;
  return "pid " + std::to_string(::getpid()) + (known ? " on " + std::string(host.data()) : "");
}

std::string read_holder(int fd) {
  std::array<char, 300> text{};
  const ssize_t n = ::pread(fd, text.data(), text.size(), 0);
  std::string holder(text.data(), n > 0 ? static_cast<std::size_t>(n) : 0);
  holder.resize(std::min(holder.size(), holder.find('\n')));
  return holder.starts_with("pid ") ? holder : "another process";
}

void write_holder(int fd) {
  const std::string text = this_process() + "\n";
  const bool done = ::ftruncate(fd, 0) == 0 &&
                    ::pwrite(fd, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size());
  (void)done;  // the lock holds without a name in it
}

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (!error) return;
  throw EnvironmentFault({"LS-3051", folder.string(),
                          "the folder of the checkpoints cannot be made: " + error.message(),
                          "choose a writable place with checkpoint.dir"});
}

}  // namespace

RunLock::RunLock(const fs::path& folder, const std::string& named_by) {
  const fs::path file = folder / kLockName;
  fd_ = Fd(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW, 0644));
  struct stat status {};
  const bool opened = fd_ && ::fstat(fd_.get(), &status) == 0;
  if (!opened || !S_ISREG(status.st_mode)) {
    const std::string why = opened ? "is not a regular file" : "cannot be made: ";
    throw EnvironmentFault({"LS-3051", file.string(),
                            opened ? why : why + std::generic_category().message(errno),
                            "choose a writable place with " + named_by});
  }
  if (take_lock(fd_)) {
    write_holder(fd_.get());
    return;
  }
  const std::string what =
      named_by == kCheckpointKey ? "the folder of the checkpoints" : "the run directory";
  throw UsageError(
      {{"LS-1031", folder.string(), what + " is in use by " + read_holder(fd_.get()),
        "wait until that run ends or stop it, or name another folder with " + named_by +
            (named_by == kCheckpointKey ? "" : " (without it each run makes a new one)")}});
}

std::vector<RunLock> lock_folders(const planner::Job& job) {
  std::vector<RunLock> locks;
  locks.emplace_back(job.run_dir);
  if (job.config.checkpoint.dir.empty()) {  // a job that began before this run may save there
    const fs::path own = checkpoints_dir(job);
    std::error_code missing;
    if (fs::exists(own / kLockName, missing)) locks.emplace_back(own, kCheckpointKey);
    return locks;
  }
  const auto lock = [&](const fs::path& folder) {
    std::error_code missing;
    if (fs::equivalent(folder, job.run_dir, missing)) return;  // a second one would be refused
    locks.emplace_back(folder, kCheckpointKey);
  };
  make_folder(checkpoints_dir(job));
  std::error_code missing;
  const fs::path checkpoints = fs::canonical(checkpoints_dir(job), missing);
  lock(checkpoints_dir(job));
  // The run in the folder above keeps its checkpoints here, and locks that folder alone.
  const fs::path above = checkpoints.parent_path();
  if (checkpoints.filename() == "checkpoints" && fs::exists(above / kLockName, missing)) {
    lock(above);
  }
  return locks;
}

}  // namespace lockstep::rundir
