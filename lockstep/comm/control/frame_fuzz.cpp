// Any bytes as what a peer says: every frame that is taken is one that can be sent.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/comm/control/frame.h"
#include "tests/fuzz/verdict.h"

namespace control = lockstep::comm::control;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  control::FrameReader reader;
  const std::size_t half = size / 2;
  reader.add({bytes.data(), half});
  std::string taken;
  control::Frame frame;
  while (reader.take(frame) == control::FrameReader::Took::frame) control::append(taken, frame);
  reader.add({bytes.data() + half, size - half});
  while (reader.take(frame) == control::FrameReader::Took::frame) control::append(taken, frame);
  LOCKSTEP_CHECK(bytes.starts_with(taken), "frames are the stream they were cut from");
  lockstep::fuzz::accepted = taken == bytes;
  return 0;
}
