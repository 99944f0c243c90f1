// lockstep launch over hosts that come and go for as long as the job runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <map>
#include <string>
#include <vector>

#include "tests/support/hosts_job.h"

namespace lockstep::test {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr int kLeaves = 10;
constexpr int kHosts = 3;

/// Three hosts, and one more for each that leaves; an etcd at the switch.
class LaunchLeaves : public HostsJobTest, public testing::WithParamInterface<const char*> {
 protected:
  LaunchLeaves() : HostsJobTest(kHosts + kLeaves), server_(start_etcd()) {
    // A rank looks for those of earlier rounds, tells its number, and ends when it may.
    write_script(
        "rank.sh",
        "for old in $D/round*; do\n"
        "  [ -e $old ] && [ \"$(cat $old)\" != \"$TORCHELASTIC_RESTART_COUNT $WORLD_SIZE\" ] &&"
        " grep -q '^State:.[^ZX]' /proc/${old#$D/round}/status 2>> $D/errors &&"
        " echo $old > $D/overlap\n"
        "done\n"
        "echo \"$TORCHELASTIC_RESTART_COUNT $WORLD_SIZE\" > $D/new$$;"
        " mv $D/new$$ $D/round$$\n" +
            std::string(kUp) + "while [ ! -e $D/go ]; do sleep 0.02; done\n");
  }
  [[nodiscard]] bool is_etcd() const { return GetParam() == std::string("etcd"); }
  [[nodiscard]] std::vector<std::string> words() const {
    return is_etcd() ? etcd("2:3", kLeaves) : c10d("2:3", kLeaves);
  }
  void add(int host) { launchers_[host] = launch(host, words()); }

  /// All ranks of a round, and no more, each on another host that is in the job.
  void expect_round(int world, int restarts) {
    ASSERT_TRUE(eventually([&] { return all_up(world, restarts); }))
        << world << " ranks after " << restarts << " restarts:\n"
        << launchers_.begin()->second->err_so_far();
    EXPECT_FALSE(has(up(world, world, restarts)));
    std::map<int, int> ranks_of;
    for (const auto& [host, launcher] : launchers_) {
      const std::string name = up_on(*launcher, world, restarts);
      EXPECT_NE(name, "") << "host " << host << " has no rank of " << world;
    }
    EXPECT_EQ(launchers_.size(), static_cast<std::size_t>(world));
    EXPECT_FALSE(has("overlap")) << "ranks of two rounds lived at the same time";
  }

  /// Host 0 has the meeting place of c10d: it stays there.
  void leave(int number) {
    const auto one = number == 0 && is_etcd() ? launchers_.begin() : std::prev(launchers_.end());
    const bool is_killed = number % 4 == 0;
    one->second->send_signal(is_killed ? SIGKILL : SIGTERM);
    const ProgramResult result = one->second->wait();
    if (is_killed) {
      EXPECT_EQ(result.signal, SIGKILL);
    } else {
      EXPECT_EQ(result.exit_code, 1) << "nothing was saved: " << result.describe();
    }
    launchers_.erase(one);
  }

  Launcher server_;
  std::map<int, Launcher> launchers_;  // by host
};

// Case L6.
TEST_P(LaunchLeaves, TenHostsLeaveAndTenJoinAndTheJobEndsWell) {
  for (int host = 0; host < kHosts; ++host) add(host);
  expect_round(kHosts, 0);
  for (int number = 0; number < kLeaves; ++number) {
    leave(number);
    ASSERT_NO_FATAL_FAILURE(expect_round(kHosts - 1, number + 1));
    add(kHosts + number);
    ASSERT_NO_FATAL_FAILURE(expect_round(kHosts, number + 1));
  }
  write_file(folder_ / "go", "");
  for (const auto& [host, launcher] : launchers_) {
    const ProgramResult result = launcher->wait();
    EXPECT_EQ(result.exit_code, 0) << result.describe();
    EXPECT_THAT(result.err, Not(HasSubstr("error")));
  }
}
INSTANTIATE_TEST_SUITE_P(Of, LaunchLeaves, testing::Values("c10d", "etcd"),
                         [](const auto& named) { return std::string(named.param); });

TEST_P(LaunchLeaves, JoiningUsesUpNoRestart) {
  const auto with_none = is_etcd() ? etcd("2:3", 0) : c10d("2:3", 0);
  for (const int host : {0, 1}) launchers_[host] = launch(host, with_none);
  expect_round(2, 0);
  launchers_[2] = launch(2, with_none);
  expect_round(3, 0);
  write_file(folder_ / "go", "");
  for (const auto& [host, launcher] : launchers_) EXPECT_EQ(launcher->wait().exit_code, 0);
}

}  // namespace
}  // namespace lockstep::test
