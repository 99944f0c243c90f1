// What ranks say to each other on their control connections, as bytes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "lockstep/comm/shm/layout.h"

namespace lockstep::comm::control {

inline constexpr std::uint32_t kMagic = 0x4c534331;  // "LSC1"; bytes in the other order are refused
inline constexpr std::size_t kHeadBytes = 40;
inline constexpr std::size_t kTextBytes = 1024;  // at most

enum class Word : std::uint8_t {
  hello =
      1,    // the first of whoever connected: rank, and in `sequence` the token of the other's card
  entered,  // a collective: sequence, fingerprint; text = call site
  alive,
  left,   // on purpose: enters nothing more
  abort,  // the group is over; text = why
};

struct Frame {
  Word word = Word::alive;
  bool disagreement = false;  // abort: ranks entered different collectives; else one was lost
  std::uint32_t rank = 0;     // hello
  std::uint64_t sequence = 0;
  shm::Fingerprint fingerprint{};
  std::string text{};  // cut to kTextBytes

  friend bool operator==(const Frame&, const Frame&) = default;
};

/// Appends the frame to `bytes`: a head of kHeadBytes, then the text.
void append(std::string& bytes, const Frame& frame);

/// Cuts a stream into frames. A length that a frame cannot have is found before it is used.
class FrameReader {
 public:
  enum class Took : std::uint8_t { frame, nothing, garbage };

  void add(std::span<const char> bytes) { bytes_.append(bytes.data(), bytes.size()); }
  /// The next whole frame, if it is there; after garbage there is no way on.
  [[nodiscard]] Took take(Frame& frame);

 private:
  std::string bytes_;
  std::size_t begin_ = 0;  // of what is not taken yet
};

}  // namespace lockstep::comm::control
