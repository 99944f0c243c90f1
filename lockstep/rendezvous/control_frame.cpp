#include "lockstep/rendezvous/control_frame.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::rendezvous {
namespace {

static_assert(std::endian::native == std::endian::little, "heads are copied as they lie");

enum Message : std::uint8_t { hello = 1, challenge = 2, proof = 3 };
constexpr std::uint8_t kFrame = 4;
constexpr std::size_t kHeadBytes = 8;
constexpr std::size_t kJobBytes = 16;
constexpr std::size_t kNonceBytes = 32;
constexpr std::size_t kCodeBytes = 32;
constexpr std::size_t kKeptBytes = std::size_t{64} << 10;

/// Opens every message and every frame.
struct Head {
  std::uint32_t magic = kControlMagic;
  std::uint16_t version = kControlVersion;
  std::uint8_t message = 0;
  std::uint8_t kind = 0;  // of a frame
};
static_assert(sizeof(Head) == kHeadBytes);

struct FrameHead {
  Head head;
  std::uint32_t length = 0;  // of the payload
  std::uint32_t zero = 0;
  std::uint64_t counter = 0;
};
static_assert(sizeof(FrameHead) == kFrameHeadBytes);

template <class Value>
std::string_view raw(const Value& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

std::span<const std::uint8_t> code_at(const char* bytes) {
  return {reinterpret_cast<const std::uint8_t*>(bytes), kCodeBytes};
}

std::string_view text_of(std::span<const std::uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Side other(Side side) { return side == Side::caller ? Side::answerer : Side::caller; }

}  // namespace

Handshake::Handshake(Side side, const JobKey& key) : Handshake(side, key, random_secret()) {}

Handshake::Handshake(Side side, const JobKey& key, const Secret& nonce)
    : side_(side), key_(key), own_nonce_(nonce) {
  if (side == Side::caller) {
    say(hello, std::string(text_of(key_.job)) + std::string(text_of(own_nonce_)));
    expected_ = kChallengeBytes;
  } else {
    expected_ = kHelloBytes;
  }
}

void Handshake::say(std::uint8_t message, std::string_view rest) {
  const Head head{kControlMagic, kControlVersion, message, 0};
  output_.append(raw(head)).append(rest);
}

std::string Handshake::take_output() { return std::exchange(output_, {}); }

Code Handshake::code_of(Side side, std::string_view purpose) const {
  const bool is_caller = side_ == Side::caller;
  std::string text(purpose);
  text += side == Side::caller ? " of the caller" : " of the answerer";
  text += text_of(is_caller ? own_nonce_ : other_nonce_);
  text += text_of(is_caller ? other_nonce_ : own_nonce_);
  return hmac_sha256(key_.key, text);
}

Code Handshake::key_of(Side side) const { return code_of(side, "frames"); }
Code Handshake::receiving_key() const { return key_of(other(side_)); }

std::size_t Handshake::wanted_bytes() const {
  return state_ == State::under_way ? expected_ - count_ : 0;
}

void Handshake::add(std::span<const char> bytes) {
  LOCKSTEP_CHECK(bytes.size() <= wanted_bytes(), "more bytes than the handshake takes");
  std::copy(bytes.begin(), bytes.end(), input_.begin() + static_cast<std::ptrdiff_t>(count_));
  count_ += bytes.size();
  look();
}

/// A stranger is known by its first bytes: nobody waits for more of them.
void Handshake::look() {
  const std::string_view magic = raw(kControlMagic);
  if (std::memcmp(input_.data(), magic.data(), std::min(count_, magic.size())) != 0) {
    state_ = State::stranger;
    return;
  }
  if (count_ < kHeadBytes) return;
  Head head;
  std::memcpy(&head, input_.data(), kHeadBytes);
  const std::uint8_t awaited =
      side_ == Side::caller ? challenge : (expected_ == kHelloBytes ? hello : proof);
  if (head.message != awaited || head.kind != 0) {
    state_ = State::stranger;
    return;
  }
  other_version_ = head.version;
  if (head.version != kControlVersion) {
    // The caller learns the version from the head of the answer.
    if (awaited == hello) say(challenge, {});
    state_ = State::other_version;
    return;
  }
  if (count_ < expected_) return;
  if (awaited == proof) return check_code(kHeadBytes);
  look_at_opening(awaited);
}

void Handshake::look_at_opening(std::uint8_t message) {
  const char* nonce = input_.data() + kHeadBytes + kJobBytes;
  std::copy_n(reinterpret_cast<const std::uint8_t*>(nonce), kNonceBytes, other_nonce_.begin());
  const bool same_job = std::memcmp(input_.data() + kHeadBytes, key_.job.data(), kJobBytes) == 0;
  if (message == challenge) {
    // Also for an answerer with another secret: so it can tell who came with what.
    say(proof, text_of(code_of(Side::caller, "proof")));
    if (!same_job) {
      state_ = State::other_job;
    } else {
      check_code(kHelloBytes);
    }
    return;
  }
  say(challenge, std::string(text_of(key_.job)) + std::string(text_of(own_nonce_)) +
                     std::string(text_of(code_of(Side::answerer, "proof"))));
  if (!same_job) {
    state_ = State::other_job;
    return;
  }
  expected_ = kProofBytes;
  count_ = 0;
}

void Handshake::check_code(std::size_t offset) {
  const bool same = is_same_code(code_at(input_.data() + offset), code_of(other(side_), "proof"));
  state_ = same ? State::done : State::other_secret;
}

void FrameSealer::append(std::string& bytes, FrameKind kind, std::string_view payload) {
  LOCKSTEP_CHECK(payload.size() <= kMaxPayloadBytes, "a frame is too long");
  const FrameHead head{{kControlMagic, kControlVersion, kFrame, static_cast<std::uint8_t>(kind)},
                       static_cast<std::uint32_t>(payload.size()),
                       0,
                       counter_++};
  const std::size_t begin = bytes.size();
  bytes.append(raw(head)).append(payload);
  const Code code = hmac_sha256(key_, std::string_view(bytes).substr(begin));
  bytes.append(text_of(code));
}

FrameOpener::Took FrameOpener::refuse(const std::string& why) {
  refusal_ = why;
  return Took::refused;
}

FrameOpener::Took FrameOpener::take(Frame& frame) {
  if (!refusal_.empty()) return Took::refused;
  const std::size_t there = bytes_.size() - begin_;
  FrameHead head;
  if (there < kFrameHeadBytes) {
    bytes_.erase(0, begin_);
    begin_ = 0;
    if (bytes_.capacity() > kKeptBytes) bytes_.shrink_to_fit();
    return Took::nothing;
  }
  std::memcpy(&head, bytes_.data() + begin_, kFrameHeadBytes);
  const auto kind = static_cast<FrameKind>(head.head.kind);
  if (head.head.magic != kControlMagic || head.head.version != kControlVersion ||
      head.head.message != kFrame || kind < FrameKind::join || kind > FrameKind::leave ||
      head.zero != 0) {
    return refuse("what came is no frame");
  }
  if (head.length > kMaxPayloadBytes) {
    return refuse("a frame of " + std::to_string(head.length) + " bytes, more than " +
                  std::to_string(kMaxPayloadBytes));
  }
  if (head.counter != counter_) {
    return refuse("frame " + std::to_string(head.counter) + " came where " +
                  std::to_string(counter_) + " is next: repeated, left out or reordered");
  }
  const std::size_t sealed = kFrameHeadBytes + head.length;
  if (there < sealed + kCodeBytes) return Took::nothing;
  const auto bytes = std::string_view(bytes_).substr(begin_, sealed);
  if (!is_same_code(hmac_sha256(key_, bytes), code_at(bytes.data() + sealed))) {
    return refuse("a frame was changed on its way");
  }
  frame.kind = kind;
  frame.payload.assign(bytes.substr(kFrameHeadBytes));
  begin_ += sealed + kCodeBytes;
  ++counter_;
  return Took::frame;
}

}  // namespace lockstep::rendezvous
