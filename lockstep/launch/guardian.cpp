#include "lockstep/launch/guardian.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <thread>

#include "lockstep/base/blocked_signals.h"
#include "lockstep/base/limits.h"

namespace lockstep::launch {
namespace {

constexpr std::size_t kMostGroups = 4096;

/// The process groups to end. A plain object: the guardian lives without an allocator.
struct Groups {
  std::array<int, kMostGroups> list;
  std::size_t count;

  void add(int group) {
    if (count < kMostGroups) list[count++] = group;
  }
  void remove(int group) {
    int* const end = std::remove(list.data(), list.data() + count, group);
    count = static_cast<std::size_t>(end - list.data());
  }
  void kill_all() const {
    for (std::size_t i = 0; i < count; ++i) ::kill(-list[i], SIGKILL);
  }
};

/// Milliseconds until the fence, rounded up; -1 when there is none.
int ms_until(std::int64_t fence_ns) {
  constexpr std::int64_t kNsPerMs = 1'000'000;
  constexpr std::int64_t kNsPerS = 1'000'000'000;
  if (fence_ns == 0) return -1;
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);  // what steady_clock reads
  const std::int64_t left_ns = fence_ns - (now.tv_sec * kNsPerS + now.tv_nsec);
  constexpr std::int64_t kLongestMs = 1'000'000;
  return static_cast<int>(
      std::clamp<std::int64_t>((left_ns + kNsPerMs - 1) / kNsPerMs, 0, kLongestMs));
}

}  // namespace

/// The guardian's whole life, after fork(), with every signal blocked: async-signal-safe calls
/// only.
void Guardian::guard(int pipe_fd) {
  ::setsid();  // neither Ctrl-C nor the end of the terminal reaches it
  ::dup2(pipe_fd, 0);
  ::syscall(SYS_close_range, 1U, ~0U, 0);
  ::prctl(PR_SET_NAME, "lockstep-guard");
  static Groups groups;  // too large for comfort on a copied stack
  std::int64_t fence_ns = 0;
  bool is_past = false;  // the fence: who is named only then is killed too
  while (true) {
    pollfd ready{0, POLLIN, 0};
    const int polled = ::poll(&ready, 1, ms_until(fence_ns));
    if (polled == 0 && ms_until(fence_ns) == 0) {
      groups.kill_all();
      fence_ns = 0;
      is_past = true;
    }
    if (polled <= 0) continue;
    Message message;
    const ssize_t n = ::read(0, &message, sizeof message);
    if (n < 0 && errno == EINTR) continue;
    if (n != sizeof message) break;
    if (message.group > 0) groups.add(static_cast<int>(message.group));
    if (message.group < 0) groups.remove(static_cast<int>(-message.group));
    if (message.group > 0 && is_past) groups.kill_all();
    if (message.group == 0) {
      fence_ns = message.fence_ns;
      is_past = false;
    }
  }
  groups.kill_all();
  ::_exit(0);
}

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

void Guardian::watch(int process_group) { tell({process_group, 0}); }
void Guardian::forget(int process_group) { tell({-process_group, 0}); }

void Guardian::fence(Deadline at) {
  const auto since_start =
      std::chrono::duration_cast<std::chrono::nanoseconds>(at.time_since_epoch());
  tell({0, at == Deadline::max() ? 0 : since_start.count()});
}

void Guardian::tell(const Message& message) {
  // A pipe takes so few bytes whole or not at all; a guardian that was killed takes none, which is
  // no fault.
  [[maybe_unused]] const auto written = ::write(pipe_.get(), &message, sizeof message);
}

}  // namespace lockstep::launch
