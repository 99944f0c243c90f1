// What the store knows: keys, queues, and who waits for which key. No sockets, no clock.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "lockstep/store/bytes.h"
#include "lockstep/store/frame.h"

namespace lockstep::store {

enum class ConnectionId : std::uint64_t {};

/// Bytes to send to a connection: the asker's answer, or the end of somebody's wait.
struct Reply {
  ConnectionId to{};
  Bytes bytes;
};

class Table {
 public:
  struct Outcome {
    std::vector<Reply> replies;
    std::string refusal;  // not empty: the request cannot be carried out, close the connection
  };

  Outcome apply(ConnectionId from, Request request);
  /// Drops the waits of a connection that has gone.
  void forget(ConnectionId connection);
  /// Bytes of all entries held, with a fixed charge for each.
  [[nodiscard]] std::uint64_t held_bytes() const { return held_bytes_; }

 private:
  void put(const std::string& key, Bytes value, Outcome& outcome);
  void append(const std::string& key, const Bytes& more, Outcome& outcome);
  void add(ConnectionId from, const Request& request, Outcome& outcome);
  void compare_set(ConnectionId from, Request& request, Outcome& outcome);
  void multi_get(ConnectionId from, const Request& request, Outcome& outcome) const;
  void list_keys(ConnectionId from, Outcome& outcome) const;
  void wait(ConnectionId from, const Request& request, Outcome& outcome);
  void queue_push(const std::string& key, Bytes value, Outcome& outcome);
  void queue_pop(ConnectionId from, const std::string& key, Outcome& outcome);
  void apply_write(ConnectionId from, Request& request, Outcome& outcome);
  void apply_read(ConnectionId from, const Request& request, Outcome& outcome);

  [[nodiscard]] bool present(const std::string& key) const;
  [[nodiscard]] bool has_room(std::uint64_t bytes, Outcome& outcome) const;
  [[nodiscard]] const Bytes& value_or_empty(const std::string& key) const;
  [[nodiscard]] std::size_t queue_length(const std::string& key) const;
  std::int64_t erase(const std::string& key);
  void wake(const std::string& key, std::size_t at_most, Outcome& outcome);

  std::unordered_map<std::string, Bytes> values_;
  std::unordered_map<std::string, std::deque<Bytes>> queues_;
  std::unordered_map<std::string, std::deque<ConnectionId>> waiters_;
  std::unordered_map<ConnectionId, std::unordered_set<std::string>>
      missing_;  // keys each waits for
  std::uint64_t held_bytes_ = 0;
};

}  // namespace lockstep::store
