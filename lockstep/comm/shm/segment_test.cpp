#include "lockstep/comm/shm/segment.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <span>
#include <string>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/base/fd.h"
#include "lockstep/comm/shm/liveness.h"
#include "lockstep/comm/shm/shared_memory.h"

namespace lockstep::comm::shm {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kPiece = 4096;

Layout layout_for(int ranks) { return {ranks, 8 * kPiece, kPiece}; }

TEST(SharedMemory, AnotherMappingSeesTheSameBytesAndNothingIsLeftInDevShm) {
  SharedMemory first = SharedMemory::create(2 * kPage);
  first.data()[5] = std::byte{42};
  const SharedMemory second = SharedMemory::open(first.locator());
  EXPECT_EQ(second.bytes(), 2 * kPage);
  EXPECT_EQ(second.data()[5], std::byte{42});
  second.data()[6] = std::byte{43};
  EXPECT_EQ(first.data()[6], std::byte{43});
  EXPECT_EQ(first.locator().find("/dev/shm"), std::string::npos);
}

TEST(SharedMemory, MoreThanThereIsIsRefusedWithNeedAndFree) {
  try {
    (void)SharedMemory::create(std::size_t{1} << 46);
    FAIL() << "64 TiB were reserved";
  } catch (const EnvironmentFault& fault) {
    EXPECT_EQ(fault.problems().front().code, "LS-4010");
    EXPECT_NE(fault.problems().front().what.find("needed"), std::string::npos);
    EXPECT_NE(fault.problems().front().what.find("free"), std::string::npos);
  }
}

TEST(SharedMemory, AClosedDoorLetsNobodyIn) {
  SharedMemory memory = SharedMemory::create(kPage);
  const std::string locator = memory.locator();
  memory.close_door();
  EXPECT_THROW((void)SharedMemory::open(locator), PeerLost);
}

TEST(SharedMemory, NoOtherFileIsOpenedWhateverTheStoreSays) {
  EXPECT_THROW((void)SharedMemory::open("/etc/passwd"), EnvironmentFault);
  EXPECT_THROW((void)SharedMemory::open("/proc/1/fd/1/../../../etc/passwd"), EnvironmentFault);
  const Fd file(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  const Fd writable(::memfd_create("other", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(writable.get(), kPage), 0);
  const std::string folder = "/proc/" + std::to_string(::getpid()) + "/fd/";
  EXPECT_THROW((void)SharedMemory::open(folder + std::to_string(file.get())), EnvironmentFault);
  EXPECT_NO_THROW((void)SharedMemory::open(folder + std::to_string(writable.get())));
  ASSERT_EQ(::ftruncate(writable.get(), 0), 0);
  EXPECT_THROW((void)SharedMemory::open(folder + std::to_string(writable.get())), PeerLost);
}

TEST(Segment, TextsOfOthersHaveAnEndAndNoControlCharacters) {
  const char field[] = {'a', '\x1b', '[', '\x7f', static_cast<char>(0xc3), static_cast<char>(0xa4)};
  EXPECT_EQ(shared_text(field, sizeof field), "a?[?\xc3\xa4");
  EXPECT_EQ(shared_text("a\0b", 3), "a");
}

TEST(Segment, MemoryOfAnotherOriginIsRefused) {
  const Layout layout = layout_for(2);
  SharedMemory memory = SharedMemory::create(layout.total_bytes());
  const std::span<std::byte> bytes(memory.data(), memory.bytes());
  EXPECT_THROW(Segment(bytes, 0, 2), BadData);  // not formatted
  Segment::format(bytes, layout);
  EXPECT_NO_THROW(Segment(bytes, 0, 2));
  EXPECT_THROW(Segment(bytes, 0, 3), BadData);
  EXPECT_THROW(Segment(bytes.first(bytes.size() - kPage), 0, 2), BadData);
  EXPECT_THROW(Segment(bytes.first(10), 0, 2), BadData);
}

TEST(Segment, IsCrowdedWhenItsRanksHaveFewerCpusThanTheyAreThemselves) {
  const Layout layout = layout_for(3);
  SharedMemory memory = SharedMemory::create(layout.total_bytes());
  const std::span<std::byte> bytes(memory.data(), memory.bytes());
  Segment::format(bytes, layout);
  const Segment first(bytes, 0, 3);
  const Segment last(bytes, 2, 3);
  EXPECT_FALSE(last.crowded()) << "nobody knows yet";
  first.tell_cpus(2);
  EXPECT_TRUE(last.crowded());
  first.tell_cpus(3);
  EXPECT_FALSE(last.crowded());
}

/// A rank that ends as `end` says; its parent is rank 0 and returns why the group was over.
std::string reason_after(const std::function<void()>& end) {
  const Layout layout = layout_for(2);
  SharedMemory memory = SharedMemory::create(layout.total_bytes());
  const std::span<std::byte> bytes(memory.data(), memory.bytes());
  Segment::format(bytes, layout);
  const pid_t child = ::fork();
  if (child == 0) {
    const Segment segment(bytes, 1, 2);
    {
      const Liveness liveness(segment);
      while (segment.block(0).heartbeat_ns.load() == 0) std::this_thread::sleep_for(1ms);
      std::this_thread::sleep_for(20ms);
      end();
    }
    ::_exit(0);
  }
  const Segment segment(bytes, 0, 2);
  std::string reason;
  {
    const Liveness liveness(segment);
    const auto limit = std::chrono::steady_clock::now() + 10s;
    const auto left = [&] { return segment.block(1).closed.load() != 0; };
    while (!segment.aborted() && !left() && std::chrono::steady_clock::now() < limit) {
      std::this_thread::sleep_for(100us);
    }
    if (left()) std::this_thread::sleep_for(100ms);  // nothing may follow
    if (segment.aborted()) reason = segment.end().reason;
  }
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  return reason;
}

TEST(Liveness, AKilledRankIsNamed) {
  const std::string reason = reason_after([] { ::kill(::getpid(), SIGKILL); });
  EXPECT_NE(reason.find("rank 1 (process "), std::string::npos) << reason;
  EXPECT_NE(reason.find("ended"), std::string::npos) << reason;
}

TEST(Liveness, AStoppedRankIsNamedWithItsState) {
  const std::string reason = reason_after([] { ::kill(::getpid(), SIGSTOP); });
  EXPECT_NE(reason.find("rank 1 (process "), std::string::npos) << reason;
  EXPECT_NE(reason.find("state T"), std::string::npos) << reason;
}

TEST(Liveness, ARankThatLeavesOnPurposeEndsNothing) {
  EXPECT_EQ(reason_after([] {}), "");
}

}  // namespace
}  // namespace lockstep::comm::shm
