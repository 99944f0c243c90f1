#include "lockstep/launch/stop_signals.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <thread>

#include "lockstep/base/limits.h"
#include "lockstep/topology/proc_text.h"

namespace lockstep::launch {
namespace {

// A handler gets no argument of ours: this is the one place it can find the pipes.
std::atomic<int> fd_to_stop{-1};
std::atomic<int> fd_to_pass_on{-1};

void tell(int fd, int number) {
  const int error = errno;
  const auto byte = static_cast<unsigned char>(number);
  [[maybe_unused]] const auto written = ::write(fd, &byte, 1);
  errno = error;
}

void on_stop(int number) { tell(fd_to_stop.load(), number); }
void on_passed_on(int number) { tell(fd_to_pass_on.load(), number); }

}  // namespace

StopSignals::Pipe StopSignals::make_pipe() {
  std::array<int, 2> fds{};
  if (::pipe2(fds.data(), O_CLOEXEC | O_NONBLOCK) != 0) {
    throw limit_fault("no pipe can be made", errno);
  }
  return {Fd(fds[0]), Fd(fds[1])};
}

StopSignals::StopSignals(const std::vector<int>& stop, const std::vector<int>& passed_on) {
  int none = -1;
  LOCKSTEP_CHECK(fd_to_stop.compare_exchange_strong(none, stop_.write.get()),
                 "two jobs at once in one process");
  fd_to_pass_on.store(passed_on_.write.get());
  const auto take_over = [this](int number, auto handler) {
    struct sigaction action {};
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    struct sigaction before {};
    if (::sigaction(number, nullptr, &before) != 0) return;
    before_.emplace_back(number, before);
    if (before.sa_handler != SIG_IGN) ::sigaction(number, &action, nullptr);
  };
  for (const int number : stop) take_over(number, &on_stop);
  for (const int number : passed_on) {
    if (std::find(stop.begin(), stop.end(), number) == stop.end()) take_over(number, &on_passed_on);
  }
  take_over(SIGPIPE, SIG_IGN);
}

StopSignals::~StopSignals() {
  // Backwards: of a signal named twice the first entry knows what was before.
  for (auto entry = before_.rbegin(); entry != before_.rend(); ++entry) {
    ::sigaction(entry->first, &entry->second, nullptr);
  }
  fd_to_stop.store(-1);
  fd_to_pass_on.store(-1);
}

std::optional<int> StopSignals::next_in(const Pipe& pipe) {
  unsigned char number = 0;
  if (::read(pipe.read.get(), &number, 1) != 1) return std::nullopt;
  return number;
}

namespace {

/// Whether the signal is in a set of /proc/PID/status, which has them in hexadecimal (proc(5)).
bool is_in(std::string_view status, std::string_view key, int number) {
  const std::string_view digits = field(status, key);
  std::uint64_t mask = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), mask, 16);
  return (mask >> static_cast<unsigned>(number - 1) & 1U) != 0;
}

}  // namespace

/// Who waits for a signal keeps it blocked; a shell blocks all of them for the moment in which it
/// starts a program.
bool is_awaited(int pid, int number) {
  constexpr int kLooks = 10;
  for (int look = 0; look < kLooks; ++look) {
    const std::string status = read_small_file("/proc/" + std::to_string(pid) + "/status");
    if (is_in(status, "SigCgt:", number) || is_in(status, "SigIgn:", number)) return true;
    if (!is_in(status, "SigBlk:", number)) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

}  // namespace lockstep::launch
