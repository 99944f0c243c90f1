// One started program, watched through a pidfd. It dies with the thread that started it.
#pragma once
#include <string>
#include <vector>

#include "lockstep/base/fd.h"

namespace lockstep::launch {

struct ChildSpec {
  std::string program;  // a path
  std::vector<std::string> argv;
  std::vector<std::string> environment;
  int stdout_fd = -1;
  int stderr_fd = -1;
  int extra_fd = -1;  // becomes kExtraFd of the program; -1 = none
};

/// Where a program finds `extra_fd`.
inline constexpr int kExtraFd = 3;

/// How a program ended: one of the two is not 0, unless it exited with 0.
struct ChildEnd {
  int exit_code = 0;
  int signal = 0;
};

/// A child is the leader of its own process group; the destructor kills the group and reaps the
/// child.
class ChildProcess {
 public:
  /// Standard input is empty; every other descriptor of this process is closed in the program.
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
  /// SIGKILL to it and all its descendants that stayed in its group.
  void kill_group() const;
  /// Waits for the end; then nothing is left of its group.
  [[nodiscard]] ChildEnd reap();

 private:
  int pid_ = -1;
  Fd pidfd_;
};

/// The file that execvp would run. \throws EnvironmentFault when there is none.
[[nodiscard]] std::string find_program(const std::string& name, const std::string& search_path);

}  // namespace lockstep::launch
