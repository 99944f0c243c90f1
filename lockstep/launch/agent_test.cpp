#include "lockstep/launch/agent.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "lockstep/base/fd.h"
#include "lockstep/launch/local_session.h"
#include "lockstep/launch/make_session.h"
#include "tests/support/eventually.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::launch {
namespace {

namespace fs = std::filesystem;
using rendezvous::Round;
using rendezvous::RoundEnd;
using rendezvous::Verdict;
using test::eventually;
using testing::ElementsAre;
using testing::HasSubstr;

class AgentTest : public testing::Test {
 protected:
  /// Ranks that run a shell script; $D is a folder of this test.
  AgentSettings shell(int ranks, int max_restarts, const std::string& script) {
    AgentSettings settings;
    settings.options.nproc_per_node = ranks;
    settings.options.max_restarts = max_restarts;
    settings.options.stop_signals = {SIGTERM, SIGINT};
    settings.options.log_dir = folder_.file("logs");
    settings.options.redirects = *parse_streams("3");
    settings.program.argv = {"/bin/sh", "-c", "D=" + folder_.path().string() + "; " + script};
    settings.program.first_argument = 3;
    settings.host = "here";
    settings.run_id = "job";
    settings.say = [this](const std::string& line) { said_ += line + "\n"; };
    return settings;
  }
  static AgentEnd run(AgentSettings settings) {
    const auto session = make_session(settings, {});
    return run_agent(settings, *session);
  }
  std::string read(const std::string& name) const {
    std::ifstream in(folder_.path() / name);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  test::ScratchFolder folder_;
  std::string said_;
};

TEST_F(AgentTest, RanksAreStartedAgainUntilTheySucceed) {
  const auto end = run(shell(
      2, 3, "echo $RANK:$TORCHELASTIC_RESTART_COUNT >&2; [ $TORCHELASTIC_RESTART_COUNT = 2 ]"));
  EXPECT_EQ(end.exit, Exit::ok);
  EXPECT_EQ(read("logs/job/attempt_2/1/stderr.log"), "1:2\n");
  EXPECT_EQ(read("logs/job/attempt_0/0/stderr.log"), "0:0\n");
  EXPECT_THAT(said_, HasSubstr("restart 2 of 3"));
  EXPECT_FALSE(fs::exists(folder_.path() / "logs/job/attempt_3"));
}

TEST_F(AgentTest, RanksOfALaterRoundMayHaveAnotherCommand) {
  auto settings = shell(1, 1, "exit 1");
  bool was_first = false;
  settings.argv_again = [&](bool there) {
    was_first = there;
    return std::vector<std::string>{"/bin/sh", "-c", "touch " + folder_.file("again")};
  };
  EXPECT_EQ(run(settings).exit, Exit::ok);
  EXPECT_TRUE(was_first);
  EXPECT_TRUE(fs::exists(folder_.file("again")));
}

TEST_F(AgentTest, TheFirstFailureIsToldFirstAndTheOthersAsItsConsequences) {
  const auto end = run(shell(3, 0,
                             "if [ $RANK = 1 ]; then while [ ! -e $D/0 ] || [ ! -e $D/2 ]; do "
                             "sleep 0.01; done; echo no data >&2; exit 7; fi; "
                             "touch $D/$RANK; exec sleep 100"));
  EXPECT_EQ(end.exit, Exit::failed) << "codes of other programs mean nothing here";
  EXPECT_TRUE(end.is_failure);
  EXPECT_THAT(end.text, testing::StartsWith("rank 1 ended with exit code 7"));
  EXPECT_THAT(end.text, HasSubstr("    | no data"));
  EXPECT_THAT(end.text, HasSubstr("as a consequence\n  rank 0 on here was stopped by SIGTERM"));
}

TEST_F(AgentTest, WhoeverStartedTheLauncherFindsTheFirstFailureInItsErrorFile) {
  auto settings = shell(2, 0,
                        "if [ $RANK = 1 ]; then echo '{\"message\": {\"message\": \"boom\"}}' > "
                        "$TORCHELASTIC_ERROR_FILE; exit 7; fi; exec sleep 100");
  settings.error_file = folder_.file("termination-log");
  (void)run(settings);
  const std::string text = read("termination-log");
  EXPECT_THAT(text, HasSubstr("boom"));
  EXPECT_THAT(text, HasSubstr("\"errorCode\":7"));
  settings.error_file = "/dev/full";
  (void)run(settings);
  EXPECT_THAT(said_, HasSubstr("/dev/full: No space left on device"));
}

TEST_F(AgentTest, RanksOfOursHandOnTheirExitCode) {
  auto settings = shell(1, 0, "exit 4");
  settings.program.is_ours = true;
  EXPECT_EQ(run(settings).exit, Exit::bad_data);
}

TEST_F(AgentTest, ASignalIsHandedToTheRanksAndASavedStateAsksForAnotherStart) {
  auto settings = shell(2, 5,
                        "trap 'exit 75' TERM; touch $D/$RANK; "
                        "while :; do sleep 0.01; done");
  settings.program.is_ours = true;
  std::thread stopper([&] {
    EXPECT_TRUE(
        eventually([&] { return fs::exists(folder_.file("0")) && fs::exists(folder_.file("1")); }));
    ::kill(::getpid(), SIGTERM);
  });
  const auto end = run(settings);
  stopper.join();
  EXPECT_EQ(end.exit, Exit::requeue);
}

TEST_F(AgentTest, StepsOfReportsShowThatARoundMadeNoProgress) {
  auto settings = shell(1, 50, "echo 12 >&3; echo 13 >&3; echo $$ >&2; exit 1");
  settings.program.is_ours = true;
  settings.on_report = [](const std::string&) {};
  settings.step_of = [](const std::string& line) { return std::stoll(line); };
  const auto end = run(settings);
  EXPECT_THAT(end.text, HasSubstr("three times in a row behind step 13"));
}

/// One round that somebody else ends.
class OtherHosts : public rendezvous::Session {
 public:
  explicit OtherHosts(int port) : port_(port) {}

  std::variant<Round, Verdict> next(int /*stop_fd*/) override {
    if (!ends_.empty()) return Verdict{};
    Round round;
    round.seats.resize(2);
    round.seats[0].agent.ranks = 3;
    round.seats[1].agent.ranks = 1;
    round.seats[1].base_rank = 3;
    round.own_seat = 1;
    round.master_addr = "127.0.0.1";
    round.master_port = port_;
    return round;
  }
  int interrupt_fd() const override { return interrupt_.get(); }
  std::string interrupt_reason() const override { return "node-b is lost"; }
  bool is_fenced() const override { return fenced_; }
  bool may_save() const override { return may_save_; }
  void leaving() override { leaving_ = true; }
  Deadline fence_at() const override { return fence_at_; }
  void failing(const rendezvous::Failure& failure) override { failing_ = failure.exit_code; }
  void report(const RoundEnd& end) override { ends_.push_back(end); }

  void interrupt() const {
    const std::uint64_t one = 1;
    ASSERT_EQ(::write(interrupt_.get(), &one, sizeof one), ssize_t{sizeof one});
  }

  Fd interrupt_{::eventfd(0, EFD_CLOEXEC)};
  int port_;
  std::atomic<bool> fenced_ = false;
  std::atomic<bool> leaving_ = false;
  bool may_save_ = false;
  Deadline fence_at_ = Deadline::max();
  int failing_ = 0;
  std::vector<RoundEnd> ends_;
};

TEST_F(AgentTest, ARoundThatEndsElsewhereStopsTheRanksHere) {
  OtherHosts session(29500);
  const auto settings =
      shell(1, 0, "echo $RANK/$WORLD_SIZE $MASTER_PORT > $D/tmp; mv $D/tmp $D/up; exec sleep 100");
  std::thread other([&] {
    EXPECT_TRUE(eventually([&] { return fs::exists(folder_.file("up")); }));
    session.interrupt();
  });
  (void)run_agent(settings, session);
  other.join();
  ASSERT_EQ(session.ends_.size(), 1U);
  EXPECT_EQ(session.ends_[0].kind, RoundEnd::Kind::interrupted);
  EXPECT_EQ(read("up"), "3/4 29500\n");
}

TEST_F(AgentTest, ASignalBehindTheWordOfAnotherHostThatAllStopIsNoSecondOne) {
  OtherHosts session(29500);
  session.may_save_ = true;
  auto settings = shell(1, 0,
                        "trap 'touch $D/told; while [ ! -e $D/go ]; do sleep 0.01; done; exit 75' "
                        "TERM; touch $D/up; while :; do sleep 0.01; done");
  settings.program.is_ours = true;
  std::thread other([&] {
    EXPECT_TRUE(eventually([&] { return fs::exists(folder_.file("up")); }));
    session.interrupt();
    EXPECT_TRUE(eventually([&] { return fs::exists(folder_.file("told")); }));
    ::kill(::getpid(), SIGTERM);
    EXPECT_TRUE(eventually([&] { return session.leaving_.load(); }));
    (void)folder_.write("go", "");
  });
  (void)run_agent(settings, session);
  other.join();
  ASSERT_EQ(session.ends_.size(), 1U);
  EXPECT_TRUE(session.ends_[0].saved) << "the ranks were killed while they saved";
}

TEST_F(AgentTest, AHostThatIsFencedKillsItsRanksWithoutAsking) {
  OtherHosts session(29500);
  const auto settings = shell(1, 0, "trap '' TERM; touch $D/up; while :; do sleep 0.01; done");
  std::thread other([&] {
    EXPECT_TRUE(eventually([&] { return fs::exists(folder_.file("up")); }));
    session.fenced_ = true;
    session.interrupt();
  });
  const auto start = std::chrono::steady_clock::now();
  (void)run_agent(settings, session);
  other.join();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20))
      << "a rank that ignores SIGTERM has 30 s only where it may still write";
}

TEST_F(AgentTest, TheGuardianKeepsAFenceThatTheLauncherMisses) {
  OtherHosts session(29500);
  session.fence_at_ = std::chrono::steady_clock::now() + std::chrono::milliseconds(300);
  (void)run_agent(shell(1, 0, "exec sleep 100"), session);
  ASSERT_EQ(session.ends_.size(), 1U);
  EXPECT_EQ(session.ends_[0].failure.signal, SIGKILL);
  EXPECT_THAT(session.ends_[0].failure.because, testing::HasSubstr("by its guardian"));
}

TEST_F(AgentTest, OthersHearOfAFailureBeforeAllRanksHaveEnded) {
  OtherHosts session(29500);
  (void)run_agent(shell(1, 0, "exit 9"), session);
  EXPECT_EQ(session.failing_, 9);
}

TEST_F(AgentTest, ADryRunSaysWhatEachRankWouldFind) {
  auto settings = shell(2, 1, "true");
  settings.options.pass_local_rank = RankFlag::dash;
  settings.cpus = {{0}, {1}};
  const auto starts = plan_round(settings, first_round(settings));
  ASSERT_EQ(starts.size(), 2U);
  EXPECT_EQ(starts[1].argv.back(), "--local-rank=1");
  EXPECT_THAT(starts[1].cpus, ElementsAre(1));
  EXPECT_THAT(starts[1].environment, testing::Contains("RANK=1"));
  EXPECT_THAT(starts[1].environment, testing::Contains("TORCHELASTIC_MAX_RESTARTS=1"));
  EXPECT_FALSE(fs::exists(folder_.path() / "logs")) << "nothing is made";
}

TEST_F(AgentTest, AVirtualRankSeesItsOwnDeviceAsTheFirst) {
  auto settings = shell(2, 0, "true");
  settings.options.virtual_local_rank = true;
  settings.visible_devices = "3, 5";
  const auto starts = plan_round(settings, first_round(settings));
  EXPECT_THAT(starts[1].environment, testing::Contains("LOCAL_RANK=0"));
  EXPECT_THAT(starts[1].environment, testing::Contains("CUDA_VISIBLE_DEVICES=5"));
  settings.visible_devices = "3";
  EXPECT_THROW((void)plan_round(settings, first_round(settings)), UsageError);
}

TEST(Threads, CoresAreSharedAmongRanks) {
  EXPECT_EQ(threads_for(4, 10), 2);
  EXPECT_EQ(threads_for(8, 2), 1);
  EXPECT_EQ(threads_for(1, 8), 0) << "one rank may take what it likes";
}

}  // namespace
}  // namespace lockstep::launch
