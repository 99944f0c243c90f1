#include "lockstep/base/socket_address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/base/socket.h"

namespace lockstep {
namespace {

constexpr std::string_view kUnixPrefix = "unix:";

[[noreturn]] void bad_address(const std::string& address, const std::string& why) {
  throw EnvironmentFault({"LS-3002", address, why,
                          "check the name and port; for a host name, that "
                          "this host can resolve it (getent hosts NAME)"});
}

SocketAddress unix_address(const std::string& host) {
  const std::string path = host.substr(kUnixPrefix.size());
  SocketAddress address;
  auto& un = reinterpret_cast<sockaddr_un&>(address.storage);
  un.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof un.sun_path) {
    bad_address(host, "a unix socket path has 1 to " + std::to_string(sizeof un.sun_path - 1) +
                          " bytes, this one " + std::to_string(path.size()));
  }
  std::memcpy(un.sun_path, path.data(), path.size());
  const bool abstract = path.front() == '@';
  if (abstract) un.sun_path[0] = '\0';
  // An abstract name is every byte up to the given length; a path ends with its zero byte.
  address.length =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + (abstract ? 0 : 1));
  return address;
}

const in6_addr& ipv6_of(const sockaddr_storage& storage) {
  return reinterpret_cast<const sockaddr_in6&>(storage).sin6_addr;
}

in_addr_t ipv4_of(const sockaddr_storage& storage) {
  return ntohl(reinterpret_cast<const sockaddr_in&>(storage).sin_addr.s_addr);
}

}  // namespace

bool SocketAddress::is_loopback() const {
  if (storage.ss_family == AF_INET) return ipv4_of(storage) >> 24U == 127;
  return storage.ss_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&ipv6_of(storage));
}

bool SocketAddress::is_any() const {
  if (storage.ss_family == AF_INET) return ipv4_of(storage) == INADDR_ANY;
  return storage.ss_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&ipv6_of(storage));
}

std::vector<SocketAddress> resolve(const std::string& host, int port) {
  if (host.starts_with(kUnixPrefix)) return {unix_address(host)};
  if (port < 0 || port > 65535) bad_address(address_text(host, port), "a port is 0 to 65535");
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int status = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (status != 0) {
    bad_address(address_text(host, port),
                "the host name cannot be resolved: " + std::string(::gai_strerror(status)));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, &::freeaddrinfo);
  std::vector<SocketAddress> addresses;
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    SocketAddress address;
    std::memcpy(&address.storage, entry->ai_addr, entry->ai_addrlen);
    address.length = entry->ai_addrlen;
    addresses.push_back(address);
  }
  return addresses;
}

Fd stream_socket(const SocketAddress& address) {
  return Fd(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

std::string peer_text(int socket) {
  SocketAddress peer;
  peer.length = sizeof peer.storage;
  auto* raw = reinterpret_cast<sockaddr*>(&peer.storage);
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  if (::getpeername(socket, raw, &peer.length) != 0 ||
      ::getnameinfo(raw, peer.length, host.data(), host.size(), port.data(), port.size(),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return "?";
  }
  return address_text(host.data(), std::atoi(port.data()));
}

}  // namespace lockstep
