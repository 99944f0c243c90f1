// A client of the c10d TCPStore protocol, without LibTorch. Facts: docs/formats/store.md.
#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/socket.h"
#include "lockstep/store/bytes.h"

namespace lockstep::store {

/// One connection; not thread-safe. Every call has a deadline. \throws EnvironmentFault (connection
/// lost, refused), PeerLost (a wait ran out of time: names the keys).
class Client {
 public:
  /// \param host name or address, or "unix:<path>" (port ignored).
  /// \param connect_deadline for the connection, and for the answer to the handshake.
  /// \param on_waiting told now and then while nothing answers there.
  Client(const std::string& host, int port, std::chrono::milliseconds connect_deadline,
         const OnWaiting& on_waiting = {});
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client();

  void set(const std::string& key, const Bytes& value);
  [[nodiscard]] Bytes compare_set(const std::string& key, const Bytes& expected,
                                  const Bytes& desired);
  /// Waits until the key exists.
  [[nodiscard]] Bytes get(const std::string& key, std::chrono::milliseconds deadline);
  [[nodiscard]] std::int64_t add(const std::string& key, std::int64_t amount);
  [[nodiscard]] bool check(const std::vector<std::string>& keys);
  void wait(const std::vector<std::string>& keys, std::chrono::milliseconds deadline);
  [[nodiscard]] bool delete_key(const std::string& key);
  [[nodiscard]] std::int64_t num_keys();
  void append(const std::string& key, const Bytes& value);
  /// In one request; a missing key's value is empty.
  [[nodiscard]] std::vector<Bytes> multi_get(const std::vector<std::string>& keys);
  void multi_set(const std::vector<std::string>& keys, const std::vector<Bytes>& values);
  void queue_push(const std::string& name, const Bytes& value);
  /// The oldest value, or nothing from an empty queue.
  [[nodiscard]] std::optional<Bytes> queue_pop(const std::string& name);
  [[nodiscard]] std::int64_t queue_length(const std::string& name);
  [[nodiscard]] std::vector<std::string> list_keys();
  /// Counts this client among those who have come: a server of PyTorch's may wait for all.
  void count_in();

  /// How long the store may take for a request that it can answer at once (30 s).
  void set_answer_deadline(std::chrono::milliseconds deadline);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::store
