// A server of the c10d TCPStore protocol for the ranks of a job: what PyTorch's and our own clients
// connect to. One thread, poll; length limits; wrong magic or oversized fields close the
// connection.
#pragma once
#include <memory>
#include <string>

namespace lockstep::store {

class Server {
 public:
  /// Listens on `host`:`port` (0 = a free one) or on "unix:<path>".
  /// \throws EnvironmentFault when the address cannot be bound, naming who holds the port.
  Server(const std::string& host, int port);
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server();
  [[nodiscard]] int port() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::store
