// A reply of an HTTP/1.1 server as bytes that arrive in pieces. Pure: no sockets.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep::rendezvous {

inline constexpr std::size_t kMaxHeadBytes = std::size_t{16} << 10;
inline constexpr std::size_t kMaxBodyBytes = std::size_t{256} << 20;

/// Understands what etcd sends: a body with Content-Length, or in chunks (RFC 9112). Lengths are
/// checked before memory is taken for them.
class HttpReply {
 public:
  enum class Took : std::uint8_t { need_more, complete, refused };

  /// After `complete` nothing more may be added: a server says nothing that was not asked for.
  [[nodiscard]] Took add(std::string_view bytes);

  [[nodiscard]] int status() const { return status_; }
  [[nodiscard]] const std::string& body() const { return body_; }
  /// Whether the server closes the connection after it.
  [[nodiscard]] bool closes() const { return closes_; }
  /// After `refused`: why, for people.
  [[nodiscard]] const std::string& refusal() const { return refusal_; }

 private:
  enum class Part : std::uint8_t { head, body, chunk_size, chunk, chunk_end, trailer, end };

  [[nodiscard]] Took refuse(const std::string& why);
  [[nodiscard]] Took step();
  [[nodiscard]] bool take_line(std::string& line);
  [[nodiscard]] Took read_head();
  [[nodiscard]] bool read_field(const std::string& line);
  [[nodiscard]] Took read_chunk_size();
  void take_body(Part next);

  Part part_ = Part::head;
  std::string input_;  // not understood yet
  std::string body_;
  std::size_t left_ = 0;        // of the body or the chunk
  std::size_t head_bytes_ = 0;  // so far, with trailers
  int status_ = 0;              // 0 = the first line has not come
  bool has_length_ = false;
  bool is_chunked_ = false;
  bool closes_ = false;
  std::string refusal_;
};

}  // namespace lockstep::rendezvous
