#include "lockstep/base/socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string_view>
#include <system_error>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/base/limits.h"
#include "lockstep/base/port_holder.h"
#include "lockstep/base/socket_address.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;
constexpr std::string_view kUnixPrefix = "unix:";
constexpr int kBacklog = 1024;

std::string errno_text(int code) { return std::generic_category().message(code); }

[[noreturn]] void bad_address(const std::string& address, const std::string& why) {
  throw EnvironmentFault({"LS-3002", address, why,
                          "check the name and port; for a host name, that "
                          "this host can resolve it (getent hosts NAME)"});
}

bool is_unix(const std::string& host) { return host.starts_with(kUnixPrefix); }

/// One attempt; errno's value when it failed.
int try_connect(const SocketAddress& address, Deadline deadline, Fd& connected) {
  Fd fd = stream_socket(address);
  if (!fd) return errno;
  if (::connect(fd.get(), address.get(), address.length) != 0) {
    if (errno != EINPROGRESS) return errno;
    pollfd ready{fd.get(), POLLOUT, 0};
    int count = 0;
    do {
      count = ::poll(&ready, 1, poll_timeout_ms(deadline));
    } while (count < 0 && errno == EINTR);
    if (count == 0) return ETIMEDOUT;
    int status = 0;
    socklen_t length = sizeof status;
    ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &status, &length);
    if (status != 0) return status;
  }
  if (address.storage.ss_family != AF_UNIX) enable_fast_and_watched(fd.get());
  connected = std::move(fd);
  return 0;
}

/// The process at the other end of a unix socket that answers, if one does.
std::optional<int> unix_listener_pid(const SocketAddress& address) {
  Fd fd;
  if (try_connect(address, Clock::now() + milliseconds(200), fd) != 0) return std::nullopt;
  ucred peer{};
  socklen_t length = sizeof peer;
  if (::getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return 0;
  return peer.pid;
}

[[noreturn]] void in_use(const std::string& address, const std::string& holder) {
  const bool named = !holder.empty();
  throw EnvironmentFault(
      {"LS-3001", address, "the address is in use" + (named ? " by " + holder : std::string()),
       named ? "end that process, or choose another port (0 picks a free one)"
             : "its holder is not visible to this user; choose another port (0 picks a free one)"});
}

Listener listen_unix(const std::string& host) {
  const SocketAddress address = resolve(host, 0).front();
  const std::string path = host.substr(kUnixPrefix.size());
  const bool abstract = path.front() == '@';
  Listener listener;
  listener.fd = stream_socket(address);
  int status = ::bind(listener.fd.get(), address.get(), address.length);
  if (status != 0 && errno == EADDRINUSE) {
    const auto pid = unix_listener_pid(address);
    struct stat info {};
    if (pid.has_value()) in_use(host, process_text(*pid));
    if (abstract || ::lstat(path.c_str(), &info) != 0 || !S_ISSOCK(info.st_mode)) in_use(host, "");
    ::unlink(path.c_str());
    status = ::bind(listener.fd.get(), address.get(), address.length);
  }
  if (status != 0) bad_address(host, "cannot bind: " + errno_text(errno));
  if (!abstract) {
    listener.unix_path = path;
    ::chmod(path.c_str(), S_IRUSR | S_IWUSR);
  }
  if (::listen(listener.fd.get(), kBacklog) != 0) bad_address(host, errno_text(errno));
  return listener;
}

int port_of(int fd) {
  sockaddr_storage bound{};
  socklen_t length = sizeof bound;
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &length);
  return ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(bound).sin6_port
                                           : reinterpret_cast<sockaddr_in&>(bound).sin_port);
}

/// Waits for `events`; false when the deadline passed.
bool wait_ready(int fd, short events, Deadline deadline) {
  pollfd ready{fd, events, 0};
  while (true) {
    const int count = ::poll(&ready, 1, poll_timeout_ms(deadline));
    if (count > 0) return true;
    if (count == 0 && Clock::now() >= deadline) return false;
  }
}

}  // namespace

int poll_timeout_ms(Deadline deadline) {
  const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 1'000'000'000));
}

void enable_fast_and_watched(int socket) {
  const auto set = [socket](int level, int option, int value) {
    ::setsockopt(socket, level, option, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 10);  // seconds of silence before the first probe
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);  // seconds between probes
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
}

std::string address_text(const std::string& host, int port) {
  if (is_unix(host)) return host;
  const bool ipv6 = host.find(':') != std::string::npos;
  return (ipv6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

Fd connect_to(const std::string& host, int port, Deadline deadline, const OnWaiting& on_waiting) {
  const auto start = Clock::now();
  const auto addresses = resolve(host, port);
  milliseconds pause(5);
  auto tell_at = start + kTellWaitingEvery;
  while (true) {
    int status = 0;
    // A host that drops packets must not silence this for the kernel's whole minutes.
    const Deadline attempt = std::min(deadline, Clock::now() + kTellWaitingEvery);
    for (const auto& address : addresses) {
      Fd fd;
      status = try_connect(address, attempt, fd);
      if (status == 0) return fd;
    }
    if (Clock::now() + pause >= deadline) {
      const auto waited = std::chrono::duration_cast<milliseconds>(Clock::now() - start).count();
      throw EnvironmentFault(
          {"LS-3003", address_text(host, port),
           "no connection within " + std::to_string(waited) + " ms: " + errno_text(status),
           "check that the launcher or rank 0 that serves this address is running, that every rank "
           "got the same address, and that no firewall is between"});
    }
    if (on_waiting && Clock::now() >= tell_at) {
      on_waiting(errno_text(status));
      tell_at = Clock::now() + kTellWaitingEvery;
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, milliseconds(250));
  }
}

Listener listen_on(const std::string& host, int port) {
  if (is_unix(host)) return listen_unix(host);
  const std::string address = address_text(host, port);
  int status = EADDRNOTAVAIL;
  for (const auto& candidate : resolve(host, port)) {
    Listener listener;
    listener.fd = stream_socket(candidate);
    if (!listener.fd && (errno == EMFILE || errno == ENFILE)) {
      throw limit_fault("no socket can be made for " + address, errno);
    }
    const int on = 1;  // a port whose last connections are still in TIME_WAIT is free
    ::setsockopt(listener.fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (::bind(listener.fd.get(), candidate.get(), candidate.length) != 0 ||
        ::listen(listener.fd.get(), kBacklog) != 0) {
      status = errno;
      if (status == EADDRINUSE) in_use(address, port_holder(port));
      continue;
    }
    listener.port = port_of(listener.fd.get());
    return listener;
  }
  bad_address(address, "cannot listen here: " + errno_text(status));
}

IoEnd write_all(int socket, std::span<const std::uint8_t> bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(n));
    } else if (n < 0 && errno == EAGAIN) {
      if (!wait_ready(socket, POLLOUT, deadline)) return IoEnd::timed_out;
    } else if (n < 0 && errno != EINTR) {
      return IoEnd::closed;
    }
  }
  return IoEnd::done;
}

IoEnd read_exact(int socket, std::span<std::uint8_t> bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t n = ::recv(socket, bytes.data(), bytes.size(), 0);
    if (n > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(n));
    } else if (n == 0) {
      return IoEnd::closed;
    } else if (errno == EAGAIN) {
      if (!wait_ready(socket, POLLIN, deadline)) return IoEnd::timed_out;
    } else if (errno != EINTR) {
      return IoEnd::closed;
    }
  }
  return IoEnd::done;
}

}  // namespace lockstep
