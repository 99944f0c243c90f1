// Addresses of stream sockets, resolved: for those who bind and connect step by step. Most take
// base/socket.h.
#pragma once
#include <sys/socket.h>

#include <string>
#include <vector>

#include "lockstep/base/fd.h"

namespace lockstep {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  /// 127.0.0.0/8 or ::1.
  [[nodiscard]] bool is_loopback() const;
  /// 0.0.0.0 or ::, every address of a host.
  [[nodiscard]] bool is_any() const;
};

/// All addresses of a host name, or the one of "unix:<path>". The resolver has its own time limit.
/// \throws EnvironmentFault (LS-3002) naming what cannot be resolved.
[[nodiscard]] std::vector<SocketAddress> resolve(const std::string& host, int port);

/// Does not block. None when descriptors ran out, or the kernel has no such family.
[[nodiscard]] Fd stream_socket(const SocketAddress& address);

/// "10.0.0.7:43210" of the other end of a connection; "?" once it has gone.
[[nodiscard]] std::string peer_text(int socket);

}  // namespace lockstep
