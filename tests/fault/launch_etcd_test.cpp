// lockstep launch with the membership in etcd: the job outlives any of its hosts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <string>
#include <vector>

#include "tests/support/hosts_job.h"

namespace lockstep::test {
namespace {

using testing::HasSubstr;

/// Three hosts, and an etcd at the switch.
class LaunchEtcd : public HostsJobTest {
 protected:
  LaunchEtcd() : HostsJobTest(3), server_(start_etcd()) {}

  [[nodiscard]] std::vector<Launcher> start(int hosts, const std::vector<std::string>& words) {
    std::vector<Launcher> launchers;
    for (int host = 0; host < hosts; ++host) launchers.push_back(launch(host, words));
    EXPECT_TRUE(eventually([&] { return all_up(hosts, 0); }))
        << launchers[0]->err_so_far() << server_->err_so_far();
    return launchers;
  }
  /// Launchers by whether they lead.
  [[nodiscard]] static std::size_t leader(const std::vector<Launcher>& launchers) {
    for (std::size_t i = 0; i < launchers.size(); ++i) {
      if (tells(*launchers[i], "round 1 starts")) return i;
    }
    ADD_FAILURE() << "nobody leads";
    return 0;
  }

  Launcher server_;
};

// Case L6.
TEST_F(LaunchEtcd, TheHostThatLeadsIsLostAndTheOthersGoOn) {
  const auto launchers = start(3, etcd("2:3", 3));
  const std::size_t lost = leader(launchers);
  const int its_rank = pid_in(up_on(*launchers[lost], 3, 0));
  const Watch watch;
  network_.cut(static_cast<int>(lost));
  launchers[lost]->send_signal(SIGKILL);
  ASSERT_TRUE(eventually([&] { return all_up(2, 1); })) << launchers[(lost + 1) % 3]->err_so_far();
  watch.expect_within(5, "the host that leads is lost, until the others go on");
  EXPECT_TRUE(is_gone(its_rank));
  const std::string told =
      launchers[(lost + 1) % 3]->err_so_far() + launchers[(lost + 2) % 3]->err_so_far();
  EXPECT_THAT(told, HasSubstr(NetworkSwitch::name(static_cast<int>(lost)) + " (pid "));
  EXPECT_THAT(told, HasSubstr("restart 1 of 3"));
}

TEST_F(LaunchEtcd, AHostThatIsLostCountsForTheGroupHoweverOftenItComesBack) {
  const auto launchers = start(2, etcd("1:2", 0));
  const std::size_t lost = 1 - leader(launchers);
  launchers[lost]->send_signal(SIGKILL);
  const Launcher again = launch(static_cast<int>(lost), etcd("1:2", 0));
  const auto result = launchers[1 - lost]->wait();
  EXPECT_EQ(result.exit_code, 1) << result.describe();
  EXPECT_THAT(result.err, HasSubstr(NetworkSwitch::name(static_cast<int>(lost)) + " (pid "));
  EXPECT_THAT(result.err, HasSubstr("no restart is left (0 of 0 used)"));
  EXPECT_FALSE(has(up(0, 2, 1)));
  EXPECT_FALSE(has(up(0, 1, 1)));
}

}  // namespace
}  // namespace lockstep::test
