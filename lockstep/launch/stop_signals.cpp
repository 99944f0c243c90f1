#include "lockstep/launch/stop_signals.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "lockstep/base/limits.h"

namespace lockstep::launch {
namespace {

constexpr std::array<int, 4> kSignals{SIGTERM, SIGINT, SIGHUP, SIGPIPE};

// A handler gets no argument of ours: this is the one place it can find the pipe.
std::atomic<int> handler_fd{-1};

void on_signal(int number) {
  const int error = errno;
  const auto byte = static_cast<unsigned char>(number);
  [[maybe_unused]] const auto written = ::write(handler_fd.load(), &byte, 1);
  errno = error;
}

}  // namespace

StopSignals::StopSignals() {
  std::array<int, 2> fds{};
  if (::pipe2(fds.data(), O_CLOEXEC | O_NONBLOCK) != 0) {
    throw limit_fault("no pipe can be made", errno);
  }
  read_end_.reset(fds[0]);
  write_end_.reset(fds[1]);
  int none = -1;
  LOCKSTEP_CHECK(handler_fd.compare_exchange_strong(none, fds[1]),
                 "two jobs at once in one process");
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    struct sigaction action {};
    action.sa_handler = kSignals[i] == SIGPIPE ? SIG_IGN : &on_signal;
    action.sa_flags = SA_RESTART;
    ::sigaction(kSignals[i], nullptr, &before_[i]);
    if (before_[i].sa_handler != SIG_IGN) ::sigaction(kSignals[i], &action, nullptr);
  }
}

StopSignals::~StopSignals() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &before_[i], nullptr);
  handler_fd.store(-1);
}

std::optional<int> StopSignals::next() {
  unsigned char number = 0;
  if (::read(read_end_.get(), &number, 1) != 1) return std::nullopt;
  return number;
}

}  // namespace lockstep::launch
