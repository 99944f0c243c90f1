// Stream sockets with deadlines: TCP addresses and "unix:<path>" ("unix:@name" is an abstract
// name).
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "lockstep/base/fd.h"

namespace lockstep {

using Deadline = std::chrono::steady_clock::time_point;

/// How a transfer ended.
enum class IoEnd : std::uint8_t { done, timed_out, closed };

/// "10.0.0.1:29500", "[::1]:29500" or "unix:/run/x"; what messages name.
[[nodiscard]] std::string address_text(const std::string& host, int port);

/// Told about every five seconds while something is waited for: why it takes so long.
using OnWaiting = std::function<void(const std::string& why)>;
inline constexpr std::chrono::seconds kTellWaitingEvery{5};

/// Connects, and tries again while nobody listens yet, until the deadline. The socket does not
/// block. Name resolution has the resolver's own time limit. \throws EnvironmentFault naming the
/// address, the last reason and what to do.
[[nodiscard]] Fd connect_to(const std::string& host, int port, Deadline deadline,
                            const OnWaiting& on_waiting = {});

struct Listener {
  Fd fd;                  // does not block
  int port = 0;           // the real one when 0 was asked for; 0 for unix sockets
  std::string unix_path;  // file to remove at the end; empty for TCP and abstract names
};

/// Binds to the named address only and listens. A socket file left by a dead process is replaced.
/// \throws EnvironmentFault: address in use (names who holds it), or not one of this host.
[[nodiscard]] Listener listen_on(const std::string& host, int port);

/// For a connected TCP socket: small frames leave at once, and a peer whose host has gone is
/// noticed within half a minute even when nothing is sent.
void enable_fast_and_watched(int socket);

/// Transfers all bytes over a socket that does not block. A peer that has gone is `closed`.
[[nodiscard]] IoEnd write_all(int socket, std::span<const std::uint8_t> bytes, Deadline deadline);
[[nodiscard]] IoEnd read_exact(int socket, std::span<std::uint8_t> bytes, Deadline deadline);

/// Milliseconds left for poll(): rounded up, at least 0.
[[nodiscard]] int poll_timeout_ms(Deadline deadline);

}  // namespace lockstep
