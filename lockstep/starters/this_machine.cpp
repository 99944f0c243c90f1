#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "lockstep/base/fd.h"
#include "lockstep/starters/ssh_job.h"

namespace lockstep::starters {
namespace {

bool is_loopback(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    const auto& four = reinterpret_cast<const sockaddr_in&>(address);
    return (ntohl(four.sin_addr.s_addr) >> 24) == IN_LOOPBACKNET;
  }
  const auto& six = reinterpret_cast<const sockaddr_in6&>(address);
  return IN6_IS_ADDR_LOOPBACK(&six.sin6_addr);
}

bool equal_hosts(const sockaddr& a, const sockaddr& b) {
  if (a.sa_family != b.sa_family) return false;
  if (a.sa_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in&>(a).sin_addr.s_addr ==
           reinterpret_cast<const sockaddr_in&>(b).sin_addr.s_addr;
  }
  return IN6_ARE_ADDR_EQUAL(&reinterpret_cast<const sockaddr_in6&>(a).sin6_addr,
                            &reinterpret_cast<const sockaddr_in6&>(b).sin6_addr);
}

/// A packet to an own address leaves from that address; a socket that is connected says so without
/// sending one. (A bind alone says yes to everything under net.ipv4.ip_nonlocal_bind.)
bool is_own(const addrinfo& info) {
  if (info.ai_family != AF_INET && info.ai_family != AF_INET6) return false;
  if (is_loopback(*info.ai_addr)) return true;
  const Fd socket(::socket(info.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (::connect(socket.get(), info.ai_addr, info.ai_addrlen) != 0) return false;
  sockaddr_storage from{};
  socklen_t length = sizeof from;
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&from), &length) != 0) return false;
  return equal_hosts(*info.ai_addr, reinterpret_cast<const sockaddr&>(from));
}

}  // namespace

bool is_this_machine(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), "9", &hints, &found) != 0) return false;
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    if (is_own(*one)) return true;
  }
  return false;
}

}  // namespace lockstep::starters
