// lockstep launch over several hosts: how they meet, and what is told when they cannot.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "tests/support/hosts_job.h"

namespace lockstep::test {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;
using testing::Values;

class LaunchHosts : public HostsJobTest {
 protected:
  LaunchHosts() : HostsJobTest(2) {}

  [[nodiscard]] std::string host(const RunningProgram& launcher, int number) const {
    return NetworkSwitch::name(number) + " (pid " + std::to_string(launcher.pid()) + ")";
  }
};

class LaunchHostsAt : public LaunchHosts, public testing::WithParamInterface<const char*> {
 protected:
  /// With a host file that knows the meeting place, on every host.
  [[nodiscard]] Launcher launch_with_names(int host, const std::vector<std::string>& words) const {
    write_file(folder_ / "hosts", "127.0.0.1 localhost\n10.77.0.1 meeting-place\n");
    std::vector<std::string> command{
        "unshare",        "--mount", "sh", "-c", "mount --bind \"$0\" /etc/hosts && exec \"$@\"",
        folder_ / "hosts"};
    const auto launch = launch_words(host, words);
    command.insert(command.end(), launch.begin(), launch.end());
    return std::make_unique<RunningProgram>(network_.on_host(host, command));
  }
};

// Cases L1: no host is called as the endpoint says; its address decides.
TEST_P(LaunchHostsAt, TheHostThatHasTheAddressServesTheMeeting) {
  write_script("rank.sh", std::string(kUp) + "while [ ! -e \"$D/go\" ]; do sleep 0.02; done\n");
  const Watch watch;
  const auto words = c10d("2", 0, GetParam());
  const Launcher other = launch_with_names(1, words);
  const Launcher own = launch_with_names(0, words);
  ASSERT_TRUE(eventually([&] { return all_up(2, 0); })) << own->err_so_far();
  watch.expect_within(2, std::string("two hosts meet at ") + GetParam());
  write_file(folder_ / "go", "");
  EXPECT_EQ(own->wait().exit_code, 0);
  EXPECT_EQ(other->wait().exit_code, 0);
}
INSTANTIATE_TEST_SUITE_P(ByNumberAndByName, LaunchHostsAt,
                         Values("10.77.0.1:29400", "meeting-place:29401"), [](const auto& named) {
                           return std::string(named.param).starts_with("10") ? "Number" : "Name";
                         });

// Case L2.
TEST_F(LaunchHosts, AnEndpointThatIsNotReachedIsToldInThreeClasses) {
  // The switch passes nothing on: what goes there is lost without a word.
  network_.ip(0, {"route", "add", "192.0.2.1", "via", NetworkSwitch::own_address()});
  const Watch watch;
  const Launcher silent = launch(0, c10d("2", 0, "192.0.2.1:1234"));
  auto short_wait = c10d("2", 0, "10.77.0.2:29400");
  for (auto& word : short_wait) {
    if (word == "last_call_timeout=1") word = "join_timeout=1";
  }
  const Launcher refused = launch(0, short_wait);
  const Launcher nowhere = launch(0, c10d("2", 0, "198.51.100.1:29400"));

  const auto no_route = nowhere->wait();
  watch.expect_within(0.5, "an endpoint with no route is told");
  EXPECT_EQ(no_route.exit_code, 3) << no_route.describe();
  EXPECT_THAT(no_route.err, HasSubstr("198.51.100.1:29400: error"));
  EXPECT_THAT(no_route.err, HasSubstr("no route"));

  const auto closed = refused->wait();
  EXPECT_EQ(closed.exit_code, 3) << closed.describe();
  EXPECT_THAT(closed.err, HasSubstr("10.77.0.2:29400: error LS-3003: nobody listens there"));
  EXPECT_THAT(closed.err, HasSubstr("refused"));

  const auto lost = silent->wait();
  watch.expect_within(10, "an endpoint that does not answer is given up");
  EXPECT_EQ(lost.exit_code, 3) << lost.describe();
  EXPECT_THAT(lost.err, HasSubstr("no answer from 192.0.2.1:1234 (SYN sent "));
  EXPECT_THAT(lost.err, HasSubstr("firewall or wrong address"));
}

// Case L3; two jobs with defaults on one host are in launch_test.cpp.
TEST_F(LaunchHosts, APortThatIsHeldIsToldAtOnceWithItsHolder) {
  write_file(folder_ / "listen.py",
             "import socket, sys, time\n"
             "held = socket.create_server(('10.77.0.1', 29400))\n"
             "open(sys.argv[1], 'w').close()\n"
             "time.sleep(100)\n");
  const RunningProgram holder(
      network_.on_host(0, {"python3", folder_ / "listen.py", folder_ / "listens"}));
  ASSERT_TRUE(eventually([&] { return has("listens"); })) << holder.err_so_far();
  const std::vector<std::string> fixed{"--nnodes",         "2",         "--node-rank",   "0",
                                       "--master-addr",    "10.77.0.1", "--master-port", "29400",
                                       folder_ / "rank.sh"};
  for (const auto& words : {c10d("2", 0), fixed}) {
    const Watch watch;
    const auto result = launch(0, words)->wait();
    watch.expect_within(1, "a held port is told with " + words[2]);
    EXPECT_EQ(result.exit_code, 3) << result.describe();
    EXPECT_THAT(result.err, HasSubstr("pid " + std::to_string(holder.pid())));
    EXPECT_THAT(result.err, HasSubstr("listen.py"));
  }
}

// Case L4.
TEST_F(LaunchHosts, ASecondLauncherWithANodeRankIsRefusedAndBothAreNamed) {
  const auto words = with(c10d("2", 0), {"--node-rank", "0"});
  const Launcher first = launch(0, words);
  ASSERT_TRUE(eventually([&] {  // it listens
    return run_program(launch_words(1, with(c10d("2", 0), {"--node-rank", "7"}))).exit_code == 2;
  }));
  const Launcher same_host = launch(0, words);
  const auto twice = same_host->wait();
  const Launcher other_host = launch(1, words);
  const auto elsewhere = other_host->wait();

  const std::string joined =
      "node 0 already joined by pid " + std::to_string(first->pid()) + " on host-0; refused: pid ";
  EXPECT_EQ(twice.exit_code, 2) << twice.describe();
  EXPECT_THAT(twice.err, HasSubstr(joined + std::to_string(same_host->pid()) +
                                   " on host-0; with Slurm use --ntasks-per-node=1"));
  EXPECT_LT(twice.seconds, 3);
  EXPECT_EQ(elsewhere.exit_code, 2) << elsewhere.describe();
  EXPECT_THAT(elsewhere.err, HasSubstr(joined + std::to_string(other_host->pid()) + " on host-1"));
  EXPECT_THAT(elsewhere.err, Not(HasSubstr("Slurm")));

  const Launcher second = launch(1, with(c10d("2", 0), {"--node-rank", "1"}));
  EXPECT_TRUE(eventually([&] { return all_up(2, 0); })) << "the first is still there";
}

TEST_F(LaunchHosts, HostsThatDifferAreRefusedByFieldUnlessTheFieldMayDiffer) {
  write_script("other/rank.sh", std::string(kStay) + "\n");
  const Launcher first = launch(0, c10d("2", 0));
  const Watch watch;
  const auto refused = launch(1, c10d("2", 0, "10.77.0.1:29400", "other/rank.sh"))->wait();
  watch.expect_within(2, "a script that differs by a byte is refused");
  EXPECT_EQ(refused.exit_code, 2) << refused.describe();
  EXPECT_THAT(refused.err, HasSubstr("hosts differ: program is '"));
  EXPECT_THAT(refused.err, HasSubstr(" on host-1 (pid "));
  EXPECT_THAT(refused.err, HasSubstr(" on " + host(*first, 0)));
  EXPECT_FALSE(has(up(0, 2, 0)));
}

TEST_F(LaunchHosts, AFieldThatMayDifferIsNotCompared) {
  write_script("other/rank.sh", std::string(kStay) + "\n");
  const std::vector<std::string> allowed{"--may-differ", "program"};
  const Launcher first = launch(0, with(c10d("2", 0), allowed));
  const Launcher second =
      launch(1, with(c10d("2", 0, "10.77.0.1:29400", "other/rank.sh"), allowed));
  EXPECT_TRUE(eventually([&] { return all_up(2, 0); })) << first->err_so_far();
}

TEST_F(LaunchHosts, WhoIsMissingIsToldEveryFiveSeconds) {
  const Watch watch;
  const Launcher first = launch(0, with(c10d("2", 0), {"--node-rank", "0"}));
  const std::string there = ": 1 of 2 hosts is here: " + host(*first, 0);
  ASSERT_TRUE(eventually([&] { return tells(*first, there); })) << first->err_so_far();
  EXPECT_GT(watch.seconds(), 4);
  watch.expect_within(5, "a missing host is listed");
  EXPECT_THAT(first->err_so_far(), HasSubstr("missing: node rank 1"));
}

}  // namespace
}  // namespace lockstep::test
