#include "lockstep/comm/local_address.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <optional>

#include "lockstep/base/error.h"

namespace lockstep::comm {
namespace {

constexpr const char* kLoopback = "127.0.0.1";

std::string to_text(const sockaddr* address, socklen_t bytes) {
  char text[NI_MAXHOST] = {};
  const int status = ::getnameinfo(address, bytes, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  return status == 0 ? text : "";
}

// Connecting a datagram socket sends nothing: the kernel only chooses the route.
std::optional<std::string> source_address(const addrinfo& to) {
  const int fd = ::socket(to.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return std::nullopt;
  sockaddr_storage own{};
  socklen_t bytes = sizeof own;
  auto* own_address = reinterpret_cast<sockaddr*>(&own);
  const bool found =
      ::connect(fd, to.ai_addr, to.ai_addrlen) == 0 && ::getsockname(fd, own_address, &bytes) == 0;
  ::close(fd);
  if (!found) return std::nullopt;
  return to_text(own_address, bytes);
}

std::optional<std::string> outer_address() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return std::nullopt;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(first, &::freeifaddrs);
  for (const ifaddrs* i = first; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr || i->ifa_addr->sa_family != AF_INET) continue;
    if ((i->ifa_flags & IFF_LOOPBACK) != 0U || (i->ifa_flags & IFF_UP) == 0U) continue;
    return to_text(i->ifa_addr, sizeof(sockaddr_in));
  }
  return std::nullopt;
}

}  // namespace

bool is_this_machine(const std::string& host) {
  return host.starts_with("unix:") || host == "localhost" || host.starts_with("127.") ||
         host == "::1";
}

std::string address_towards(const std::string& host) {
  if (is_this_machine(host)) return kLoopback;
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* first = nullptr;
  const int status = ::getaddrinfo(host.c_str(), "1", &hints, &first);
  if (status != 0) {
    throw EnvironmentFault({"LS-4004", host, std::string("host name: ") + ::gai_strerror(status),
                            "name the store's host by an address that this machine can resolve"});
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(first, &::freeaddrinfo);
  for (const addrinfo* to = first; to != nullptr; to = to->ai_next) {
    const auto own = source_address(*to);
    if (!own) continue;
    return is_this_machine(*own) ? outer_address().value_or(kLoopback) : *own;
  }
  throw EnvironmentFault({"LS-4004", host, "no network interface leads to this host",
                          "check the address, the cable and the routes of this machine"});
}

}  // namespace lockstep::comm
