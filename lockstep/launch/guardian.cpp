#include "lockstep/launch/guardian.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <thread>

#include "lockstep/base/limits.h"
#include "lockstep/launch/blocked_signals.h"

namespace lockstep::launch {
namespace {

constexpr std::size_t kMaxGroups = 4096;

/// The guardian's whole life, after fork(), with every signal blocked: async-signal-safe calls
/// only.
[[noreturn]] void guard(int pipe_fd) {
  ::setsid();  // neither Ctrl-C nor the end of the terminal reaches it
  ::dup2(pipe_fd, 0);
  ::syscall(SYS_close_range, 1U, ~0U, 0);
  ::prctl(PR_SET_NAME, "lockstep-guard");
  static std::array<int, kMaxGroups> groups;  // too large for comfort on a copied stack
  std::size_t count = 0;
  int number = 0;
  while (true) {
    const ssize_t n = ::read(0, &number, sizeof number);
    if (n < 0 && errno == EINTR) continue;
    if (n != sizeof number) break;
    if (number > 0 && count < kMaxGroups) groups[count++] = number;
    if (number < 0) {
      int* const end = std::remove(groups.data(), groups.data() + count, -number);
      count = static_cast<std::size_t>(end - groups.data());
    }
  }
  for (std::size_t i = 0; i < count; ++i) ::kill(-groups[i], SIGKILL);
  ::_exit(0);
}

}  // namespace

Guardian::Guardian() {
  std::array<int, 2> fds{};
  if (::pipe2(fds.data(), O_CLOEXEC) != 0) throw limit_fault("no pipe can be made", errno);
  const Fd read_end(fds[0]);
  pipe_.reset(fds[1]);
  {
    // A Ctrl-C in this moment must not run this process's handler in the copy as well.
    const BlockedSignals blocked;
    pid_ = ::fork();
    if (pid_ == 0) guard(read_end.get());
  }
  if (pid_ < 0) {
    throw EnvironmentFault({"LS-3004", "", "no new process can be made",
                            "see the limit on processes (ulimit -u) and free memory"});
  }
}

Guardian::~Guardian() {
  pipe_.reset();
  ::kill(pid_, SIGCONT);  // somebody may have stopped it
  constexpr int kLooks = 200;
  constexpr std::chrono::milliseconds kBetweenLooks{5};
  for (int i = 0; i < kLooks; ++i) {
    const int ended = ::waitpid(pid_, nullptr, WNOHANG);
    if (ended == pid_ || (ended < 0 && errno != EINTR)) return;
    std::this_thread::sleep_for(i == 0 ? std::chrono::milliseconds(1) : kBetweenLooks);
  }
  ::kill(pid_, SIGKILL);  // stopped again and again: the groups it was told of have ended by now
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void Guardian::watch(int process_group) { tell(process_group); }
void Guardian::forget(int process_group) { tell(-process_group); }

void Guardian::tell(int number) {
  // A pipe takes 4 bytes whole or not at all; a guardian that was killed takes none, which is no
  // fault.
  [[maybe_unused]] const auto written = ::write(pipe_.get(), &number, sizeof number);
}

}  // namespace lockstep::launch
