// One started program, watched through a pidfd. It dies with the thread that started it.
#pragma once
#include <signal.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "lockstep/base/fd.h"

namespace lockstep::launch {

struct ChildSpec {
  std::string program;  // a path
  std::vector<std::string> argv;
  std::vector<std::string> environment;
  int stdin_fd = -1;  // -1 = empty
  int stdout_fd = -1;
  int stderr_fd = -1;
  int extra_fd = -1;             // becomes kExtraFd of the program; -1 = none
  std::vector<int> cpus;         // it may run on; empty = as this process
  bool own_session = false;      // not that of this process's terminal
  std::uint64_t open_files = 0;  // its soft limit (RLIMIT_NOFILE); 0 = as this process
  /// Told of the child's number before its program runs.
  std::function<void(int pid)> on_born{};
};

/// Where a program finds `extra_fd`.
inline constexpr int kExtraFd = 3;

/// How a program ended: one of the two is not 0, unless it exited with 0.
struct ChildEnd {
  int exit_code = 0;
  int signal = 0;
  std::int64_t peak_rss_bytes = 0;  // of it, or of a process it waited for
};

/// A child is the leader of its own process group; the destructor kills the group and reaps the
/// child.
class ChildProcess {
 public:
  /// Every descriptor of this process that the spec does not name is closed in the program.
  /// \throws EnvironmentFault when it cannot be started.
  explicit ChildProcess(const ChildSpec& spec);
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  ~ChildProcess();

  [[nodiscard]] int pid() const { return pid_; }
  /// Readable once the program has ended.
  [[nodiscard]] int pidfd() const { return pidfd_.get(); }
  /// To the program alone.
  void send_signal(int number) const;
  /// To it and all its descendants that stayed in its group.
  void send_signal_to_group(int number) const;
  void kill_group() const { send_signal_to_group(SIGKILL); }
  /// Waits for the end; then nothing is left of its group.
  [[nodiscard]] ChildEnd reap();

 private:
  int pid_ = -1;
  Fd pidfd_;
};

/// The file that execvp would run. \throws EnvironmentFault when there is none.
[[nodiscard]] std::string find_program(const std::string& name, const std::string& search_path);

}  // namespace lockstep::launch
