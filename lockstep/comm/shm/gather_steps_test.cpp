// Large all_gathers by every way there is, and where one of them ends in the middle.
#include "lockstep/comm/shm/gather_steps.h"

#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/comm/shm/engine.h"
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
constexpr int kAllWays = 10;                      // all_gathers: three trials of each way, and more
constexpr std::size_t kPart = (128U << 10) + 77;  // no multiple of a piece or a vector

Bytes part_of(int rank, int number, std::size_t bytes) {
  Bytes part(bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    part[i] = static_cast<std::uint8_t>(i * 31 + i / 251 + static_cast<std::size_t>(number) * 7 +
                                        static_cast<std::size_t>(rank) * 101);
  }
  return part;
}

Bytes all_parts(int ranks, int number, std::size_t bytes) {
  Bytes all;
  for (int r = 0; r < ranks; ++r) {
    const Bytes part = part_of(r, number, bytes);
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

std::shared_ptr<Operation> issue(Engine& engine, const void* input, void* output,
                                 std::size_t bytes) {
  Request request;
  request.kind.collective = Collective::all_gather;
  request.count = bytes;
  request.input = input;
  request.output = output;
  return engine.issue(std::move(request));
}

void barrier(Engine& engine) { engine.wait(*engine.issue({}), kDeadline); }

/// Pieces that this rank has put into its ring so far; an all_gather by reading counts as one.
std::uint64_t steps_of(const Segment& segment) { return segment.own().staged.value.load(); }

TEST(GatherSteps, EveryWayBringsAllPartsAndInputsMayChangeAtOnce) {
  for (const int ranks : {2, 3, 4}) {
    for (const std::size_t bytes : {kDirectBytes + 1, kPart, (std::size_t{1} << 20) + 4099}) {
      const auto errors = run_ranks(ranks, [&](Engine& engine, const Segment& segment) {
        barrier(engine);
        int read = 0;
        Bytes input(bytes);
        Bytes output(bytes * static_cast<std::size_t>(ranks));
        for (int k = 0; k < kAllWays; ++k) {
          input = part_of(segment.rank(), k, bytes);
          output.assign(output.size(), 0);
          const std::uint64_t before = steps_of(segment);
          engine.wait(*issue(engine, input.data(), output.data(), bytes), kDeadline);
          if (steps_of(segment) == before + 1) ++read;
          input.assign(bytes, 0xee);
          EXPECT_EQ(output, all_parts(ranks, k, bytes)) << "all_gather " << k;
        }
        EXPECT_GE(read, 3);
        EXPECT_LE(read, kAllWays - 6);
      });
      for (const auto& error : errors) EXPECT_EQ(error, "");
    }
  }
}

TEST(GatherSteps, APartMayLieWhereItsResultBelongs) {
  const auto errors = run_ranks(2, [&](Engine& engine, const Segment& segment) {
    barrier(engine);
    for (int k = 0; k < kAllWays; ++k) {
      const Bytes part = part_of(segment.rank(), k, kPart);
      Bytes output(2 * kPart);
      std::uint8_t* const own = output.data() + static_cast<std::size_t>(segment.rank()) * kPart;
      std::copy(part.begin(), part.end(), own);
      engine.wait(*issue(engine, own, output.data(), kPart), kDeadline);
      EXPECT_EQ(output, all_parts(2, k, kPart));
    }
  });
  for (const auto& error : errors) EXPECT_EQ(error, "");
}

TEST(GatherSteps, ManyMayBeInFlight) {
  const auto errors = run_ranks(3, [&](Engine& engine, const Segment& segment) {
    barrier(engine);
    std::vector<Bytes> inputs;
    std::vector<Bytes> outputs(2 * kAllWays, Bytes(3 * kPart));
    std::vector<std::shared_ptr<Operation>> operations;
    for (int k = 0; k < 2 * kAllWays; ++k) inputs.push_back(part_of(segment.rank(), k, kPart));
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      operations.push_back(issue(engine, inputs[k].data(), outputs[k].data(), kPart));
    }
    for (std::size_t k = inputs.size(); k-- > 0;) {
      engine.wait(*operations[k], kDeadline);
      EXPECT_EQ(outputs[k], all_parts(3, static_cast<int>(k), kPart));
    }
  });
  for (const auto& error : errors) EXPECT_EQ(error, "");
}

TEST(GatherSteps, ARankThatClosesInTheMiddleIsNamedAndNobodyTakesItsMemory) {
  bool in_the_middle = false;
  for (int attempt = 0; attempt < 100 && !in_the_middle; ++attempt) {
    std::array<Bytes, 2> inputs{part_of(0, 0, kPart), part_of(1, 0, kPart)};
    std::array<Bytes, 2> outputs{Bytes(2 * kPart), Bytes(2 * kPart)};
    const auto errors = run_ranks(2, [&](Engine& engine, const Segment& segment) {
      const auto me = static_cast<std::size_t>(segment.rank());
      const Liveness liveness(segment);
      barrier(engine);
      const auto operation = issue(engine, inputs[me].data(), outputs[me].data(), kPart);
      if (me == 0) return engine.wait(*operation, kDeadline);
      engine.close();
      in_the_middle = operation->error() != nullptr;
    });
    EXPECT_EQ(errors[1], "");
    if (in_the_middle) {
      EXPECT_NE(errors[0].find("all_gather #2: rank 1 has left the group"), std::string::npos)
          << errors[0];
    } else {
      EXPECT_EQ(errors[0], "");
      EXPECT_EQ(outputs[0], all_parts(2, 0, kPart));
    }
  }
  EXPECT_TRUE(in_the_middle);
}

// --- ranks that are processes -----------------------------------------------------------------

/// All_gathers of one rank; \returns how many of them had the right result.
int gather_some(const Segment& segment, int gathers) {
  const Liveness liveness(segment);
  Engine engine(segment, {.crowded = true, .name = "test"});
  barrier(engine);
  int right = 0;
  for (int k = 0; k < gathers; ++k) {
    const Bytes input = part_of(segment.rank(), k, kPart);
    Bytes output(2 * kPart);
    engine.wait(*issue(engine, input.data(), output.data(), kPart), kDeadline);
    if (output == all_parts(2, k, kPart)) ++right;
  }
  barrier(engine);  // nobody leaves before
  return right;
}

TEST(GatherSteps, ProcessesReadEachOther) {
  Pair pair([](const Segment& segment) { ::_exit(gather_some(segment, kAllWays)); });
  const Segment segment(pair.bytes(), 0, 2);
  EXPECT_EQ(gather_some(segment, kAllWays), kAllWays);
  EXPECT_EQ(pair.await(), kAllWays);
  const std::uint64_t pieces = (kPart + testing::kSmallPiece - 1) / testing::kSmallPiece;
  EXPECT_LE(steps_of(segment), 7 * pieces + 3);
}

/// The right to read any process, which root has, put aside for a while.
class WithoutRights {
 public:
  WithoutRights() {
    ::syscall(SYS_capget, &header_, before_.data());
    auto less = before_;
    less[CAP_TO_INDEX(CAP_SYS_PTRACE)].effective &= ~CAP_TO_MASK(CAP_SYS_PTRACE);
    ::syscall(SYS_capset, &header_, less.data());
  }
  WithoutRights(const WithoutRights&) = delete;
  WithoutRights& operator=(const WithoutRights&) = delete;
  ~WithoutRights() { ::syscall(SYS_capset, &header_, before_.data()); }

 private:
  __user_cap_header_struct header_{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> before_{};
};

TEST(GatherSteps, WhereOneRankIsNotToBeReadAllTakeTheRings) {
  const WithoutRights without;
  Pair pair([](const Segment& segment) {
    ::prctl(PR_SET_DUMPABLE, 0);
    ::_exit(gather_some(segment, kAllWays));
  });
  const Segment segment(pair.bytes(), 0, 2);
  EXPECT_EQ(gather_some(segment, kAllWays), kAllWays);
  EXPECT_EQ(pair.await(), kAllWays);
  const std::uint64_t pieces = (kPart + testing::kSmallPiece - 1) / testing::kSmallPiece;
  EXPECT_EQ(steps_of(segment), kAllWays * pieces);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they take SIGSEGV themselves
constexpr std::size_t kPages = 40;                                   // of a part
constexpr std::size_t kGuarded = kPages * kPage;

std::uint8_t* guarded = nullptr;

/// Both parts, rank 1's own in place: of its second half others see nothing, and its own process
/// only what it has touched.
void make_guarded_parts(bool opens) {
  guarded = static_cast<std::uint8_t*>(
      ::mmap(nullptr, 2 * kGuarded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  const Bytes part = part_of(1, 0, kGuarded);
  std::copy(part.begin(), part.end(), guarded + kGuarded);
  ::mprotect(guarded + kGuarded * 3 / 2, kGuarded / 2, PROT_NONE);
  ::signal(
      SIGSEGV, opens ? [](int) { ::mprotect(guarded + kGuarded, kGuarded, PROT_READ); }
                     : [](int) { ::_exit(0); });
}

void gather_guarded_parts(const Segment& segment, bool opens) {
  make_guarded_parts(opens);
  bool is_right = false;
  {
    const Liveness liveness(segment);
    Engine engine(segment, {.crowded = true, .name = "test"});
    barrier(engine);
    engine.wait(*issue(engine, guarded + kGuarded, guarded, kGuarded), kDeadline);
    const Bytes expected = all_parts(2, 0, kGuarded);
    is_right = std::equal(expected.begin(), expected.end(), guarded);
    barrier(engine);
  }  // it leaves in order: the other may still be in the barrier
  ::_exit(is_right ? 1 : 2);
}

TEST(GatherSteps, WhatTheKernelDoesNotReadGoesThroughTheRings) {
  Pair pair([](const Segment& segment) { gather_guarded_parts(segment, true); });
  const Segment segment(pair.bytes(), 0, 2);
  const Liveness liveness(segment);
  Engine engine(segment, {.crowded = true, .name = "test"});
  barrier(engine);
  const Bytes input = part_of(0, 0, kGuarded);
  Bytes output(2 * kGuarded);
  engine.wait(*issue(engine, input.data(), output.data(), kGuarded), kDeadline);
  barrier(engine);
  EXPECT_EQ(output, all_parts(2, 0, kGuarded));
  EXPECT_EQ(steps_of(segment), kPages + 1);
  EXPECT_EQ(pair.await(), 1);
}

TEST(GatherSteps, AProcessThatEndsInTheMiddleIsNamed) {
  Pair pair([](const Segment& segment) { gather_guarded_parts(segment, false); });
  const Segment segment(pair.bytes(), 0, 2);
  const Liveness liveness(segment);
  Engine engine(segment, {.crowded = true, .name = "test"});
  barrier(engine);
  const Bytes input(kGuarded);
  Bytes output(2 * kGuarded);
  try {
    engine.wait(*issue(engine, input.data(), output.data(), kGuarded), kDeadline);
    FAIL() << "half a part was taken";
  } catch (const PeerLost& lost) {
    const std::string text = lost.what();
    EXPECT_NE(text.find("rank 1 (process " + std::to_string(pair.child()) + ") ended"),
              std::string::npos)
        << text;
  }
}
#endif

TEST(GatherSteps, AKilledProcessIsNamedWhateverItWasDoing) {
  constexpr std::size_t kLarge = std::size_t{8} << 20;
  int named = 0;
  for (int attempt = 0; attempt < 12; ++attempt) {
    Pair pair([&](const Segment& segment) {
      const Liveness liveness(segment);
      Engine engine(segment, {.crowded = true, .name = "test"});
      const Bytes input = part_of(1, 0, kLarge);
      Bytes output(2 * kLarge);
      barrier(engine);
      for (;;) engine.wait(*issue(engine, input.data(), output.data(), kLarge), kDeadline);
    });
    const Segment segment(pair.bytes(), 0, 2);
    const Liveness liveness(segment);
    Engine engine(segment, {.crowded = true, .name = "test"});
    const Bytes input = part_of(0, 0, kLarge);
    const Bytes expected = all_parts(2, 0, kLarge);
    Bytes output(2 * kLarge);
    barrier(engine);
    std::thread killer([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(700 * attempt));
      ::kill(pair.child(), SIGKILL);
    });
    try {
      for (;;) {
        engine.wait(*issue(engine, input.data(), output.data(), kLarge), kDeadline);
        EXPECT_TRUE(output == expected);
      }
    } catch (const PeerLost& lost) {
      const std::string text = lost.what();
      const std::string name = "rank 1 (process " + std::to_string(pair.child()) + ") ended";
      EXPECT_NE(text.find(name), std::string::npos) << text;
      if (text.find(name) != std::string::npos) ++named;
    }
    killer.join();
  }
  EXPECT_EQ(named, 12);
}

}  // namespace
}  // namespace lockstep::comm::shm
