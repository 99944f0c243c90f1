// lockstep launch when something goes wrong: with any program, and with ranks of ours.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "lockstep/base/socket.h"
#include "tests/support/eventually.h"
#include "tests/support/front_ranks.h"
#include "tests/support/run_program.h"
#include "tests/support/tiny_run.h"

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::vector<std::string> launch_words(std::vector<std::string> words) {
  words.insert(words.begin(), {program("lockstep"), "launch"});
  return words;
}

/// Ranks that run a shell script; $D is a folder of this test.
class Launch : public testing::Test {
 protected:
  [[nodiscard]] std::vector<std::string> shell(std::vector<std::string> words,
                                               const std::string& script) const {
    words.insert(words.end(),
                 {"--no-python", "sh", "-c", "D=" + folder_.path().string() + "; " + script});
    return launch_words(std::move(words));
  }
  [[nodiscard]] int pid_in(const std::string& name) const {
    int pid = 0;
    std::istringstream(read_file(folder_.path() / name)) >> pid;
    return pid;
  }
  [[nodiscard]] bool has(const std::string& name) const { return fs::exists(folder_ / name); }

  TemporaryFolder folder_;
};

/// Writes a process's number to $D/NAME, whole at once. "$$" is written twice in what follows: of
/// two the launcher makes one, as torchrun does.
const std::string kTell = "tell() { echo $2 > $D/tmp$2; mv $D/tmp$2 $D/$1; }; ";

TEST_F(Launch, AKilledLauncherLeavesNothingBehindTwoLevelsDeep) {
  RunningProgram launcher(shell(
      {"--nproc-per-node", "2"},
      kTell + "sh -c 'sleep 300 & echo $! > '$D'/c$0; mv '$D'/c$0 '$D'/child$0; wait' $RANK & "
              "tell rank$RANK $$$$; wait"));
  ASSERT_TRUE(eventually([&] {
    return has("rank0") && has("rank1") && has("child0") && has("child1");
  })) << launcher.err_so_far();
  launcher.send_signal(SIGKILL);
  const auto start = std::chrono::steady_clock::now();
  for (const char* name : {"rank0", "rank1", "child0", "child1"}) {
    EXPECT_TRUE(eventually([&] { return is_gone(pid_in(name)); })) << name;
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
}

TEST_F(Launch, TwoJobsWithDefaultsRunOnOneHostAtATime) {
  const std::string script =
      "touch $D/$A; while [ ! -e $D/1 ] || [ ! -e $D/2 ]; do sleep 0.01; done";
  ProgramOptions first;
  first.extra_env = {"A=1"};
  ProgramOptions second;
  second.extra_env = {"A=2"};
  RunningProgram one(shell({}, script), first);
  RunningProgram two(shell({}, script), second);
  EXPECT_EQ(one.wait().exit_code, 0);
  EXPECT_EQ(two.wait().exit_code, 0);
}

TEST_F(Launch, APortThatIsHeldIsToldAtOnceWithItsHolder) {
  const Listener held = listen_on("127.0.0.1", 0);
  const std::string port = std::to_string(held.port);
  const std::string holder = "pid " + std::to_string(::getpid());
  for (const auto& words :
       {std::vector<std::string>{"--master-port", port},
        std::vector<std::string>{"--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:" + port}}) {
    const auto result = run_program(shell(words, "true"));
    EXPECT_EQ(result.exit_code, 3) << result.describe();
    EXPECT_THAT(result.err, HasSubstr(holder));
    EXPECT_LT(result.seconds, 1);
  }
}

TEST_F(Launch, ARankThatIsStoppedIsNamedAndAllAreStartedAgain) {
  RunningProgram launcher(
      shell({"--nproc-per-node", "2", "--max-restarts", "1"},
            kTell + "if [ $TORCHELASTIC_RESTART_COUNT = 1 ]; then touch $D/again$RANK; exit 0; fi; "
                    "tell rank$RANK $$$$; while :; do sleep 0.1; done"));
  ASSERT_TRUE(eventually([&] { return has("rank0") && has("rank1"); }));
  const auto start = std::chrono::steady_clock::now();
  ::kill(pid_in("rank1"), SIGSTOP);
  ASSERT_TRUE(eventually([&] { return has("again0") && has("again1"); }));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  const auto result = launcher.wait();
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.err, HasSubstr("rank 1 was found stopped (state T"));
  EXPECT_THAT(result.err, HasSubstr("restart 1 of 1"));
}

TEST_F(Launch, ARankThatPrintsAFloodIsNotHeldUpByAReaderThatSleeps) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const auto argv = shell({"-t", "3"},
                          "head -c 100000000 /dev/zero | tr '\\0' x | fold; touch $D/done; echo; "
                          "echo last");
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::dup2(ends[1], 1);
    ::dup2(ends[1], 2);
    std::vector<char*> pointers;
    for (const auto& word : argv) pointers.push_back(const_cast<char*>(word.c_str()));
    pointers.push_back(nullptr);
    ::execv(pointers[0], pointers.data());
    ::_exit(127);
  }
  ::close(ends[1]);
  EXPECT_TRUE(eventually([&] { return has("done"); })) << "nothing was read, and the rank waits";
  std::string text(1 << 16, ' ');
  std::string last;
  for (ssize_t n = 0; (n = ::read(ends[0], text.data(), text.size())) > 0;) {
    last = (last + text.substr(0, static_cast<std::size_t>(n)));
    last = last.substr(last.size() - std::min<std::size_t>(last.size(), 200));
  }
  ::close(ends[0]);
  int status = 0;
  ::waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_THAT(last, HasSubstr("[default0]:last\n"));
}

TEST_F(Launch, ASecondSignalEndsRanksThatDoNotListenAtOnce) {
  RunningProgram launcher(
      shell({}, "trap 'touch $D/got' TERM; touch $D/up; while :; do sleep 0.01; done"));
  ASSERT_TRUE(eventually([&] { return has("up"); }));
  launcher.send_signal(SIGTERM);
  ASSERT_TRUE(eventually([&] { return has("got"); }));
  launcher.send_signal(SIGTERM);
  const auto result = launcher.wait();
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_LT(result.seconds, 20) << "30 s are for ranks that may still save";
}

TEST_F(Launch, ASignalReachesAProgramBehindAShell) {
  RunningProgram launcher(shell({},
                                "trap : TERM; sh -c 'trap \"touch '$D'/got; exit 0\" TERM; "
                                "touch '$D'/up; "
                                "while :; do sleep 0.01; done' & wait; wait"));
  ASSERT_TRUE(eventually([&] { return has("up"); }));
  launcher.send_signal(SIGTERM);
  EXPECT_EQ(launcher.wait().exit_code, 1);
  EXPECT_TRUE(eventually([&] { return has("got"); }));
}

TEST_F(Launch, ASignalOfTheListIsHandedOnAndEndsTheJob) {
  RunningProgram launcher(shell({"--signals-to-handle", "SIGUSR1"},
                                "trap 'touch $D/got; exit 0' USR1; touch $D/up; "
                                "while :; do sleep 0.01; done"));
  ASSERT_TRUE(eventually([&] { return has("up"); }));
  launcher.send_signal(SIGUSR1);
  EXPECT_EQ(launcher.wait().exit_code, 1) << "stopped on request, with nothing saved";
  EXPECT_TRUE(has("got"));
}

/// Goes on until $D/end is there.
const std::string kUntilTheEnd = "touch $D/up$RANK; while [ ! -e $D/end ]; do sleep 0.01; done";

TEST_F(Launch, UserSignalsAreHandedToRanksThatHandleThemAndTheJobGoesOn) {
  for (const auto& words : {std::vector<std::string>{"--nproc-per-node", "2"},
                            std::vector<std::string>{"--hosts", "127.0.0.1:2"}}) {
    for (const char* name : {"usr1-0", "usr1-1", "usr2-0", "usr2-1", "up0", "up1", "end"}) {
      fs::remove(folder_ / name);
    }
    RunningProgram launcher(shell(words,
                                  "trap 'touch $D/usr1-$RANK' USR1; "
                                  "trap 'touch $D/usr2-$RANK' USR2; " +
                                      kUntilTheEnd));
    ASSERT_TRUE(eventually([&] { return has("up0") && has("up1"); })) << launcher.err_so_far();
    launcher.send_signal(SIGUSR1);
    EXPECT_TRUE(eventually([&] { return has("usr1-0") && has("usr1-1"); }));
    launcher.send_signal(SIGUSR2);
    EXPECT_TRUE(eventually([&] { return has("usr2-0") && has("usr2-1"); }));
    write_file(folder_ / "end", "");
    const auto result = launcher.wait();
    EXPECT_EQ(result.exit_code, 0) << result.describe();
    EXPECT_THAT(result.err, HasSubstr("SIGUSR1 was handed to 2 ranks"));
  }
}

TEST_F(Launch, ASignalReachesQuietRanksOfNamedHosts) {
  RunningProgram launcher(shell({"--hosts", "127.0.0.1:1"},
                                "trap 'touch $D/got; exit 0' TERM; echo once; " + kUntilTheEnd));
  ASSERT_TRUE(eventually([&] { return has("up0"); })) << launcher.err_so_far();
  launcher.send_signal(SIGTERM);
  EXPECT_TRUE(eventually([&] { return has("got"); }));
  EXPECT_EQ(launcher.wait().exit_code, 1);
}

TEST_F(Launch, AUserSignalEndsNeitherTheLauncherNorARankThatDoesNotHandleIt) {
  RunningProgram launcher(shell({}, kUntilTheEnd));
  ASSERT_TRUE(eventually([&] { return has("up0"); })) << launcher.err_so_far();
  launcher.send_signal(SIGUSR1);
  EXPECT_TRUE(eventually([&] {
    return launcher.err_so_far().find(
               "SIGUSR1 was handed to 0 ranks of this host; not to 1 that "
               "would have ended of it") != std::string::npos;
  })) << launcher.err_so_far();
  write_file(folder_ / "end", "");
  EXPECT_EQ(launcher.wait().exit_code, 0);
}

TEST_F(Launch, AUserSignalReachesNoProcessThatARankStarted) {
  RunningProgram launcher(
      shell({},
            "trap 'touch $D/got' USR1; sh -c 'trap \"touch '$D'/child-got\" USR1; touch "
            "'$D'/child; while [ ! -e '$D'/end ]; do sleep 0.01; done' & " +
                kUntilTheEnd + "; wait"));
  ASSERT_TRUE(eventually([&] { return has("up0") && has("child"); })) << launcher.err_so_far();
  launcher.send_signal(SIGUSR1);
  EXPECT_TRUE(eventually([&] { return has("got"); }));
  write_file(folder_ / "end", "");
  EXPECT_EQ(launcher.wait().exit_code, 0);
  EXPECT_FALSE(has("child-got")) << "data workers would end of it, or save as well";
}

const TinyRun kRun{.run = "steps = 2000\n", .more = "[checkpoint]\nevery = 50\n"};

class LaunchOfOurs : public TinyRunTest {
 protected:
  LaunchOfOurs() : TinyRunTest(kRun) {}
  [[nodiscard]] std::vector<std::string> launch(std::vector<std::string> words,
                                                const std::string& run_dir = "run") const {
    const auto train = command({}, run_dir);
    words.insert(words.begin(), {"--nproc-per-node", "2"});
    words.insert(words.end(), train.begin(), train.end());
    return launch_words(std::move(words));
  }
  [[nodiscard]] std::string state_of(const std::string& run_dir) const {
    const auto summary = read_file(folder_.path() / run_dir / "summary.json");
    return nlohmann::json::parse(summary)["state_sha256"];
  }
};

TEST_F(LaunchOfOurs, ARankThatIsKilledCostsARestartAndNothingElse) {
  RunningProgram launcher(launch({"--max-restarts", "3"}));
  ASSERT_TRUE(eventually([&] { return has_done_step(60); })) << launcher.err_so_far();
  ::kill(find_rank(launcher.pid(), 1), SIGKILL);
  const auto result = launcher.wait();
  EXPECT_EQ(result.exit_code, 0) << result.describe();
  EXPECT_THAT(result.err, HasSubstr("rank 1 was killed by SIGKILL"));
  EXPECT_THAT(result.err, HasSubstr("restart 1 of 3"));
  EXPECT_EQ(run_program(launch({}, "undisturbed")).exit_code, 0);
  EXPECT_EQ(state_of("run"), state_of("undisturbed"));
}

TEST_F(LaunchOfOurs, AStopSavesAndTheSameCommandGoesOn) {
  RunningProgram launcher(launch({}));
  ASSERT_TRUE(eventually([&] { return has_done_step(20); })) << launcher.err_so_far();
  launcher.send_signal(SIGTERM);
  const auto stopped = launcher.wait();
  EXPECT_EQ(stopped.exit_code, 75) << stopped.describe();
  EXPECT_FALSE(has_done_step(2000));
  EXPECT_EQ(run_program(launch({})).exit_code, 0);
  EXPECT_TRUE(has_done_step(2000));
}

TEST_F(LaunchOfOurs, SlurmsSignalBeforeTheTimeIsUpSaves) {
  RunningProgram launcher(launch({}));
  ASSERT_TRUE(eventually([&] { return has_done_step(20); })) << launcher.err_so_far();
  launcher.send_signal(SIGUSR2);  // of which ranks of ours would end
  launcher.send_signal(SIGUSR1);
  const auto stopped = launcher.wait();
  EXPECT_EQ(stopped.exit_code, 75) << stopped.describe();
}

TEST_F(LaunchOfOurs, AMistakeInItsConfigurationIsToldOnceAndNotTriedAgain) {
  auto argv = launch({"--max-restarts", "3"});
  argv.insert(argv.end(), {"--set", "optimizer.lr=fast"});
  const auto result = run_program(argv);
  EXPECT_EQ(result.exit_code, 2) << result.describe();
  EXPECT_THAT(result.err, testing::Not(HasSubstr("restart")));
}

}  // namespace
}  // namespace lockstep::test
