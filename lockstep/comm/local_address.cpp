#include "lockstep/comm/local_address.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
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

/// Calls `visit(interface, address)` for all that is up until it returns true.
template <class Visit>
void visit_interfaces(const Visit& visit) {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(first, &::freeifaddrs);
  for (const ifaddrs* i = first; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr || (i->ifa_flags & IFF_UP) == 0U) continue;
    const int family = i->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const socklen_t bytes = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    if (visit(*i, to_text(i->ifa_addr, bytes))) return;
  }
}

/// The first address that other machines may reach; of IPv4 if there is one.
std::optional<std::string> outer_address() {
  std::optional<std::string> found;
  visit_interfaces([&](const ifaddrs& interface, const std::string& address) {
    const bool outer = (interface.ifa_flags & IFF_LOOPBACK) == 0U &&
                       (interface.ifa_flags & IFF_RUNNING) != 0U &&
                       !is_for_containers(interface.ifa_name) && !is_link_local(address);
    const bool is_ipv4 = interface.ifa_addr->sa_family == AF_INET;
    if (outer && (is_ipv4 || !found)) found = address;
    return outer && is_ipv4;
  });
  return found;
}

bool leads_to_containers(const std::string& own) {
  bool leads = false;
  visit_interfaces([&](const ifaddrs& interface, const std::string& address) {
    leads = address == own && is_for_containers(interface.ifa_name);
    return address == own;
  });
  return leads;
}

}  // namespace

bool is_this_machine(const std::string& host) {
  return host.starts_with("unix:") || host == "localhost" || host.starts_with("127.") ||
         host == "::1";
}

bool is_link_local(const std::string& address) {
  if (address.starts_with("169.254.")) return true;
  return address.find(':') == 4 && address.starts_with("fe") &&
         std::string_view("89ab").find(address[2]) != std::string_view::npos;
}

bool is_for_containers(std::string_view interface) {
  constexpr std::string_view kPrefixes[] = {"docker", "br-",     "veth",   "virbr",
                                            "cni",    "flannel", "podman", "lxcbr"};
  return std::any_of(std::begin(kPrefixes), std::end(kPrefixes),
                     [&](std::string_view prefix) { return interface.starts_with(prefix); });
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
    const bool inner = is_this_machine(*own) || is_link_local(*own) || leads_to_containers(*own);
    return inner ? outer_address().value_or(*own) : *own;
  }
  throw EnvironmentFault({"LS-4004", host, "no network interface leads to this host",
                          "check the address, the cable and the routes of this machine"});
}

}  // namespace lockstep::comm
