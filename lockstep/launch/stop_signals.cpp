#include "lockstep/launch/stop_signals.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>

#include "lockstep/base/limits.h"

namespace lockstep::launch {
namespace {

// A handler gets no argument of ours: this is the one place it can find the pipe.
std::atomic<int> handler_fd{-1};

void on_signal(int number) {
  const int error = errno;
  const auto byte = static_cast<unsigned char>(number);
  [[maybe_unused]] const auto written = ::write(handler_fd.load(), &byte, 1);
  errno = error;
}

}  // namespace

StopSignals::StopSignals(const std::vector<int>& signals) {
  std::array<int, 2> fds{};
  if (::pipe2(fds.data(), O_CLOEXEC | O_NONBLOCK) != 0) {
    throw limit_fault("no pipe can be made", errno);
  }
  read_end_.reset(fds[0]);
  write_end_.reset(fds[1]);
  int none = -1;
  LOCKSTEP_CHECK(handler_fd.compare_exchange_strong(none, fds[1]),
                 "two jobs at once in one process");
  const auto take_over = [this](int number, auto handler) {
    struct sigaction action {};
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    struct sigaction before {};
    if (::sigaction(number, nullptr, &before) != 0) return;
    before_.emplace_back(number, before);
    if (before.sa_handler != SIG_IGN) ::sigaction(number, &action, nullptr);
  };
  for (const int number : signals) take_over(number, &on_signal);
  take_over(SIGPIPE, SIG_IGN);
}

StopSignals::~StopSignals() {
  // Backwards: of a signal named twice the first entry knows what was before.
  for (auto entry = before_.rbegin(); entry != before_.rend(); ++entry) {
    ::sigaction(entry->first, &entry->second, nullptr);
  }
  handler_fd.store(-1);
}

std::optional<int> StopSignals::next() {
  unsigned char number = 0;
  if (::read(read_end_.get(), &number, 1) != 1) return std::nullopt;
  return number;
}

}  // namespace lockstep::launch
