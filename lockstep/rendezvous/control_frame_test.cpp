#include "lockstep/rendezvous/control_frame.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

namespace lockstep::rendezvous {
namespace {

Secret secret_of(std::uint8_t first) {
  Secret secret{};
  secret[0] = first;
  return secret;
}

JobKey key_of(std::uint8_t first, const std::string& run_id = "job") {
  return job_key(secret_of(first), run_id);
}

/// Hands over what `from` says, in pieces; what is left when `to` wants no more is lost.
void pass(Handshake& from, Handshake& to, std::size_t piece = 1000) {
  std::string said = from.take_output();
  while (!said.empty() && to.wanted_bytes() > 0) {
    const std::size_t count = std::min({piece, said.size(), to.wanted_bytes()});
    to.add(std::span(said.data(), count));
    said.erase(0, count);
  }
}

void converse(Handshake& caller, Handshake& answerer, std::size_t piece = 1000) {
  pass(caller, answerer, piece);
  pass(answerer, caller, piece);
  pass(caller, answerer, piece);
}

TEST(Handshake, ProvesTheKeyToBothAndGivesAKeyForEachDirection) {
  for (const std::size_t piece : {1UL, 7UL, 1000UL}) {
    Handshake caller(Side::caller, key_of(1));
    Handshake answerer(Side::answerer, key_of(1));
    converse(caller, answerer, piece);
    EXPECT_EQ(caller.state(), Handshake::State::done);
    EXPECT_EQ(answerer.state(), Handshake::State::done);
    EXPECT_EQ(caller.sending_key(), answerer.receiving_key());
    EXPECT_EQ(caller.receiving_key(), answerer.sending_key());
    EXPECT_NE(caller.sending_key(), caller.receiving_key());
    EXPECT_EQ(answerer.wanted_bytes(), 0U);
  }
}

TEST(Handshake, GivesEveryConnectionOtherKeys) {
  std::vector<Code> keys;
  for (int i = 0; i < 3; ++i) {
    Handshake caller(Side::caller, key_of(1));
    Handshake answerer(Side::answerer, key_of(1));
    converse(caller, answerer);
    keys.push_back(caller.sending_key());
  }
  EXPECT_NE(keys[0], keys[1]);
  EXPECT_NE(keys[1], keys[2]);
}

TEST(Handshake, TellsAnotherSecretFromAnotherJobOnBothSides) {
  using State = Handshake::State;
  const std::vector<std::pair<JobKey, State>> others{{key_of(2), State::other_secret},
                                                     {key_of(1, "x"), State::other_job},
                                                     {key_of(2, "x"), State::other_job}};
  for (const auto& [key, state] : others) {
    Handshake caller(Side::caller, key);
    Handshake answerer(Side::answerer, key_of(1));
    converse(caller, answerer);
    EXPECT_EQ(caller.state(), state);
    EXPECT_EQ(answerer.state(), state);
  }
}

TEST(Handshake, AStrangerIsKnownByTheFirstWrongByte) {
  const std::string proof_first("LSR1\x01\x00\x03\x00", 8);
  for (const std::string& said :
       {std::string("G"), std::string("LSR2"), std::string(1, '\0'), proof_first}) {
    Handshake answerer(Side::answerer, key_of(1));
    answerer.add(std::span(said.data(), said.size()));
    EXPECT_EQ(answerer.state(), Handshake::State::stranger);
    EXPECT_EQ(answerer.wanted_bytes(), 0U);
    EXPECT_EQ(answerer.take_output(), "") << "something was told to a stranger";
  }
}

TEST(Handshake, ItsOwnWordsBackAreNoProof) {
  Handshake caller(Side::caller, key_of(1));
  std::string hello = caller.take_output();
  hello[6] = 2;  // as if it were a challenge
  hello.resize(kChallengeBytes);
  caller.add(std::span(hello.data(), hello.size()));
  EXPECT_EQ(caller.state(), Handshake::State::other_secret);
}

TEST(Handshake, AnotherVersionIsToldToBoth) {
  Handshake answerer(Side::answerer, key_of(1));
  Handshake caller(Side::caller, key_of(1));
  std::string hello = caller.take_output();
  hello[4] = 9;
  answerer.add(std::span(hello.data(), hello.size()));
  EXPECT_EQ(answerer.state(), Handshake::State::other_version);
  EXPECT_EQ(answerer.other_version(), 9);
  std::string answer = answerer.take_output();
  ASSERT_EQ(answer.size(), 8U);
  answer[4] = 7;
  caller.add(std::span(answer.data(), answer.size()));
  EXPECT_EQ(caller.state(), Handshake::State::other_version);
}

/// A conversation overheard whole is worth nothing at another connection.
TEST(Handshake, OverheardWordsAreRefused) {
  Handshake caller(Side::caller, key_of(1));
  Handshake answerer(Side::answerer, key_of(1));
  std::string overheard = caller.take_output();
  answerer.add(std::span(overheard.data(), overheard.size()));
  pass(answerer, caller);
  const std::string proof = caller.take_output();
  answerer.add(std::span(proof.data(), proof.size()));
  ASSERT_EQ(answerer.state(), Handshake::State::done);
  Handshake victim(Side::answerer, key_of(1));
  victim.add(std::span(overheard.data(), overheard.size()));
  victim.add(std::span(proof.data(), proof.size()));
  EXPECT_EQ(victim.state(), Handshake::State::other_secret);
}

const Code kKey = hmac_sha256(secret_of(1), "frames");

std::vector<std::string> three_frames() {
  FrameSealer sealer(kKey);
  std::vector<std::string> frames(3);
  sealer.append(frames[0], FrameKind::join, "agent-1");
  sealer.append(frames[1], FrameKind::record, std::string(3000, 'r'));
  sealer.append(frames[2], FrameKind::leave, "");
  return frames;
}

/// How many frames are taken, and whether the rest is refused.
std::pair<int, bool> taken(const std::string& stream, std::size_t piece = 100'000) {
  FrameOpener opener(kKey);
  Frame frame;
  int count = 0;
  for (std::size_t at = 0; at < stream.size(); at += piece) {
    opener.add(std::span(stream.data() + at, std::min(piece, stream.size() - at)));
    while (true) {
      const auto took = opener.take(frame);
      if (took == FrameOpener::Took::refused) return {count, true};
      if (took == FrameOpener::Took::nothing) break;
      ++count;
    }
  }
  return {count, false};
}

TEST(ControlFrame, AreTakenAsTheyWereSaidHoweverTheyArrive) {
  const auto frames = three_frames();
  const std::string stream = frames[0] + frames[1] + frames[2];
  for (const std::size_t piece : {1UL, 13UL, 64UL, 100'000UL}) {
    EXPECT_EQ(taken(stream, piece), std::pair(3, false));
  }
  FrameOpener opener(kKey);
  opener.add(std::span(stream.data(), stream.size()));
  Frame frame;
  ASSERT_EQ(opener.take(frame), FrameOpener::Took::frame);
  EXPECT_EQ(frame, (Frame{FrameKind::join, "agent-1"}));
}

TEST(ControlFrame, RepeatedReorderedOrLeftOutAreRefused) {
  const auto f = three_frames();
  EXPECT_EQ(taken(f[0] + f[0]), std::pair(1, true));
  EXPECT_EQ(taken(f[1] + f[0]), std::pair(0, true));
  EXPECT_EQ(taken(f[0] + f[2]), std::pair(1, true));
  EXPECT_EQ(taken(f[0] + f[1] + f[0]), std::pair(2, true));
}

TEST(ControlFrame, ChangedInAnyByteAreRefused) {
  const std::string frame = three_frames()[0];
  for (std::size_t i = 0; i < frame.size(); ++i) {
    std::string changed = frame;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    // A changed length waits for bytes that come as zeros.
    EXPECT_EQ(taken(changed + std::string(kMaxPayloadBytes, '\0')), std::pair(0, true)) << i;
  }
}

TEST(ControlFrame, OfAnotherKeyAreRefused) {
  FrameOpener opener(hmac_sha256(secret_of(1), "the other direction"));
  const std::string frame = three_frames()[0];
  opener.add(std::span(frame.data(), frame.size()));
  Frame taken_frame;
  EXPECT_EQ(opener.take(taken_frame), FrameOpener::Took::refused);
  EXPECT_EQ(opener.refusal(), "a frame was changed on its way");
}

TEST(ControlFrame, ALengthOf64MebibytesIsRefusedBeforeMemoryIsTaken) {
  std::string head = three_frames()[0].substr(0, kFrameHeadBytes);
  const std::uint32_t length = 64U << 20U;
  std::memcpy(head.data() + 8, &length, sizeof length);
  FrameOpener opener(kKey);
  opener.add(std::span(head.data(), head.size()));
  Frame frame;
  EXPECT_EQ(opener.take(frame), FrameOpener::Took::refused);
  EXPECT_LT(opener.held_bytes(), 1000U);
  EXPECT_NE(opener.refusal().find("67108864 bytes"), std::string::npos);
}

TEST(ControlFrame, TheLongestIsTakenAndItsMemoryGivenBack) {
  FrameSealer sealer(kKey);
  std::string stream;
  sealer.append(stream, FrameKind::state, std::string(kMaxPayloadBytes, 's'));
  FrameOpener opener(kKey);
  opener.add(std::span(stream.data(), stream.size()));
  Frame frame;
  ASSERT_EQ(opener.take(frame), FrameOpener::Took::frame);
  EXPECT_EQ(frame.payload.size(), kMaxPayloadBytes);
  EXPECT_EQ(opener.take(frame), FrameOpener::Took::nothing);
  EXPECT_LT(opener.held_bytes(), 100'000U);
}

}  // namespace
}  // namespace lockstep::rendezvous
