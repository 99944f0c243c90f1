// What agents say to each other, as bytes: a handshake in which both prove that they know the job's
// key, then frames that nobody else can make, change, repeat or reorder. Pure: no sockets.
// docs/formats/control.md.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/rendezvous/job_secret.h"

namespace lockstep::rendezvous {

inline constexpr std::uint32_t kControlMagic = 0x3152534C;  // "LSR1" in a stream
inline constexpr std::uint16_t kControlVersion = 1;
inline constexpr std::size_t kHelloBytes = 56;      // head 8, job 16, nonce 32
inline constexpr std::size_t kChallengeBytes = 88;  // the same, code 32
inline constexpr std::size_t kProofBytes = 40;      // head 8, code 32
inline constexpr std::size_t kFrameHeadBytes = 24;  // head 8, length, 0, counter
inline constexpr std::size_t kMaxPayloadBytes = std::size_t{2} << 20;

/// The caller connected, the answerer was connected to. Codes of the two are never the same.
enum class Side : std::uint8_t { caller, answerer };

/// Three messages: the caller's nonce; the answerer's nonce, and its code over both nonces; the
/// caller's code over both. Whoever knows the job's key can make the codes, and nobody can use one
/// twice, for each side's nonce is new. What follows has keys made of both nonces.
class Handshake {
 public:
  enum class State : std::uint8_t {
    under_way,
    done,
    stranger,       // what came is no handshake
    other_version,  // of this protocol
    other_job,      // another run id
    other_secret,   // the same run id
  };

  Handshake(Side side, const JobKey& key);
  /// \param nonce what the other constructor draws at random.
  Handshake(Side side, const JobKey& key, const Secret& nonce);

  /// How many bytes to read at most: nothing after the handshake is taken for a part of it, and a
  /// stranger fills no memory. 0 = it has ended.
  [[nodiscard]] std::size_t wanted_bytes() const;
  /// Takes at most that many.
  void add(std::span<const char> bytes);
  [[nodiscard]] State state() const { return state_; }
  /// What is to be sent now; also after the end.
  [[nodiscard]] std::string take_output();

  /// After `done`: of the frames that this side sends, and of those it gets.
  [[nodiscard]] Code sending_key() const { return key_of(side_); }
  [[nodiscard]] Code receiving_key() const;
  [[nodiscard]] std::uint16_t other_version() const { return other_version_; }

 private:
  [[nodiscard]] Code code_of(Side side, std::string_view purpose) const;
  [[nodiscard]] Code key_of(Side side) const;
  void say(std::uint8_t message, std::string_view rest);
  void look();
  void look_at_opening(std::uint8_t message);
  void check_code(std::size_t offset);

  Side side_;
  JobKey key_;
  Secret own_nonce_;
  Secret other_nonce_{};
  State state_ = State::under_way;
  std::uint16_t other_version_ = 0;
  std::array<char, kChallengeBytes> input_{};  // of the message that is awaited
  std::size_t count_ = 0;
  std::size_t expected_ = 0;
  std::string output_;
};

enum class FrameKind : std::uint8_t {
  join = 1,  // caller: its agent's id
  welcome,   // answerer: who leads, see WelcomeText
  record,    // caller: number, then an agent's record
  heard,     // answerer: number of the record
  state,     // answerer: the job's state
  leave,     // caller: it goes on purpose
};

struct Frame {
  FrameKind kind = FrameKind::heard;
  std::string payload;

  friend bool operator==(const Frame&, const Frame&) = default;
};

/// Makes the frames of one direction of one connection.
class FrameSealer {
 public:
  explicit FrameSealer(const Code& key) : key_(key) {}
  /// Appends head, payload and code. \param payload at most kMaxPayloadBytes.
  void append(std::string& bytes, FrameKind kind, std::string_view payload);

 private:
  Code key_;
  std::uint64_t counter_ = 0;
};

/// Cuts a stream into frames. A length is checked before memory is taken for it, and nothing is
/// handed out that was changed, repeated, left out or reordered on the way.
class FrameOpener {
 public:
  enum class Took : std::uint8_t { frame, nothing, refused };

  explicit FrameOpener(const Code& key) : key_(key) {}
  void add(std::span<const char> bytes) { bytes_.append(bytes.data(), bytes.size()); }
  /// The next whole frame, if it is there; after `refused` there is no way on.
  [[nodiscard]] Took take(Frame& frame);
  /// Why, for people.
  [[nodiscard]] const std::string& refusal() const { return refusal_; }
  [[nodiscard]] std::size_t held_bytes() const { return bytes_.capacity(); }

 private:
  [[nodiscard]] Took refuse(const std::string& why);

  Code key_;
  std::uint64_t counter_ = 0;
  std::string bytes_;
  std::size_t begin_ = 0;  // of what is not taken yet
  std::string refusal_;
};

}  // namespace lockstep::rendezvous
