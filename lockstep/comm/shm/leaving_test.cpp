// Ranks that leave or end while messages are on their way, and ranks that only fall silent.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/comm/shm/liveness.h"
#include "lockstep/comm/shm/process_pair_testing.h"
#include "lockstep/comm/shm/thread_ranks_testing.h"

namespace lockstep::comm::shm {
namespace {

using testing::Pair;
using testing::run_ranks;
using namespace std::chrono_literals;
using Bytes = std::vector<std::uint8_t>;

constexpr std::chrono::seconds kDeadline{60};
constexpr int kTag = 7;

TransferRequest request_of(bool sends, int peer, void* data, std::size_t bytes) {
  return {.sends = sends,
          .peer = peer,
          .tag = kTag,
          .type = ElementType::u8,
          .data = data,
          .bytes = bytes,
          .owner = nullptr};
}

Bytes counted(std::size_t bytes) {
  Bytes values(bytes);
  std::iota(values.begin(), values.end(), std::uint8_t{0});
  return values;
}

bool has_taken_some(const Segment& segment) { return segment.mailbox(0, 1).taken.value.load() > 0; }

TEST(Leaving, AReceiverThatClosesInTheMiddleOfAMessageIsNamedToItsSender) {
  bool in_the_middle = false;  // once in a while the message is through before it closes
  for (int attempt = 0; attempt < 100 && !in_the_middle; ++attempt) {
    const auto errors = run_ranks(2, [&](Engine& engine, const Segment& segment) {
      const Liveness liveness(segment);
      Bytes data(std::size_t{32} << 20);
      const bool sends = segment.rank() == 0;
      const auto transfer =
          engine.transfer(request_of(sends, 1 - segment.rank(), data.data(), data.size()));
      if (sends) {
        engine.wait(*transfer, kDeadline);
        return;
      }
      while (!has_taken_some(segment)) std::this_thread::yield();
      engine.close();
      in_the_middle = transfer->error() != nullptr;
    });
    EXPECT_EQ(errors[1], "");
    if (!in_the_middle) {
      EXPECT_EQ(errors[0], "");
      continue;
    }
    EXPECT_NE(errors[0].find("sending to rank 1 (tag 7): rank 1 has left the group"),
              std::string::npos)
        << errors[0];
    EXPECT_NE(errors[0].find("LS-4002"), std::string::npos) << errors[0];
  }
  EXPECT_TRUE(in_the_middle);
}

TEST(Leaving, ASmallMessagePostedBeforeItsSenderLeftIsStillReceived) {
  std::atomic<bool> left{false};
  const auto errors = run_ranks(2, [&](Engine& engine, const Segment& segment) {
    const std::size_t bytes = kMailPieces * segment.layout().mail_piece_bytes();
    Bytes data = segment.rank() == 0 ? counted(bytes) : Bytes(bytes);
    if (segment.rank() == 0) {
      {
        const Liveness liveness(segment);
        const auto transfer = engine.transfer(request_of(true, 1, data.data(), bytes));
        EXPECT_FALSE(transfer->done());
        engine.close();
      }
      left = true;
      return;
    }
    while (!left) std::this_thread::yield();
    engine.wait(*engine.transfer(request_of(false, 0, data.data(), bytes)), kDeadline);
    EXPECT_EQ(data, counted(bytes));
  });
  for (const auto& error : errors) EXPECT_EQ(error, "");
}

TEST(Leaving, ASenderThatClosesInTheMiddleOfAMessageIsNamedToItsReceiver) {
  std::atomic<bool> left{false};
  const auto errors = run_ranks(2, [&](Engine& engine, const Segment& segment) {
    const std::size_t bytes = (kMailPieces + 1) * segment.layout().mail_piece_bytes();
    Bytes data(bytes);
    if (segment.rank() == 0) {
      {
        const Liveness liveness(segment);
        (void)engine.transfer(request_of(true, 1, data.data(), bytes));
        engine.close();
      }
      left = true;
      return;
    }
    while (!left) std::this_thread::yield();
    engine.wait(*engine.transfer(request_of(false, 0, data.data(), bytes)), kDeadline);
  });
  EXPECT_NE(errors[1].find("receiving from rank 0 (tag 7): rank 0 has left the group"),
            std::string::npos)
      << errors[1];
}

/// Receives into memory of which only the first half is there.
void end_in_the_middle(const Segment& segment, std::size_t bytes) {
  void* const room = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ::mprotect(room, bytes / 2, PROT_READ | PROT_WRITE);
  for (const int number : {SIGSEGV, SIGBUS}) ::signal(number, [](int) { ::_exit(0); });
  const Liveness liveness(segment);
  Engine engine(segment, {.crowded = true, .name = "test"});
  engine.wait(*engine.transfer(request_of(false, 0, room, bytes)), kDeadline);
}

TEST(Leaving, AProcessThatEndsInTheMiddleOfAMessageIsNamedToItsSender) {
  Bytes data(std::size_t{1} << 20);
  const Pair pair([&](const Segment& segment) { end_in_the_middle(segment, data.size()); });
  const Segment segment(pair.bytes(), 0, 2);
  const Liveness liveness(segment);
  Engine engine(segment, {.crowded = true, .name = "test"});
  try {
    engine.wait(*engine.transfer(request_of(true, 1, data.data(), data.size())), kDeadline);
    FAIL() << "a message was sent to nobody";
  } catch (const PeerLost& lost) {
    const std::string text = lost.what();
    EXPECT_NE(text.find("rank 1 (process " + std::to_string(pair.child()) + ") ended"),
              std::string::npos)
        << text;
  }
  const std::uint64_t pieces = data.size() / segment.layout().mail_piece_bytes();
  EXPECT_EQ(segment.mailbox(0, 1).taken.value.load(), pieces / 2);
}

/// What becomes of a group whose rank 1 says nothing and holds no life word, for a second at most.
std::string reason_for_silence_of(const Pair& pair, std::chrono::milliseconds patience) {
  const Segment segment(pair.bytes(), 0, 2);
  segment.block(1).process.store(pair.child());
  segment.block(1).heartbeat_ns.store(1);
  const Liveness liveness(segment, {.heartbeat = 5ms, .silence = 20ms});
  const auto limit = std::chrono::steady_clock::now() + patience;
  while (!segment.aborted() && std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(1ms);
  }
  return segment.aborted() ? segment.end().reason : "";
}

void pause_for_ever(const Segment& /*segment*/) {
  for (;;) ::pause();
}

void wait_until(const Pair& pair, int what) {
  siginfo_t info{};
  ::waitid(P_PID, static_cast<id_t>(pair.child()), &info, what | WNOWAIT);
}

TEST(Silence, OfAProcessThatRunsEndsNothing) {
  const Pair pair(pause_for_ever);
  EXPECT_EQ(reason_for_silence_of(pair, 200ms), "");
}

TEST(Silence, OfAStoppedProcessIsToldAsSuch) {
  const Pair pair(pause_for_ever);
  ::kill(pair.child(), SIGSTOP);
  wait_until(pair, WSTOPPED);
  const std::string reason = reason_for_silence_of(pair, kDeadline);
  EXPECT_NE(reason.find(std::to_string(pair.child()) + ") is stopped (state T)"), std::string::npos)
      << reason;
}

TEST(Silence, OfAZombieIsAnEnd) {
  const Pair pair([](const Segment&) {});
  wait_until(pair, WEXITED);  // and nobody fetches its exit status
  const std::string reason = reason_for_silence_of(pair, kDeadline);
  EXPECT_NE(reason.find(std::to_string(pair.child()) + ") ended"), std::string::npos) << reason;
}

TEST(Silence, OfAProcessThatIsNoMoreIsAnEnd) {
  Pair pair([](const Segment&) {});
  wait_until(pair, WEXITED);
  int status = 0;
  ::waitpid(pair.child(), &status, 0);
  const std::string reason = reason_for_silence_of(pair, kDeadline);
  EXPECT_NE(reason.find(std::to_string(pair.child()) + ") ended"), std::string::npos) << reason;
}

}  // namespace
}  // namespace lockstep::comm::shm
