#include "lockstep/launch/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <span>
#include <sstream>
#include <utility>

#include "lockstep/base/blocked_signals.h"
#include "lockstep/base/error.h"
#include "lockstep/launch/start_trouble.h"

namespace lockstep::launch {
namespace {

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> list;
  for (const auto& text : texts)
    list.push_back(const_cast<char*>(text.c_str()));  // execve's signature
  list.push_back(nullptr);
  return list;
}

/// Everything the new process needs, made before fork(): after it only async-signal-safe calls are
/// allowed.
struct Prepared {
  const char* program;
  char* const* argv;
  char* const* environment;
  std::array<int, 4> fds;  // what becomes 0, 1, 2, 3; -1 = nothing
  int error_fd;            // takes errno when something fails; closes on success
  pid_t parent;
  std::span<const unsigned long> cpu_mask;  // empty = as this process
  bool own_session;
  std::uint64_t open_files;  // soft limit; 0 = as this process
  int gate_fd;               // readable once the program may run
};

/// As sched_setaffinity(2) takes it, however many processors there are.
std::vector<unsigned long> mask_of(const std::vector<int>& cpus) {
  constexpr int kBits = std::numeric_limits<unsigned long>::digits;
  std::vector<unsigned long> mask;
  for (const int cpu : cpus) {
    const auto word = static_cast<std::size_t>(cpu / kBits);
    if (word >= mask.size()) mask.resize(word + 1);
    mask[word] |= 1UL << (cpu % kBits);
  }
  return mask;
}

[[noreturn]] void report_and_exit(int error_fd) {
  const int code = errno;
  [[maybe_unused]] const auto written = ::write(error_fd, &code, sizeof code);
  ::_exit(127);
}

/// Moves the descriptors to their places; all are above the places first, so none is overwritten.
int place_descriptors(Prepared& prepared) {
  constexpr int kAbove = 16;
  for (int& fd : prepared.fds) {
    if (fd >= 0 && (fd = ::fcntl(fd, F_DUPFD_CLOEXEC, kAbove)) < 0) return -1;
  }
  prepared.error_fd = ::fcntl(prepared.error_fd, F_DUPFD_CLOEXEC, kAbove);
  if (prepared.error_fd < 0) return -1;
  for (int place = 0; place < 4; ++place) {
    const int fd = prepared.fds.at(static_cast<std::size_t>(place));
    if (fd >= 0 && ::dup2(fd, place) < 0) return -1;
  }
  const int first_unused = prepared.fds[3] >= 0 ? 4 : 3;
  constexpr int kCloseRangeCloexec = 1 << 2;
  // Descriptors somebody opened without O_CLOEXEC must not keep ports and pipes open in a rank.
  ::syscall(SYS_close_range, first_unused, ~0U, kCloseRangeCloexec);
  return 0;
}

/// This process's handlers must not run in the child before its exec. What nohup ignores stays
/// ignored.
void restore_default(int number) {
  struct sigaction action {};
  ::sigaction(number, nullptr, &action);
  const bool ignored_by_us = number == SIGPIPE || number == SIGXFSZ;
  if (action.sa_handler != SIG_IGN || ignored_by_us) ::signal(number, SIG_DFL);
}

/// Programs that use select() break where a descriptor may be above 1023, so that what this process
/// raised for itself must not be inherited.
void limit_open_files(std::uint64_t soft) {
  rlimit limit{};
  if (soft == 0 || ::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = std::min<rlim_t>(soft, limit.rlim_max);
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

[[noreturn]] void become(Prepared prepared) {
  if (prepared.own_session) {
    ::setsid();
  } else {
    ::setpgid(0, 0);
  }
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != prepared.parent) ::_exit(127);  // it died before the line above
  char go = 0;
  while (::read(prepared.gate_fd, &go, 1) < 0 && errno == EINTR) {
  }
  for (int number = 1; number < SIGRTMIN; ++number) restore_default(number);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  if (place_descriptors(prepared) != 0) report_and_exit(prepared.error_fd);
  if (!prepared.cpu_mask.empty() &&
      ::syscall(SYS_sched_setaffinity, 0, prepared.cpu_mask.size_bytes(),
                prepared.cpu_mask.data()) < 0) {
    report_and_exit(prepared.error_fd);
  }
  limit_open_files(prepared.open_files);
  ::execve(prepared.program, prepared.argv, prepared.environment);
  report_and_exit(prepared.error_fd);
}

struct Pipe {
  Fd read;
  Fd write;
};

Pipe make_pipe(const std::string& program) {
  std::array<int, 2> fds{};
  if (::pipe2(fds.data(), O_CLOEXEC) != 0) throw start_trouble(program, errno);
  return {Fd(fds[0]), Fd(fds[1])};
}

}  // namespace

ChildProcess::ChildProcess(const ChildSpec& spec) {
  const auto argv = pointers(spec.argv);
  const auto environment = pointers(spec.environment);
  const Fd empty(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  Pipe errors = make_pipe(spec.program);
  Pipe gate = make_pipe(spec.program);
  const auto cpu_mask = mask_of(spec.cpus);
  const Prepared prepared{spec.program.c_str(),
                          argv.data(),
                          environment.data(),
                          {spec.stdin_fd >= 0 ? spec.stdin_fd : empty.get(), spec.stdout_fd,
                           spec.stderr_fd, spec.extra_fd},
                          errors.write.get(),
                          ::getpid(),
                          cpu_mask,
                          spec.own_session,
                          spec.open_files,
                          gate.read.get()};
  int fork_error = 0;
  {
    const BlockedSignals blocked;
    pid_ = ::fork();
    if (pid_ == 0) become(prepared);
    fork_error = errno;
  }
  if (pid_ < 0) throw start_trouble(spec.program, fork_error);
  // Also here: whichever comes first, the group exists before it is signalled. The leader of a
  // group could not begin a session.
  if (!spec.own_session) ::setpgid(pid_, pid_);
  if (spec.on_born) spec.on_born(pid_);
  [[maybe_unused]] const auto opened = ::write(gate.write.get(), "g", 1);
  pidfd_.reset(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  const int pidfd_error = errno;
  errors.write.reset();
  int code = 0;
  ssize_t count = 0;
  while ((count = ::read(errors.read.get(), &code, sizeof code)) < 0 && errno == EINTR) {
  }
  if (count == 0 && pidfd_) return;
  kill_group();
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  throw start_trouble(spec.program, count > 0 ? code : pidfd_error);
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), pidfd_(std::move(other.pidfd_)) {}

ChildProcess::~ChildProcess() {
  if (pid_ <= 0) return;
  kill_group();
  (void)reap();
}

void ChildProcess::send_signal(int number) const {
  ::syscall(SYS_pidfd_send_signal, pidfd_.get(), number, nullptr, 0);
}

void ChildProcess::send_signal_to_group(int number) const {
  if (pid_ > 0) ::kill(-pid_, number);
}

ChildEnd ChildProcess::reap() {
  siginfo_t info{};
  // First only look: until it is reaped its number, and so its group's, belongs to nobody else.
  while (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT) != 0 &&
         errno == EINTR) {
  }
  kill_group();
  rusage used{};
  while (::wait4(pid_, nullptr, 0, &used) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  ChildEnd end;
  end.peak_rss_bytes = static_cast<std::int64_t>(used.ru_maxrss) * 1024;  // getrusage(2): kB
  (info.si_code == CLD_EXITED ? end.exit_code : end.signal) = info.si_status;
  return end;
}

namespace {

bool is_folder(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

}  // namespace

std::string find_program(const std::string& name, const std::string& search_path) {
  if (name.find('/') != std::string::npos) {
    if (::access(name.c_str(), X_OK) != 0) throw start_trouble(name, errno);
    if (is_folder(name)) throw start_trouble(name, EACCES);
    return name;
  }
  std::istringstream folders(search_path);
  std::string folder;
  while (std::getline(folders, folder, ':')) {
    const std::string path = (folder.empty() ? "." : folder) + "/" + name;
    if (::access(path.c_str(), X_OK) == 0 && !is_folder(path)) return path;
  }
  throw EnvironmentFault({"LS-3004", name, "cannot be started: no such program in PATH",
                          "check its name, or name its path (./" + name +
                              "); PYTHON_EXEC names the Python of scripts"});
}

}  // namespace lockstep::launch
