#include "lockstep/comm/control/frame.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace lockstep::comm::control {
namespace {

using Took = FrameReader::Took;

const Frame kEntered{Word::entered, false, 0, 17, {0x20003, 409600}, "bucket 4: conv1.weight"};
const Frame kAbort{Word::abort, true, 3, 0, {}, std::string(300, 'x')};

TEST(ControlFrame, ComesBackWhateverTheStreamIsCutInto) {
  std::string bytes;
  for (const Frame& frame : {kEntered, Frame{}, kAbort, kEntered}) append(bytes, frame);
  for (const std::size_t part : {1U, 7U, 40U, 41U, 1000U}) {
    FrameReader reader;
    std::vector<Frame> came;
    for (std::size_t at = 0; at < bytes.size(); at += part) {
      reader.add({bytes.data() + at, std::min(part, bytes.size() - at)});
      Frame frame;
      while (reader.take(frame) == Took::frame) came.push_back(frame);
    }
    EXPECT_EQ(came, (std::vector<Frame>{kEntered, Frame{}, kAbort, kEntered})) << part;
  }
}

TEST(ControlFrame, CutsATextThatIsTooLong) {
  std::string bytes;
  append(bytes, {Word::abort, false, 0, 0, {}, std::string(5000, 'x')});
  EXPECT_EQ(bytes.size(), kHeadBytes + kTextBytes);
}

TEST(ControlFrame, RefusesWhatNoRankSays) {
  std::string good;
  append(good, kEntered);
  const auto taken_with = [&](std::size_t at, char value) {
    std::string bytes = good;
    bytes[at] = value;
    FrameReader reader;
    reader.add(bytes);
    Frame frame;
    return reader.take(frame);
  };
  EXPECT_EQ(taken_with(0, 'G'), Took::garbage) << "another magic";
  EXPECT_EQ(taken_with(33, 0x7f), Took::garbage) << "a text of 32 KiB";
  EXPECT_EQ(taken_with(34, 0), Took::garbage) << "no such word";
  EXPECT_EQ(taken_with(34, 9), Took::garbage) << "no such word";
  EXPECT_EQ(taken_with(36, 1), Took::garbage) << "bytes that mean nothing";
  EXPECT_EQ(taken_with(8, 1), Took::frame);
}

}  // namespace
}  // namespace lockstep::comm::control
