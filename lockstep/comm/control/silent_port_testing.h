// A port of this machine that answers nothing, for tests: as one behind a cable that is cut.
#pragma once
#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <vector>

#include "lockstep/base/socket.h"

namespace lockstep::comm::control {

/// Somebody listens whose queue is full: the kernel drops further attempts to connect.
class SilentPort {
 public:
  SilentPort() : listener_(listen_on("127.0.0.1", 0)) {
    (void)::listen(listener_.fd.get(), 0);
    sockaddr_storage address{};
    socklen_t bytes = sizeof address;
    (void)::getsockname(listener_.fd.get(), reinterpret_cast<sockaddr*>(&address), &bytes);
    for (bool is_full = false; !is_full;) {
      Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      (void)::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), bytes);
      pollfd ready{socket.get(), POLLOUT, 0};
      is_full = ::poll(&ready, 1, 100) == 0;
      queue_.push_back(std::move(socket));
    }
  }

  [[nodiscard]] int number() const { return listener_.port; }

 private:
  Listener listener_;
  std::vector<Fd> queue_;
};

}  // namespace lockstep::comm::control
