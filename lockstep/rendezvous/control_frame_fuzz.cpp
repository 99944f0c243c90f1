// Fuzz target: hostile bytes into both sides of the handshake and into the frames after it. The
// first byte says whom they are said to, and whether their codes are made right first.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>

#include "lockstep/rendezvous/control_frame.h"
#include "tests/fuzz/verdict.h"

namespace {

namespace rendezvous = lockstep::rendezvous;
using rendezvous::FrameOpener;
using rendezvous::Handshake;
using Bytes = std::span<const char>;

constexpr rendezvous::Secret kNonce{9};

/// Everything the handshake takes, `piece` bytes at a time; what it says and how it ends.
std::string shake_hands(rendezvous::Side side, Bytes bytes, std::size_t piece) {
  Handshake handshake(side, rendezvous::job_key({1}, "job"), kNonce);
  std::string said = handshake.take_output();
  while (!bytes.empty() && handshake.wanted_bytes() > 0) {
    const std::size_t count = std::min({piece, bytes.size(), handshake.wanted_bytes()});
    handshake.add(bytes.first(count));
    bytes = bytes.subspan(count);
    said += handshake.take_output();
  }
  if (handshake.state() == Handshake::State::done) std::abort();  // nobody knows the key
  lockstep::fuzz::accepted = bytes.empty() && handshake.state() == Handshake::State::under_way;
  return said + static_cast<char>(handshake.state());
}

/// What is taken, sealed again, is what was said.
std::string take_frames(const lockstep::Code& key, Bytes bytes, std::size_t piece) {
  FrameOpener opener(key);
  rendezvous::FrameSealer sealer(key);
  std::string taken;
  rendezvous::Frame frame;
  auto took = FrameOpener::Took::nothing;
  for (auto rest = bytes; !rest.empty() && took != FrameOpener::Took::refused;) {
    const std::size_t count = std::min(piece, rest.size());
    opener.add(rest.first(count));
    rest = rest.subspan(count);
    while ((took = opener.take(frame)) == FrameOpener::Took::frame) {
      sealer.append(taken, frame.kind, frame.payload);
    }
  }
  if (taken.size() > bytes.size() || std::memcmp(taken.data(), bytes.data(), taken.size()) != 0) {
    std::abort();
  }
  lockstep::fuzz::accepted = taken.size() == bytes.size();
  return taken + opener.refusal();
}

/// The bytes cut at zeros, each a payload of a frame with a right code.
std::string sealed(const lockstep::Code& key, Bytes bytes) {
  rendezvous::FrameSealer sealer(key);
  std::string stream;
  while (!bytes.empty()) {
    const auto end = std::find(bytes.begin(), bytes.end(), '\0');
    const auto count = static_cast<std::size_t>(end - bytes.begin());
    const auto kind = static_cast<rendezvous::FrameKind>(1 + count % 6);
    sealer.append(stream, kind, {bytes.data(), count});
    bytes = bytes.subspan(std::min(bytes.size(), count + 1));
  }
  return stream;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const Bytes bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const lockstep::Code key = lockstep::hmac_sha256(kNonce, "frames");
  const std::size_t piece = 1 + data[0] / 4;
  if (data[0] % 4 < 2) {
    const auto side = data[0] % 4 == 0 ? rendezvous::Side::caller : rendezvous::Side::answerer;
    if (shake_hands(side, bytes, piece) != shake_hands(side, bytes, size)) std::abort();
  } else if (data[0] % 4 == 2) {
    if (take_frames(key, bytes, piece) != take_frames(key, bytes, size)) std::abort();
  } else {
    const std::string stream = sealed(key, bytes);
    if (take_frames(key, stream, piece) != stream) std::abort();
  }
  return 0;
}
