#include "lockstep/comm/connection_watch.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>

namespace lockstep::comm {
namespace {

using NameOf = int (*)(int, sockaddr*, socklen_t*);

/// The numeric address of one end of a connected TCP socket; empty for anything else.
std::string end_of(int fd, NameOf name_of) {
  sockaddr_storage storage{};
  auto* const address = reinterpret_cast<sockaddr*>(&storage);
  socklen_t bytes = sizeof storage;
  if (name_of(fd, address, &bytes) != 0) return "";
  if (address->sa_family != AF_INET && address->sa_family != AF_INET6) return "";
  std::array<char, NI_MAXHOST> text{};
  const int status = ::getnameinfo(address, bytes, text.data(), text.size(), nullptr, 0,
                                   NI_NUMERICHOST | NI_NUMERICSERV);
  const std::string found = status == 0 ? text.data() : "";
  return found.starts_with("::ffff:") ? found.substr(7) : found;
}

bool is_stream(int fd) {
  int type = 0;
  socklen_t bytes = sizeof type;
  return ::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &bytes) == 0 && type == SOCK_STREAM;
}

bool set(int fd, int level, int option, int value) {
  return ::setsockopt(fd, level, option, &value, sizeof value) == 0;
}

/// Unanswered data and, while nothing is sent, unanswered probes end the connection (tcp(7)).
bool watch(int fd) {
  const int silence_ms = static_cast<int>(std::chrono::milliseconds(kConnectionSilence).count());
  return set(fd, SOL_SOCKET, SO_KEEPALIVE, 1) && set(fd, IPPROTO_TCP, TCP_KEEPIDLE, 1) &&
         set(fd, IPPROTO_TCP, TCP_KEEPINTVL, 1) &&
         set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, silence_ms);
}

std::vector<int> open_descriptors() {
  std::vector<int> fds;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    const std::string name = entry.path().filename();
    int fd = -1;
    std::from_chars(name.data(), name.data() + name.size(), fd);
    if (fd >= 0) fds.push_back(fd);
  }
  return fds;
}

}  // namespace

int watch_connections(const std::vector<std::string>& peers) {
  int watched = 0;
  for (const int fd : open_descriptors()) {
    if (!is_stream(fd)) continue;
    const std::string peer = end_of(fd, &::getpeername);
    if (peer.empty() || std::find(peers.begin(), peers.end(), peer) == peers.end()) continue;
    if (peer == end_of(fd, &::getsockname)) continue;
    if (watch(fd)) ++watched;
  }
  return watched;
}

void watch_connections(const std::vector<RankPlace>& places) {
  std::vector<std::string> peers;
  for (const RankPlace& place : places) peers.push_back(place.address);
  watch_connections(peers);
}

}  // namespace lockstep::comm
