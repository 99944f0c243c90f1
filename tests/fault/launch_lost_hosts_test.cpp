// lockstep launch over several hosts: a rank, a launcher, a host or the cable goes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <string>
#include <vector>

#include "tests/support/hosts_job.h"
#include "tests/support/tiny_run.h"

namespace lockstep::test {
namespace {

using testing::AnyOf;
using testing::ContainsRegex;
using testing::HasSubstr;

class LaunchLostHosts : public HostsJobTest {
 protected:
  LaunchLostHosts() : HostsJobTest(2) {}
};

TEST_F(LaunchLostHosts, ARankThatIsKilledIsStartedAgainOnAllHosts) {
  const auto launchers = start_two(c10d("2", 1));
  const Watch watch;
  ::kill(pid_in(up(1, 2, 0)), SIGKILL);
  ASSERT_TRUE(eventually([&] { return all_up(2, 1); })) << launchers[0]->err_so_far();
  watch.expect_within(0.5, "kill -9 of a rank, until both hosts have new ranks");
  EXPECT_TRUE(is_gone(pid_in(up(0, 2, 0))));
  for (const Launcher& launcher : launchers) {
    EXPECT_THAT(launcher->err_so_far(), ContainsRegex("was killed by SIGKILL.*; restart 1 of 1"));
  }
}

TEST_F(LaunchLostHosts, ARankThatIsStoppedIsNamedAndAllAreStartedAgain) {
  const auto launchers = start_two(c10d("2", 1));
  const std::string on_second = up_on(*launchers[1], 2, 0);
  const Watch watch;
  ::kill(pid_in(on_second), SIGSTOP);
  const std::string named = "rank " + on_second.substr(3, 1) + " on host-1 (pid " +
                            std::to_string(pid_in(on_second)) + "): was found stopped (state T";
  ASSERT_TRUE(eventually([&] { return tells(*launchers[0], named); }))
      << launchers[0]->err_so_far();
  watch.expect_within(3, "SIGSTOP of a rank, until the other host names it");
  ASSERT_TRUE(eventually([&] { return all_up(2, 1); }));
  watch.expect_within(5, "SIGSTOP of a rank, until both hosts have new ranks");
}

/// \param killed host whose launcher goes.
void expect_end_of(const std::vector<std::unique_ptr<RunningProgram>>& launchers, int killed,
                   const std::vector<int>& ranks, const char* what) {
  const Watch watch;
  launchers[killed]->send_signal(SIGKILL);
  EXPECT_TRUE(eventually([&] { return is_gone(ranks[killed]); }));
  watch.expect_within(1, std::string(what) + ", until its ranks are gone");
  RunningProgram& left = *launchers[1 - killed];
  const std::string name = NetworkSwitch::name(killed) + " (pid ";
  EXPECT_TRUE(eventually([&] { return left.err_so_far().find(name) != std::string::npos; }));
  watch.expect_within(3, std::string(what) + ", until the other host names it");
  const auto result = left.wait();
  EXPECT_THAT(result.exit_code, AnyOf(1, 3)) << result.describe();
  EXPECT_TRUE(is_gone(ranks[1 - killed]));
}

TEST_F(LaunchLostHosts, AKilledLauncherTakesItsRanksAndTheLeaderNamesItsHost) {
  auto words = c10d("2", 0);
  const auto launchers = start_two(words);
  expect_end_of(launchers, 1,
                {pid_in(up_on(*launchers[0], 2, 0)), pid_in(up_on(*launchers[1], 2, 0))},
                "kill -9 of a launcher");
}

TEST_F(LaunchLostHosts, AKilledLeaderTakesItsRanksAndTheOtherNamesItsHost) {
  const auto launchers = start_two(c10d("2", 0));
  expect_end_of(launchers, 0,
                {pid_in(up_on(*launchers[0], 2, 0)), pid_in(up_on(*launchers[1], 2, 0))},
                "kill -9 of the launcher that leads");
}

// Case L7.
TEST_F(LaunchLostHosts, OfAPartitionTheLeadersSideGoesOnAndTheOtherWritesNothingMore) {
  const auto launchers = start_two(c10d("1:2", 3));
  const int cut_off = pid_in(up_on(*launchers[1], 2, 0));
  ASSERT_GT(cut_off, 0);
  const Watch watch;
  network_.cut(1);
  ASSERT_TRUE(eventually([&] { return tells(*launchers[0], "host-1 (pid "); }));
  watch.expect_within(5, "partition, until it is detected");
  ASSERT_TRUE(eventually([&] { return has(up(0, 1, 1)); })) << launchers[0]->err_so_far();
  EXPECT_TRUE(is_gone(cut_off)) << "two rounds ran at the same time";
  watch.expect_within(8, "partition, until the leader's side goes on alone");
  const auto size = [&] {
    return std::filesystem::file_size(folder_ / ("written" + std::to_string(cut_off)));
  };
  const auto written = size();
  const auto left = launchers[1]->wait();
  EXPECT_EQ(left.exit_code, 3) << left.describe();
  EXPECT_THAT(left.err, HasSubstr("host-0 (pid " + std::to_string(launchers[0]->pid()) +
                                  "), the host that leads the job, has not been heard"));
  EXPECT_EQ(size(), written);
  EXPECT_FALSE(is_gone(pid_in(up(0, 1, 1))));
}

TEST_F(LaunchLostHosts, TheRanksOfAStoppedLauncherAreGoneBeforeTheOthersGoOn) {
  const auto launchers = start_two(c10d("1:2", 3));
  const int cut_off = pid_in(up_on(*launchers[1], 2, 0));
  ASSERT_GT(cut_off, 0);
  const Watch watch;
  launchers[1]->send_signal(SIGSTOP);
  ASSERT_TRUE(eventually([&] { return has(up(0, 1, 1)); })) << launchers[0]->err_so_far();
  EXPECT_TRUE(is_gone(cut_off)) << "two rounds ran at the same time";
  watch.expect_within(8, "SIGSTOP of a launcher, until the other host goes on alone");
}

TEST_F(LaunchLostHosts, AHostThatLeavesIsCountedForTheGroup) {
  const auto launchers = start_two(c10d("1:2", 0));
  launchers[1]->send_signal(SIGTERM);
  for (const Launcher& launcher : launchers) {
    const auto result = launcher->wait();
    EXPECT_EQ(result.exit_code, 1) << result.describe();
    EXPECT_THAT(result.err, HasSubstr("host-1 (pid " + std::to_string(launchers[1]->pid()) +
                                      ") was asked to leave; no restart is left (0 of 0 used)"));
  }
  EXPECT_FALSE(has(up(0, 1, 0)));
}

/// `lockstep train` on two hosts, one rank on each.
class LaunchTrainOnHosts : public LaunchLostHosts {
 protected:
  LaunchTrainOnHosts() {
    const TinyRun run{.run = "steps = 1000000\n", .more = "[checkpoint]\nevery = 50\n"};
    write_file(folder_ / "run.toml", to_toml(run));
  }
  [[nodiscard]] std::vector<Launcher> train(int max_restarts) const {
    std::vector<std::string> words = c10d("2", max_restarts);
    words.pop_back();
    words.insert(words.end(), {program("lockstep"), "train", folder_ / "run.toml", "--run-dir",
                               folder_ / "run"});
    std::vector<Launcher> launchers;
    for (const int host : {0, 1}) {
      ProgramOptions options;
      options.extra_env = {"LOCKSTEP_HOST_ID=" + NetworkSwitch::name(host)};
      launchers.push_back(launch(host, words, options));
    }
    EXPECT_TRUE(eventually([&] { return events().find("\"step\":60,") != std::string::npos; }))
        << launchers[0]->err_so_far() << launchers[1]->err_so_far();
    return launchers;
  }
  [[nodiscard]] std::string events() const {
    return read_file(folder_.path() / "run" / "events.jsonl");
  }
  /// On either host.
  [[nodiscard]] static int rank_of(const std::vector<Launcher>& launchers, int rank) {
    const int pid = find_rank(launchers[0]->pid(), rank);
    return pid != 0 ? pid : find_rank(launchers[1]->pid(), rank);
  }
};

TEST_F(LaunchTrainOnHosts, AWorkerThatIsKilledCostsARestart) {
  const auto launchers = train(3);
  const int old = rank_of(launchers, 0);
  const Watch watch;
  ::kill(rank_of(launchers, 1), SIGKILL);
  ASSERT_TRUE(eventually([&] { return tells(*launchers[0], "round 1 ends: rank 1 on "); }));
  watch.expect_within(0.05, "kill -9 of a worker, until it is told");
  ASSERT_TRUE(eventually([&] { return is_gone(old) && rank_of(launchers, 0) != 0; }));
  const std::size_t before = events().size();
  ASSERT_TRUE(eventually([&] {
    const std::string now = events();
    return now.find("\"step\":", std::min(before, now.size())) != std::string::npos;
  })) << launchers[0]->err_so_far();
  watch.expect_within(1.5, "kill -9 of a worker, until a new step");
}

TEST_F(LaunchTrainOnHosts, ASignalAtOneHostStopsAllRanksWithTheirStateSaved) {
  const auto launchers = train(0);
  const std::vector<int> ranks{rank_of(launchers, 0), rank_of(launchers, 1)};
  const Watch watch;
  launchers[1]->send_signal(SIGTERM);
  for (const Launcher& launcher : launchers) {
    const auto result = launcher->wait();
    EXPECT_EQ(result.exit_code, 75) << result.describe();
  }
  watch.expect_within(5, "SIGTERM at one of two hosts, until both have saved and left");
  for (const int pid : ranks) EXPECT_TRUE(is_gone(pid));
}

}  // namespace
}  // namespace lockstep::test
