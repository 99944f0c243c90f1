#include "lockstep/store/connection.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <span>

namespace lockstep::store {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{64} << 10;
constexpr std::size_t kKeptBytes = std::size_t{1} << 20;         // capacity a quiet buffer may keep
constexpr std::size_t kOutputPauseBytes = std::size_t{1} << 20;  // beyond it no request is served
constexpr std::size_t kOutputLimitBytes = 2 * kMaxRequestBytes;

/// Drops the first `count` bytes once that is all of them or a lot.
void drop_front(Bytes& bytes, std::size_t& count) {
  if (count < bytes.size() && count < kKeptBytes) return;
  bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(count));
  count = 0;
  if (bytes.empty() && bytes.capacity() > kKeptBytes) bytes = Bytes();
}

}  // namespace

bool Connection::wants_input() const { return output_.size() - sent_ <= kOutputPauseBytes; }

void Connection::receive() {
  std::array<std::uint8_t, kPieceBytes> piece;
  const ssize_t n = ::recv(fd(), piece.data(), piece.size(), 0);
  if (n > 0) {
    input_.insert(input_.end(), piece.begin(), piece.begin() + n);
  } else if (n == 0) {
    fault_ = "closed by the client";
  } else if (errno != EAGAIN && errno != EINTR) {
    fault_ = "connection lost";
  }
}

std::optional<Request> Connection::next_request() {
  while (fault_.empty() && wants_input()) {
    const auto rest = std::span<const std::uint8_t>(input_).subspan(consumed_);
    const bool stranger = !validated_ && !rest.empty() && rest[0] != 0;
    const ParseStatus status = stranger ? ParseStatus::refused : parser_.advance(rest);
    if (status == ParseStatus::need_more) return std::nullopt;
    if (status == ParseStatus::refused) {
      fault_ = stranger ? "no handshake" : parser_.refusal();
      return std::nullopt;
    }
    auto parsed = parser_.take();
    consumed_ += parsed.bytes;
    drop_front(input_, consumed_);
    if (validated_) {
      asked_ = asked_ || parsed.request.query != Query::ping;
      return std::move(parsed.request);
    }
    validated_ = parsed.request.number == kMagic;
    if (!validated_) fault_ = "wrong magic number";
  }
  return std::nullopt;
}

void Connection::queue_reply(const Bytes& bytes) {
  output_.insert(output_.end(), bytes.begin(), bytes.end());
  if (output_.size() - sent_ > kOutputLimitBytes) fault_ = "the client does not read its answers";
}

void Connection::flush() {
  while (has_output() && fault_.empty()) {
    const ssize_t n =
        ::send(fd(), output_.data() + sent_, output_.size() - sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) break;
    if (n < 0) {
      fault_ = "connection lost";
      break;
    }
    sent_ += static_cast<std::size_t>(n);
  }
  drop_front(output_, sent_);
}

}  // namespace lockstep::store
