#include "lockstep/rendezvous/leader_mark.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <fstream>

#include "tests/support/scratch_folder.h"

namespace lockstep::rendezvous {
namespace {

using std::chrono_literals::operator""s;
using Clock = std::chrono::steady_clock;

class LeaderMarkTest : public testing::Test {
 protected:
  [[nodiscard]] LeaderMark mark(int port = 29400) const {
    return {folder_.path(), job_key(Secret{1}, "job"), {"10.0.0.1", port}};
  }
  [[nodiscard]] std::size_t files() const {
    const std::filesystem::directory_iterator all(folder_.path());
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
  }
  [[nodiscard]] std::filesystem::path only_file() const {
    return std::filesystem::directory_iterator(folder_.path())->path();
  }

  test::ScratchFolder folder_;
};

TEST_F(LeaderMarkTest, OfALeaderThatWasKilledTellsUntilWhenItMayHaveAnswered) {
  EXPECT_EQ(mark().before(), Deadline{});
  const auto before = Clock::now();
  mark().renew();  // and is gone without a word
  EXPECT_GE(mark().before(), before);
  EXPECT_LE(mark().before(), Clock::now() + 1s);
  EXPECT_EQ(mark(29401).before(), Deadline{}) << "another endpoint has another mark";
}

TEST_F(LeaderMarkTest, OfAJobThatHasEndedIsRemoved) {
  LeaderMark own = mark();
  own.renew();
  ASSERT_EQ(files(), 1U);
  own.clear();
  EXPECT_EQ(files(), 0U);
  own.renew();
  EXPECT_EQ(files(), 0U);
}

TEST_F(LeaderMarkTest, TheEndOfAJobDoesNotSpeakForTheLeaderBefore) {
  mark().renew();
  const Deadline first = mark().before();
  LeaderMark second = mark();
  second.renew();
  second.clear();
  EXPECT_EQ(mark().before(), first);
}

TEST_F(LeaderMarkTest, OldOnesAreRemovedByTheNextLeaderWhosoeverTheyWere) {
  mark().renew();
  const auto old = std::chrono::nanoseconds((Clock::now() - 61s).time_since_epoch());
  const std::int64_t old_ns = old.count();
  std::ofstream(only_file(), std::ios::binary)
      .write(reinterpret_cast<const char*>(&old_ns), sizeof old_ns);
  std::ofstream(folder_.path() / "of another program") << "12345678";
  LeaderMark other = mark(29401);
  other.clear();
  EXPECT_EQ(files(), 1U);
  EXPECT_EQ(only_file().filename(), "of another program");
}

TEST_F(LeaderMarkTest, AnotherStartOfTheMachineHasAnotherClock) {
  mark().renew();
  const std::int64_t far_ns = std::chrono::nanoseconds(Clock::duration::max()).count();
  std::ofstream(only_file(), std::ios::binary)
      .write(reinterpret_cast<const char*>(&far_ns), sizeof far_ns);
  EXPECT_LE(mark().before(), Clock::now() + 1s);
}

TEST_F(LeaderMarkTest, NoLinkIsFollowedAndAMissingFolderIsToldByIsKept) {
  mark().renew();
  const std::filesystem::path name = only_file();
  std::filesystem::remove(name);
  std::filesystem::create_symlink(folder_.path() / "elsewhere", name);
  EXPECT_FALSE(mark().is_kept());
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "elsewhere"));
  LeaderMark nowhere("/nowhere", job_key(Secret{1}, "job"), {"10.0.0.1", 29400});
  EXPECT_FALSE(nowhere.is_kept());
  nowhere.renew();
  nowhere.clear();
  EXPECT_EQ(nowhere.before(), Deadline{});
}

}  // namespace
}  // namespace lockstep::rendezvous
