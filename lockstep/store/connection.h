// One client of the server: its bytes in, its bytes out, and how far its handshake is.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "lockstep/base/fd.h"
#include "lockstep/store/bytes.h"
#include "lockstep/store/frame.h"

namespace lockstep::store {

class Connection {
 public:
  explicit Connection(Fd socket) : socket_(std::move(socket)) {}

  [[nodiscard]] int fd() const { return socket_.get(); }
  [[nodiscard]] bool validated() const { return validated_; }
  /// Whether it has ever asked for something, beside the ping of the handshake.
  [[nodiscard]] bool has_asked() const { return asked_; }
  /// Memory that its requests and answers take while they are under way.
  [[nodiscard]] std::size_t buffered_bytes() const {
    return input_.capacity() + output_.capacity();
  }
  [[nodiscard]] std::chrono::steady_clock::time_point accepted_at() const { return accepted_at_; }
  /// Why it must be closed; empty while it is fine.
  [[nodiscard]] const std::string& fault() const { return fault_; }
  void set_fault(std::string why) { fault_ = std::move(why); }

  /// Reads what is there, one bounded piece, so that a flood from one client starves nobody.
  void receive();
  /// The next whole request, if one is here. The handshake is done inside. A client that does not
  /// read its answers gets no further request served until it does.
  [[nodiscard]] std::optional<Request> next_request();

  void queue_reply(const Bytes& bytes);
  /// Sends as much as the socket takes.
  void flush();
  [[nodiscard]] bool has_output() const { return sent_ < output_.size(); }
  [[nodiscard]] bool wants_input() const;

 private:
  Fd socket_;
  bool validated_ = false;
  bool asked_ = false;
  std::chrono::steady_clock::time_point accepted_at_ = std::chrono::steady_clock::now();
  std::string fault_;
  RequestParser parser_;
  Bytes input_;
  std::size_t consumed_ = 0;  // bytes of input_ that belong to requests already taken
  Bytes output_;
  std::size_t sent_ = 0;
};

}  // namespace lockstep::store
