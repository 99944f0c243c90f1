#include "lockstep/launch/local_job.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/store/server.h"
#include "tests/support/eventually.h"

namespace lockstep::launch {
namespace {

namespace fs = std::filesystem;
using test::eventually;

std::string read(const fs::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// A process that has ended may stay as a zombie until init looks after it.
bool is_gone(int pid) {
  const std::string stat = read("/proc/" + std::to_string(pid) + "/stat");
  return stat.empty() || stat.find(") Z ") != std::string::npos;
}

/// The start of a script: rank 1 goes on once $D/pid holds rank 0's pid.
const std::string kRankZeroTellsItsPid =
    "if [ $RANK = 0 ]; then echo $$ > $D/tmp; mv $D/tmp $D/pid; fi; "
    "while [ ! -e $D/pid ]; do sleep 0.01; done; ";

class LocalJobTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "job-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  /// Ranks that run a shell script; $D is a folder of this test.
  LocalJobOptions shell(int ranks, const std::string& script) {
    LocalJobOptions options;
    options.command = {"/bin/sh", "-c", script};
    options.nproc_per_node = ranks;
    options.extra_env = {"D=" + folder_};
    options.on_output = [this](const OutputLine& line) { output_.push_back(line); };
    return options;
  }
  std::string file(const std::string& name) const { return read(folder_ + "/" + name); }

  std::string folder_;
  std::vector<OutputLine> output_;
};

TEST_F(LocalJobTest, RanksKnowTheirPlaceAndAllEndWell) {
  const auto result =
      run_local_job(shell(2, "echo $RANK/$WORLD_SIZE $MASTER_ADDR $OMP_NUM_THREADS > $D/$RANK"));
  EXPECT_EQ(result.exit, Exit::ok);
  EXPECT_EQ(result.ends.size(), 2U);
  EXPECT_FALSE(result.first_failure.has_value());
  EXPECT_EQ(file("0"), "0/2 127.0.0.1 1\n");
  EXPECT_EQ(file("1"), "1/2 127.0.0.1 1\n");
}

TEST_F(LocalJobTest, OneFailsAllStop) {
  const auto result = run_local_job(
      shell(3, "if [ $RANK = 1 ]; then echo no data >&2; exit 4; fi; exec sleep 100"));
  EXPECT_EQ(result.exit, Exit::bad_data);
  ASSERT_TRUE(result.first_failure.has_value());
  EXPECT_EQ(result.first_failure->rank, 1);
  EXPECT_EQ(result.first_failure->last_stderr, "no data");
  EXPECT_EQ(result.ends[0].rank, 1);
  EXPECT_EQ(result.ends[1].signal, SIGTERM);
  EXPECT_TRUE(result.ends[1].stopped_by_us);
}

TEST_F(LocalJobTest, ARankKilledFromOutsideIsTheFirstFailureAlsoAfterASurvivorsFive) {
  const auto result = run_local_job(
      shell(2, kRankZeroTellsItsPid +
                   "if [ $RANK = 0 ]; then exit 5; fi; "
                   "while kill -0 $(cat $D/pid) 2>/dev/null; do sleep 0.01; done; kill -9 $$"));
  ASSERT_TRUE(result.first_failure.has_value());
  EXPECT_EQ(result.first_failure->rank, 1);
  EXPECT_EQ(result.first_failure->signal, SIGKILL);
  EXPECT_EQ(result.exit, Exit::failed);
  EXPECT_EQ(result.ends[0].rank, 0) << "the five was seen first";
  EXPECT_NE(describe(result).find("rank 1 was killed by SIGKILL"), std::string::npos);
}

TEST_F(LocalJobTest, ARankThatIgnoresSigtermIsKilledAfterItsBudget) {
  auto options = shell(
      2, "trap '' TERM; if [ $RANK = 0 ]; then sleep 0.05; exit 1; fi; while :; do sleep 1; done");
  options.stop_budget = std::chrono::milliseconds(50);
  const auto result = run_local_job(options);
  EXPECT_EQ(result.first_failure->rank, 0);
  EXPECT_EQ(result.ends[1].signal, SIGKILL);
}

TEST_F(LocalJobTest, AStoppedRankIsKilledAtOnce) {
  const auto result = run_local_job(
      shell(2, kRankZeroTellsItsPid +
                   "if [ $RANK = 0 ]; then kill -STOP $$; fi; "
                   "while ! grep -q ') T ' /proc/$(cat $D/pid)/stat; do sleep 0.01; done; exit 3"));
  EXPECT_EQ(result.exit, Exit::environment);
  EXPECT_EQ(result.ends[1].signal, SIGKILL)
      << "waited for a SIGTERM that a stopped process cannot take";
}

TEST_F(LocalJobTest, ARankStoppedFromOutsideEndsTheJobAndIsNamed) {
  const auto result =
      run_local_job(shell(2, "if [ $RANK = 1 ]; then kill -STOP $$; fi; exec sleep 100"));
  EXPECT_EQ(result.exit, Exit::failed);
  ASSERT_TRUE(result.first_failure.has_value());
  EXPECT_EQ(result.first_failure->rank, 1);
  EXPECT_TRUE(result.first_failure->frozen);
  EXPECT_LT(result.first_failure->seconds, 10);
}

TEST_F(LocalJobTest, ARankThatRanOutOfMemoryIsToldWhichLimitHolds) {
  const auto result = run_local_job(shell(1, "echo std::bad_alloc >&2; kill -ABRT $$"));
  ASSERT_TRUE(result.first_failure.has_value());
  EXPECT_NE(result.first_failure->hint.find("ulimit -v"), std::string::npos);
}

TEST_F(LocalJobTest, AfterAFailureRanksThatSitInAWaitAreNotGivenTheWholeBudget) {
  const auto result = run_local_job(shell(
      2, "trap '' TERM; if [ $RANK = 0 ]; then sleep 0.05; exit 1; fi; while :; do sleep 1; done"));
  EXPECT_EQ(result.ends[1].signal, SIGKILL);
  EXPECT_LT(result.ends[1].seconds, 10);
}

TEST_F(LocalJobTest, ReportsComeFromRankZeroLineByLine) {
  std::vector<std::string> lines;
  auto options =
      shell(2,
            "if [ $RANK = 0 ]; then printf '{\"step\":1}\\n{\"step\":2}\\n' >&$LOCKSTEP_REPORT_FD; "
            "else echo ${LOCKSTEP_REPORT_FD-none} > $D/1; fi");
  options.on_report = [&](const std::string& line) { lines.push_back(line); };
  EXPECT_EQ(run_local_job(options).exit, Exit::ok);
  EXPECT_EQ(lines, (std::vector<std::string>{"{\"step\":1}", "{\"step\":2}"}));
  EXPECT_EQ(file("1"), "none\n");
}

TEST_F(LocalJobTest, ABrokenReportReaderEndsTheJobWithItsOwnError) {
  auto options = shell(1, "echo x >&$LOCKSTEP_REPORT_FD; exec sleep 100");
  options.on_report = [](const std::string&) { throw std::runtime_error("bad line"); };
  EXPECT_THROW((void)run_local_job(options), std::runtime_error);
}

TEST_F(LocalJobTest, OutputCarriesItsRankAndStream) {
  EXPECT_EQ(run_local_job(shell(2, "echo out $RANK; echo err $RANK >&2")).exit, Exit::ok);
  ASSERT_EQ(output_.size(), 4U);
  for (const auto& line : output_) {
    EXPECT_EQ(line.text, (line.is_stderr ? "err " : "out ") + std::to_string(line.rank));
  }
}

TEST_F(LocalJobTest, LogsGoToFilesLaidOutAsTorchrunDoes) {
  auto options =
      shell(2, "echo out $RANK; echo err $RANK >&2; echo $TORCHELASTIC_ERROR_FILE; exit $RANK");
  options.log_dir = folder_ + "/logs";
  const auto result = run_local_job(options);
  EXPECT_TRUE(output_.empty());
  EXPECT_EQ(file("logs/attempt_0/1/stderr.log"), "err 1\n");
  EXPECT_EQ(file("logs/attempt_0/1/stdout.log"),
            "out 1\n" + folder_ + "/logs/attempt_0/1/error.json\n");
  EXPECT_EQ(result.first_failure->last_stderr, "err 1");
}

TEST_F(LocalJobTest, AFloodOfTwentyMegabytesBlocksNobody) {
  auto options = shell(
      2, "yes 'a line that is printed again and again' | head -c 20000000 >&2; echo done >&2");
  options.log_dir = folder_ + "/logs";
  const auto result = run_local_job(options);
  EXPECT_EQ(result.exit, Exit::ok);
  EXPECT_TRUE(result.ends[0].last_stderr.ends_with("done"));
  EXPECT_LE(result.ends[0].last_stderr.size(), 8192U);
  EXPECT_EQ(fs::file_size(folder_ + "/logs/attempt_0/0/stderr.log"), 20'000'005U);
}

TEST_F(LocalJobTest, WhatARankStartedEndsWithIt) {
  EXPECT_EQ(run_local_job(shell(1, "sleep 100 & echo $! > $D/pid; exit 0")).exit, Exit::ok);
  const int pid = std::stoi(file("pid"));
  EXPECT_TRUE(eventually([&] { return is_gone(pid); }));
}

TEST_F(LocalJobTest, WrongNumbersOfRanksAreUsageErrors) {
  for (const int ranks : {0, -1, 100'000}) {
    try {
      (void)run_local_job(shell(ranks, "exit 0"));
      FAIL() << ranks;
    } catch (const UsageError& error) {
      EXPECT_EQ(error.problems()[0].where, "--nproc-per-node");
    }
  }
}

TEST_F(LocalJobTest, AMissingProgramAndAPortInUseAreFaultsOfTheEnvironment) {
  auto missing = shell(1, "");
  missing.command = {"no-such-program"};
  EXPECT_THROW((void)run_local_job(missing), EnvironmentFault);
  missing.command = {folder_};  // may be entered, not run
  EXPECT_THROW((void)run_local_job(missing), EnvironmentFault);
  const store::Server holder("127.0.0.1", 0);
  auto taken = shell(1, "exit 0");
  taken.master_port = holder.port();
  try {
    (void)run_local_job(taken);
    FAIL() << "the port was taken twice";
  } catch (const EnvironmentFault& error) {
    EXPECT_EQ(error.problems()[0].code, "LS-3001");
  }
}

/// Runs a job in a process of its own, as a launcher is.
class LauncherProcess {
 public:
  explicit LauncherProcess(const LocalJobOptions& options) : pid_(::fork()) {
    if (pid_ != 0) return;
    int status = 99;
    try {
      status = static_cast<int>(run_local_job(options).exit);
    } catch (const std::exception&) {
      status = 98;
    }
    ::_exit(status);
  }
  LauncherProcess(const LauncherProcess&) = delete;
  LauncherProcess& operator=(const LauncherProcess&) = delete;
  ~LauncherProcess() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    (void)wait();
  }
  void send(int signal) const { ::kill(pid_, signal); }
  /// Exit code, or minus the signal.
  int wait() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  int pid_;
};

TEST_F(LocalJobTest, ALauncherKilledLeavesNoOrphanNorItsChildren) {
  LauncherProcess launcher(
      shell(2, "sleep 100 & echo $$ $! > $D/tmp$RANK; mv $D/tmp$RANK $D/$RANK; wait"));
  ASSERT_TRUE(eventually([&] { return fs::exists(folder_ + "/0") && fs::exists(folder_ + "/1"); }));
  launcher.send(SIGKILL);
  EXPECT_EQ(launcher.wait(), -SIGKILL);
  for (const char* rank : {"0", "1"}) {
    std::istringstream pids(file(rank));
    for (int pid = 0; pids >> pid;) EXPECT_TRUE(eventually([&] { return is_gone(pid); })) << rank;
  }
}

TEST_F(LocalJobTest, AJobThatWasStoppedAsAWholeGoesOnAsAWhole) {
  LauncherProcess launcher(
      shell(1, "echo $$ > $D/tmp; mv $D/tmp $D/pid; while [ ! -e $D/go ]; do sleep 0.01; done"));
  ASSERT_TRUE(eventually([&] { return fs::exists(folder_ + "/pid"); }));
  const int rank = std::stoi(file("pid"));
  launcher.send(SIGSTOP);
  ::kill(rank, SIGSTOP);
  std::this_thread::sleep_for(std::chrono::milliseconds(3500));  // more than the looks of a watch
  launcher.send(SIGCONT);
  ::kill(rank, SIGCONT);
  std::ofstream(folder_ + "/go") << "";
  EXPECT_EQ(launcher.wait(), 0);
}

TEST_F(LocalJobTest, SigtermLetsRanksSaveAndEndsAsSeventyFive) {
  LauncherProcess launcher(shell(2,
                                 "trap 'echo saved > $D/saved$RANK; exit 75' TERM; : > $D/$RANK; "
                                 "while :; do sleep 0.01; done"));
  ASSERT_TRUE(eventually([&] { return fs::exists(folder_ + "/0") && fs::exists(folder_ + "/1"); }));
  launcher.send(SIGTERM);
  EXPECT_EQ(launcher.wait(), 75);
  EXPECT_EQ(file("saved0") + file("saved1"), "saved\nsaved\n");
}

TEST_F(LocalJobTest, ASecondSignalKillsAtOnce) {
  LauncherProcess launcher(
      shell(1, "trap ': > $D/asked' TERM INT; : > $D/0; while :; do sleep 0.01; done"));
  ASSERT_TRUE(eventually([&] { return fs::exists(folder_ + "/0"); }));
  launcher.send(SIGINT);
  ASSERT_TRUE(eventually([&] { return fs::exists(folder_ + "/asked"); }))
      << "the first was not forwarded";
  launcher.send(SIGINT);
  EXPECT_EQ(launcher.wait(), 1);
}

}  // namespace
}  // namespace lockstep::launch
