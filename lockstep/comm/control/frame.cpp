#include "lockstep/comm/control/frame.h"

#include <algorithm>
#include <cstring>

namespace lockstep::comm::control {
namespace {

struct Head {
  std::uint32_t magic;
  std::uint32_t rank;
  std::uint64_t sequence;
  std::uint64_t kind;
  std::uint64_t count;
  std::uint16_t text_bytes;
  std::uint8_t word;
  std::uint8_t disagreement;
  std::uint32_t unused;
};
static_assert(sizeof(Head) == kHeadBytes);

}  // namespace

void append(std::string& bytes, const Frame& frame) {
  const std::size_t text_bytes = std::min(frame.text.size(), kTextBytes);
  const Head head{kMagic,
                  frame.rank,
                  frame.sequence,
                  frame.fingerprint.kind,
                  frame.fingerprint.count,
                  static_cast<std::uint16_t>(text_bytes),
                  static_cast<std::uint8_t>(frame.word),
                  static_cast<std::uint8_t>(frame.disagreement),
                  0};
  char raw[kHeadBytes];
  std::memcpy(raw, &head, kHeadBytes);
  bytes.append(raw, kHeadBytes);
  bytes.append(frame.text, 0, text_bytes);
}

FrameReader::Took FrameReader::take(Frame& frame) {
  if (bytes_.size() - begin_ < kHeadBytes) {
    bytes_.erase(0, begin_);
    begin_ = 0;
    return Took::nothing;
  }
  Head head{};
  std::memcpy(&head, bytes_.data() + begin_, kHeadBytes);
  const auto word = static_cast<Word>(head.word);
  if (head.magic != kMagic || word < Word::hello || word > Word::abort ||
      head.text_bytes > kTextBytes || head.disagreement > 1 || head.unused != 0) {
    return Took::garbage;
  }
  if (bytes_.size() - begin_ < kHeadBytes + head.text_bytes) return Took::nothing;
  frame.word = word;
  frame.disagreement = head.disagreement != 0;
  frame.rank = head.rank;
  frame.sequence = head.sequence;
  frame.fingerprint = {head.kind, head.count};
  frame.text.assign(bytes_, begin_ + kHeadBytes, head.text_bytes);
  begin_ += kHeadBytes + head.text_bytes;
  return Took::frame;
}

}  // namespace lockstep::comm::control
