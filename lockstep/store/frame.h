// The requests of the c10d TCPStore protocol as bytes. Pure: no sockets. docs/formats/store.md.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/store/bytes.h"

namespace lockstep::store {

/// The first byte of a request.
enum class Query : std::uint8_t {
  validate,
  set,
  compare_set,
  get,
  add,
  check,
  wait,
  num_keys,
  delete_key,
  append,
  multi_get,
  multi_set,
  cancel_wait,
  ping,
  queue_push,
  queue_pop,
  queue_len,
  list_keys,
};
inline constexpr std::uint8_t kQueryCount = 18;
inline constexpr std::uint32_t kMagic = 0x3C85F7CE;

inline constexpr std::uint64_t kMaxKeyBytes = std::uint64_t{64} << 10;
inline constexpr std::uint64_t kMaxValueBytes = std::uint64_t{64} << 20;
inline constexpr std::uint64_t kMaxKeyCount = std::uint64_t{64} << 10;
inline constexpr std::uint64_t kMaxRequestBytes = std::uint64_t{256} << 20;

/// The one-byte answers.
inline constexpr std::uint8_t kReady = 0;
inline constexpr std::uint8_t kNotReady = 1;
inline constexpr std::uint8_t kStopWaiting = 0;
inline constexpr std::uint8_t kWaitCanceled = 1;

struct Request {
  Query query = Query::validate;
  std::vector<std::string> keys;
  std::vector<Bytes> values;
  std::uint64_t number = 0;  // validate: magic; ping: nonce; add: the amount, two's complement
};

enum class ParseStatus : std::uint8_t { need_more, complete, refused };

/// Reads one request from bytes that arrive in pieces. A length is checked before anything of that
/// length is allocated, and a field is copied only once all of it is here.
class RequestParser {
 public:
  /// \param bytes everything received since the request's first byte; may grow from call to call.
  [[nodiscard]] ParseStatus advance(std::span<const std::uint8_t> bytes);

  /// After `complete`: the request, how many bytes it took, and a parser ready for the next one.
  struct Parsed {
    Request request;
    std::size_t bytes = 0;
  };
  [[nodiscard]] Parsed take();

  /// After `refused`: why, for a log line.
  [[nodiscard]] const std::string& refusal() const { return refusal_; }

 private:
  [[nodiscard]] ParseStatus refuse(std::string why);
  [[nodiscard]] ParseStatus read_field(std::span<const std::uint8_t> bytes);
  [[nodiscard]] ParseStatus read_text(std::span<const std::uint8_t> bytes, bool is_key);

  Request request_;
  bool started_ = false;
  std::string_view fields_;    // letters of the fields still to read, see frame.cpp
  std::string_view repeated_;  // of one item of a counted list
  std::uint64_t items_left_ = 0;
  std::size_t position_ = 0;  // of the next field
  std::string refusal_;
};

/// Builds requests and replies: integers are little-endian, texts carry their length as u64.
class FrameWriter {
 public:
  FrameWriter() = default;
  explicit FrameWriter(Query query) { u8(static_cast<std::uint8_t>(query)); }
  FrameWriter& u8(std::uint8_t value);
  FrameWriter& u32(std::uint32_t value);
  FrameWriter& u64(std::uint64_t value);
  FrameWriter& text(std::string_view value);
  FrameWriter& text(const Bytes& value);
  [[nodiscard]] const Bytes& bytes() const { return bytes_; }
  [[nodiscard]] Bytes take() { return std::move(bytes_); }

 private:
  Bytes bytes_;
};

/// The little-endian integer in the first `width` (at most 8) bytes.
[[nodiscard]] std::uint64_t read_little_endian(std::span<const std::uint8_t> bytes,
                                               std::size_t width);

}  // namespace lockstep::store
