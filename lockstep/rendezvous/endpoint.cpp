#include "lockstep/rendezvous/endpoint.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <system_error>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::rendezvous {
namespace {

constexpr int kBacklog = 4096;  // a flood of strangers stands before the agents

std::string errno_text(int code) { return std::generic_category().message(code); }

/// Whether an address is one of this host: the way to it begins and ends at itself. A bind alone
/// does not tell where net.ipv4.ip_nonlocal_bind is set.
bool is_own(const SocketAddress& address) {
  const Fd fd(::socket(address.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  SocketAddress own;
  own.length = sizeof own.storage;
  if (!fd || ::connect(fd.get(), address.get(), address.length) != 0 ||
      ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&own.storage), &own.length) != 0) {
    return false;
  }
  if (address.storage.ss_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in&>(own.storage).sin_addr.s_addr ==
           reinterpret_cast<const sockaddr_in&>(address.storage).sin_addr.s_addr;
  }
  return std::memcmp(&reinterpret_cast<const sockaddr_in6&>(own.storage).sin6_addr,
                     &reinterpret_cast<const sockaddr_in6&>(address.storage).sin6_addr,
                     sizeof(in6_addr)) == 0;
}

int syns_sent(int fd) {
  tcp_info info{};
  socklen_t length = sizeof info;
  if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return 1;
  return 1 + static_cast<int>(info.tcpi_retransmits);
}

Unreached class_of(int code) {
  switch (code) {
    case ECONNREFUSED:
      return Unreached::refused;
    case ETIMEDOUT:
    case EINVAL:  // what a blackhole route of this host gives
      return Unreached::no_answer;
    case ENETUNREACH:
    case EHOSTUNREACH:
    case ENETDOWN:
    case EHOSTDOWN:
    case EACCES:         // a route that prohibits,
    case EPERM:          // and a packet filter of this host
    case EADDRNOTAVAIL:  // no address of ours has a way there
      return Unreached::no_route;
    default:
      return Unreached::other;
  }
}

}  // namespace

BindTest test_bind(const Endpoint& endpoint, const std::vector<SocketAddress>& addresses) {
  BindTest test;
  for (const auto& address : addresses) {
    if (address.is_any()) {
      throw EnvironmentFault({"LS-3002", endpoint.text(),
                              "this stands for every address of a host, so each host would lead a "
                              "job of its own",
                              "name the address of the host that leads, as others reach it"});
    }
    Fd fd = stream_socket(address);
    if (!fd || !is_own(address)) continue;
    const int on = 1;  // a port whose last connections are still in TIME_WAIT is free
    ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (::bind(fd.get(), address.get(), address.length) == 0 && ::listen(fd.get(), kBacklog) == 0) {
      test.result = BindTest::Result::bound;
      test.listener = {std::move(fd), endpoint.port, {}};
      test.only_loopback = address.is_loopback();
      return test;
    }
    if (errno == EADDRINUSE) {  // who came first took the first of the addresses, too
      test.result = BindTest::Result::in_use;
      return test;
    }
    if (errno != EADDRNOTAVAIL) {
      throw EnvironmentFault({"LS-3002", endpoint.text(),
                              "cannot listen here: " + errno_text(errno),
                              "choose another port; those below 1024 are the system's"});
    }
  }
  return test;
}

Attempt::Attempt(const Endpoint& endpoint, const std::vector<SocketAddress>& addresses)
    : where_(endpoint.text()) {
  failed(ENETUNREACH, errno_text(ENETUNREACH));
  for (const auto& address : addresses) {
    Fd fd = stream_socket(address);
    if (!fd) {
      if (errno != EAFNOSUPPORT) failed(errno, errno_text(errno));
    } else if (::connect(fd.get(), address.get(), address.length) == 0) {
      connected_ = std::move(fd);
      return;
    } else if (errno == EINPROGRESS) {
      sockets_.push_back(std::move(fd));
    } else {
      failed(errno, errno_text(errno));
    }
  }
}

/// A refusal says most: the host is there.
void Attempt::failed(int code, const std::string& because) {
  if (unreached_ == Unreached::refused) return;
  unreached_ = class_of(code);
  text_ = because;
  if (code == EINVAL) text_ = "a blackhole route of this host drops what goes there";
  if (unreached_ == Unreached::no_route) text_ = "no route to " + where_ + " (" + text_ + ")";
  if (unreached_ == Unreached::no_answer) {
    text_ = "no answer from " + where_ + " (" + text_ + "): firewall or wrong address";
  }
}

bool Attempt::look() {
  for (auto socket = sockets_.begin(); socket != sockets_.end() && !connected_;) {
    pollfd ready{socket->get(), POLLOUT, 0};
    if (::poll(&ready, 1, 0) <= 0) {
      ++socket;
      continue;
    }
    int status = 0;
    socklen_t length = sizeof status;
    ::getsockopt(socket->get(), SOL_SOCKET, SO_ERROR, &status, &length);
    if (status == 0) {
      connected_ = std::move(*socket);
    } else {
      failed(status, errno_text(status));
    }
    socket = sockets_.erase(socket);
  }
  if (connected_) sockets_.clear();
  return sockets_.empty();
}

void Attempt::give_up() {
  if (sockets_.empty()) return;
  const int count = syns_sent(sockets_.front().get());
  sockets_.clear();
  failed(ETIMEDOUT, "SYN sent " + std::to_string(count) + " times, no reply");
}

EnvironmentFault unreached_fault(const Endpoint& endpoint, Unreached unreached,
                                 const std::string& text, double waited_s) {
  switch (unreached) {
    case Unreached::name:
      return EnvironmentFault(
          {"LS-3002", endpoint.text(), text,
           "check the name (getent hosts NAME), or name the address by number"});
    case Unreached::no_answer:
      return EnvironmentFault(
          {"LS-3003", endpoint.text(), text,
           "check the address, and that the firewalls of both hosts let this port through"});
    case Unreached::no_route:
      return EnvironmentFault(
          {"LS-3003", endpoint.text(), text,
           "check the address, and this host's interfaces and routes (ip route get ADDRESS)"});
    case Unreached::no_proof:
      return EnvironmentFault(
          {"LS-3063", endpoint.text(), text, "name the address and port where this job meets"});
    case Unreached::refused:
    case Unreached::other:
      break;
  }
  return EnvironmentFault(
      {"LS-3003", endpoint.text(),
       "nobody listens there: " + text + " for " + std::to_string(std::lround(waited_s)) + " s",
       "start the agent of that host, and see that all agents got the same address and port"});
}

}  // namespace lockstep::rendezvous
