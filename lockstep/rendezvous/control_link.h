// One connection between two agents: handshake first, frames after. Never blocks.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lockstep/base/fd.h"
#include "lockstep/rendezvous/control_frame.h"

namespace lockstep::rendezvous {

class ControlLink {
 public:
  /// Why it is over.
  enum class End : std::uint8_t {
    open,
    closed,  // by the other side or the network
    stranger,
    other_version,
    other_job,
    other_secret,
    bad_frame,
  };

  /// \param socket connected; what it sends leaves at once, and what is not acknowledged within
  /// five seconds closes it.
  ControlLink(Fd socket, Side side, const JobKey& key);

  [[nodiscard]] int fd() const { return socket_.get(); }
  [[nodiscard]] const std::string& peer() const { return peer_; }  // "10.0.0.7:43210"
  /// Whether the other side knows the job's key.
  [[nodiscard]] bool is_proved() const { return sealer_.has_value(); }
  [[nodiscard]] End end() const { return end_; }
  /// For people, after the end: "sent a frame of 70000000 bytes, ...".
  [[nodiscard]] std::string end_text() const;

  /// Reads what is there, one bounded piece.
  void receive();
  /// The next frame, if one is here.
  [[nodiscard]] std::optional<Frame> next();

  /// After is_proved().
  void send(FrameKind kind, std::string_view payload);
  /// Sends as much as the socket takes.
  void flush();
  [[nodiscard]] bool has_output() const { return sent_ < output_.size(); }
  /// Nothing more will be sent; what the other side says is read and forgotten.
  void finish_sending();

 private:
  void read_handshake();
  void read_frames();
  void over(End end);

  Fd socket_;
  std::string peer_;
  std::optional<Handshake> handshake_;
  std::optional<FrameSealer> sealer_;
  std::optional<FrameOpener> opener_;
  std::string output_;
  std::size_t sent_ = 0;
  End end_ = End::open;
};

}  // namespace lockstep::rendezvous
