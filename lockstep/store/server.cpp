#include "lockstep/store/server.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/base/limits.h"
#include "lockstep/base/socket.h"
#include "lockstep/store/connection.h"
#include "lockstep/store/table.h"

namespace lockstep::store {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kHandshakeDeadline{10};
constexpr std::chrono::milliseconds kAcceptPause{50};  // when descriptors ran out
constexpr std::size_t kMaxConnections = 16384;
constexpr int kAcceptsPerRound = 64;
constexpr std::size_t kMaxBufferedBytes = std::size_t{1} << 30;  // over all connections

/// Half of the descriptors this process may open: a flood must not take them from the rest of it.
std::size_t connection_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 256;
  return std::clamp<std::size_t>(limit.rlim_cur / 2, 16, kMaxConnections);
}

/// On a unix socket only this user and root may join; a TCP peer has no user.
bool may_join(int fd, bool is_unix) {
  if (!is_unix) return true;
  ucred peer{};
  socklen_t length = sizeof peer;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return false;
  return peer.uid == ::geteuid() || peer.uid == 0;
}

}  // namespace

struct Server::Impl {
  Impl(const std::string& host, int port)
      : listener(listen_on(host, port)),
        is_unix(host.starts_with("unix:")),
        wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!wake) throw limit_fault("the store cannot be served", errno);
  }

  void run();
  void accept_new();
  void admit(Fd socket);
  void drop_one_stranger();
  void limit_memory();
  void serve(ConnectionId id, Connection& connection);
  void deliver(const std::vector<Reply>& replies);
  void send_replies();
  void close_faulty();
  [[nodiscard]] std::vector<pollfd> poll_set() const;
  [[nodiscard]] int timeout_ms() const;

  Listener listener;
  bool is_unix;
  Fd wake;  // readable when the server must stop
  std::thread thread;
  Table table;
  std::map<ConnectionId, Connection> connections;
  std::uint64_t next_id = 1;
  std::size_t limit = connection_limit();
  Clock::time_point accept_again{};  // not before: descriptors ran out
};

std::vector<pollfd> Server::Impl::poll_set() const {
  const bool accepting = Clock::now() >= accept_again;
  std::vector<pollfd> set{{wake.get(), POLLIN, 0},
                          {listener.fd.get(), static_cast<short>(accepting ? POLLIN : 0), 0}};
  for (const auto& [id, connection] : connections) {
    const int events =
        (connection.wants_input() ? POLLIN : 0) | (connection.has_output() ? POLLOUT : 0);
    set.push_back({connection.fd(), static_cast<short>(events), 0});
  }
  return set;
}

int Server::Impl::timeout_ms() const {
  auto until = Clock::time_point::max();
  if (accept_again > Clock::now()) until = accept_again;
  for (const auto& [id, connection] : connections) {
    if (!connection.validated())
      until = std::min(until, connection.accepted_at() + kHandshakeDeadline);
  }
  return until == Clock::time_point::max() ? -1 : poll_timeout_ms(until);
}

void Server::Impl::run() {
  while (true) {
    auto set = poll_set();
    if (::poll(set.data(), set.size(), timeout_ms()) < 0 && errno != EINTR) return;
    if (set[0].revents != 0) return;
    std::size_t i = 2;
    for (auto& [id, connection] : connections) {
      const auto events = set[i++].revents;
      if ((events & POLLOUT) != 0) connection.flush();
      if ((events & (POLLIN | POLLHUP | POLLERR)) != 0) connection.receive();
      if (events != 0) serve(id, connection);
    }
    send_replies();
    close_faulty();
    if ((set[1].revents & POLLIN) != 0) accept_new();
  }
}

void Server::Impl::serve(ConnectionId id, Connection& connection) {
  while (auto request = connection.next_request()) {
    const auto outcome = table.apply(id, std::move(*request));
    deliver(outcome.replies);
    if (!outcome.refusal.empty()) connection.set_fault(outcome.refusal);
  }
}

void Server::Impl::deliver(const std::vector<Reply>& replies) {
  for (const auto& reply : replies) {
    const auto found = connections.find(reply.to);
    if (found != connections.end()) found->second.queue_reply(reply.bytes);
  }
}

/// A flush is always followed by serve(): room in the output may set a paused client going again.
/// What that adds to others leaves on the next round.
void Server::Impl::send_replies() {
  for (auto& [id, connection] : connections) {
    if (!connection.has_output()) continue;
    connection.flush();
    serve(id, connection);
  }
}

void Server::Impl::close_faulty() {
  const auto now = Clock::now();
  limit_memory();
  for (auto entry = connections.begin(); entry != connections.end();) {
    const Connection& connection = entry->second;
    const bool late =
        !connection.validated() && now >= connection.accepted_at() + kHandshakeDeadline;
    if (connection.fault().empty() && !late) {
      ++entry;
      continue;
    }
    table.forget(entry->first);
    entry = connections.erase(entry);
  }
}

/// Requests and answers under way have limits each; together they have one, too.
void Server::Impl::limit_memory() {
  std::size_t bytes = 0;
  auto largest = connections.end();
  for (auto entry = connections.begin(); entry != connections.end(); ++entry) {
    const std::size_t buffered = entry->second.buffered_bytes();
    bytes += buffered;
    if (largest == connections.end() || buffered > largest->second.buffered_bytes()) {
      largest = entry;
    }
  }
  if (bytes > kMaxBufferedBytes) largest->second.set_fault("the store's clients hold too much");
}

/// Makes room by closing the oldest connection that has not shown the magic number, or the oldest
/// that has not asked for anything since.
void Server::Impl::drop_one_stranger() {
  auto oldest = std::find_if(connections.begin(), connections.end(),
                             [](const auto& entry) { return !entry.second.validated(); });
  if (oldest == connections.end()) {
    oldest = std::find_if(connections.begin(), connections.end(),
                          [](const auto& entry) { return !entry.second.has_asked(); });
  }
  if (oldest != connections.end()) connections.erase(oldest);
}

void Server::Impl::accept_new() {
  for (int i = 0; i < kAcceptsPerRound; ++i) {
    Fd socket(::accept4(listener.fd.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket) {
      admit(std::move(socket));
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
      drop_one_stranger();
      accept_again = Clock::now() + kAcceptPause;
      return;
    } else if (errno == EAGAIN) {
      return;
    }
  }
}

void Server::Impl::admit(Fd socket) {
  if (!may_join(socket.get(), is_unix)) return;
  if (connections.size() >= limit) drop_one_stranger();
  if (connections.size() >= limit) return;
  if (!is_unix) enable_fast_and_watched(socket.get());
  connections.emplace(ConnectionId{next_id++}, std::move(socket));
}

Server::Server(const std::string& host, int port) : impl_(std::make_unique<Impl>(host, port)) {
  impl_->thread = std::thread([impl = impl_.get()] { impl->run(); });
}

Server::~Server() {
  const std::uint64_t one = 1;
  // The counter of an eventfd starts at 0, so this write cannot fall short.
  [[maybe_unused]] const auto written = ::write(impl_->wake.get(), &one, sizeof one);
  impl_->thread.join();
  if (!impl_->listener.unix_path.empty()) ::unlink(impl_->listener.unix_path.c_str());
}

int Server::port() const { return impl_->listener.port; }

}  // namespace lockstep::store
