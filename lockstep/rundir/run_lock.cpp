#include "lockstep/rundir/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <system_error>

#include "lockstep/base/error.h"

namespace lockstep::rundir {
namespace {

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

}  // namespace

RunLock::RunLock(const std::filesystem::path& run_dir) {
  const std::filesystem::path file = run_dir / "lock";
  fd_ = Fd(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW, 0644));
  struct stat status {};
  const bool opened = fd_ && ::fstat(fd_.get(), &status) == 0;
  if (!opened || !S_ISREG(status.st_mode)) {
    const std::string why = opened ? "is not a regular file" : "cannot be made: ";
    throw EnvironmentFault({"LS-3051", file.string(),
                            opened ? why : why + std::generic_category().message(errno),
                            "choose a writable place with --run-dir"});
  }
  const bool held = ::flock(fd_.get(), LOCK_EX | LOCK_NB) == 0;
  if (held) write_holder(fd_.get());
  if (held || errno != EWOULDBLOCK) return;  // other errors: no locks on this file system
  throw UsageError(
      {{"LS-1031", run_dir.string(), "the run directory is in use by " + read_holder(fd_.get()),
        "wait until that run ends or stop it, or name another folder with --run-dir "
        "(without --run-dir each run makes a new one)"}});
}

}  // namespace lockstep::rundir
