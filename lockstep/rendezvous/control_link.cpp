#include "lockstep/rendezvous/control_link.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <span>
#include <utility>

#include "lockstep/base/socket.h"
#include "lockstep/base/socket_address.h"

namespace lockstep::rendezvous {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{64} << 10;
constexpr std::size_t kKeptBytes = std::size_t{64} << 10;  // capacity a sent buffer may keep
constexpr int kUserTimeoutMs = 5000;

ControlLink::End end_of(Handshake::State state) {
  switch (state) {
    case Handshake::State::stranger:
      return ControlLink::End::stranger;
    case Handshake::State::other_version:
      return ControlLink::End::other_version;
    case Handshake::State::other_job:
      return ControlLink::End::other_job;
    case Handshake::State::other_secret:
      return ControlLink::End::other_secret;
    default:
      return ControlLink::End::open;
  }
}

}  // namespace

ControlLink::ControlLink(Fd socket, Side side, const JobKey& key)
    : socket_(std::move(socket)),
      peer_(peer_text(socket_.get())),
      handshake_(Handshake(side, key)) {
  enable_fast_and_watched(socket_.get());
  ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &kUserTimeoutMs,
               sizeof kUserTimeoutMs);
  output_ = handshake_->take_output();
  flush();
}

void ControlLink::over(End end) {
  if (end_ == End::open) end_ = end;
}

std::string ControlLink::end_text() const {
  switch (end_) {
    case End::open:
      return "is connected";
    case End::closed:
      return is_proved() ? "closed the connection"
                         : "closed the connection before it proved itself";
    case End::stranger:
      return "is no agent of lockstep";
    case End::other_version:
      return "speaks version " + std::to_string(handshake_->other_version()) +
             " of the control protocol, this agent version " + std::to_string(kControlVersion);
    case End::other_job:
      return "is an agent of another job (another --rdzv-id)";
    case End::other_secret:
      return "has another job secret";
    case End::bad_frame:
      return "sent " + opener_->refusal();
  }
  return {};
}

void ControlLink::receive() {
  if (end_ != End::open) return;
  if (is_proved()) {
    read_frames();
  } else {
    read_handshake();
  }
}

void ControlLink::read_handshake() {
  std::array<char, kChallengeBytes> piece;
  const ssize_t n = ::recv(fd(), piece.data(), handshake_->wanted_bytes(), 0);
  if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) return over(End::closed);
  if (n < 0) return;
  handshake_->add({piece.data(), static_cast<std::size_t>(n)});
  output_ += handshake_->take_output();
  if (handshake_->state() == Handshake::State::done) {
    sealer_.emplace(handshake_->sending_key());
    opener_.emplace(handshake_->receiving_key());
    handshake_.reset();
  }
  flush();  // also what tells the other side why it is refused
  if (handshake_.has_value()) over(end_of(handshake_->state()));
}

void ControlLink::read_frames() {
  thread_local std::array<char, kPieceBytes> piece;
  const ssize_t n = ::recv(fd(), piece.data(), piece.size(), 0);
  if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) return over(End::closed);
  if (n > 0) opener_->add({piece.data(), static_cast<std::size_t>(n)});
}

std::optional<Frame> ControlLink::next() {
  // What came before the connection ended still counts.
  if (!is_proved() || end_ == End::bad_frame) return std::nullopt;
  Frame frame;
  const auto took = opener_->take(frame);
  if (took == FrameOpener::Took::frame) return frame;
  if (took == FrameOpener::Took::refused) end_ = End::bad_frame;
  return std::nullopt;
}

void ControlLink::send(FrameKind kind, std::string_view payload) {
  if (end_ != End::open) return;
  sealer_->append(output_, kind, payload);
  flush();
}

void ControlLink::flush() {
  while (has_output() && end_ == End::open) {
    const ssize_t n =
        ::send(fd(), output_.data() + sent_, output_.size() - sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n < 0) break;  // receive() finds the end, after all that still came
    sent_ += static_cast<std::size_t>(n);
  }
  output_.clear();
  sent_ = 0;
  if (output_.capacity() > kKeptBytes) output_.shrink_to_fit();
}

void ControlLink::finish_sending() { ::shutdown(fd(), SHUT_WR); }

}  // namespace lockstep::rendezvous
