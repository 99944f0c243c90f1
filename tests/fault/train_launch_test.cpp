// lockstep train as a launcher: ranks that are started again, and one job of several launchers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/socket.h"
#include "tests/support/eventually.h"
#include "tests/support/front_ranks.h"
#include "tests/support/run_program.h"
#include "tests/support/tiny_run.h"

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

class TrainLaunch : public TinyRunTest {
 protected:
  TrainLaunch()
      : TinyRunTest({.run = "name = \"launched\"\nsteps = 8\n",
                     .more = "[optimizer]\nname = \"sgd\"\nlr = 0.01\n"}) {}

  std::unique_ptr<RunningProgram> start(const std::vector<std::string>& more) const {
    return std::make_unique<RunningProgram>(command(more));
  }
  /// The agent `node` of two that meet at `port`.
  std::unique_ptr<RunningProgram> start_agent(int node, int port,
                                              std::vector<std::string> more = {}) const {
    const std::string secret = folder_ / "secret";
    write_file(secret, std::string(64, 'a') + "\n");
    ::chmod(secret.c_str(), 0600);
    more.insert(more.end(), {"--nnodes", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint",
                             "127.0.0.1:" + std::to_string(port), "--rdzv-id", "launched",
                             "--job-secret", secret, "--node-rank", std::to_string(node)});
    return start(more);
  }
  [[nodiscard]] std::string state_hash(const std::string& run_dir) const {
    const std::string text = read_file(folder_.path() / run_dir / "summary.json");
    return nlohmann::json::parse(text, nullptr, false).value("state_sha256", "none");
  }
  static bool is_served(int port) {
    try {
      (void)connect_to("127.0.0.1", port,
                       std::chrono::steady_clock::now() + std::chrono::milliseconds(100));
      return true;
    } catch (const EnvironmentFault&) {
      return false;
    }
  }
  static void kill_rank(const RunningProgram& job, int rank) {
    int pid = 0;
    ASSERT_TRUE(eventually([&] { return (pid = find_rank(job.pid(), rank)) > 0; }))
        << job.out_so_far() << job.err_so_far();
    ASSERT_EQ(::kill(pid, SIGKILL), 0);
  }
  /// Of checkpoints that this job has written: "step-NNN" above `step`.
  [[nodiscard]] bool has_checkpoint_above(int step) const {
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(folder_ / "run/checkpoints", none)) {
      const std::string name = entry.path().filename();
      if (name.starts_with("step-") && std::atoi(name.c_str() + 5) > step) return true;
    }
    return false;
  }
};

TEST_F(TrainLaunch, AKilledRankIsStartedAgainFromItsOwnCheckpointWhateverResumeSaid) {
  ASSERT_EQ(run_program(command({"--quiet"})).exit_code, 0);  // leaves a checkpoint of step 8
  const auto job = start({"--nproc-per-node", "2", "--max-restarts", "1", "--resume", "none",
                          "--set", "run.steps=10000000", "--set", "checkpoint.every=100"});
  ASSERT_TRUE(eventually([&] { return has_checkpoint_above(8); })) << job->err_so_far();
  kill_rank(*job, 1);
  EXPECT_TRUE(eventually([&] {
    return job->out_so_far().find("going on from") != std::string::npos;
  })) << job->err_so_far();
  job->send_signal(SIGTERM);
  const ProgramResult result = job->wait();
  EXPECT_EQ(result.exit_code, 75) << result.describe();
  EXPECT_THAT(result.err, HasSubstr("restart 1 of 1"));
}

TEST_F(TrainLaunch, WithoutACheckpointOfItsOwnItStartsAsItWasTold) {
  ASSERT_EQ(run_program(command({"--quiet"})).exit_code, 0);
  const auto job =
      start({"--max-restarts", "1", "--resume", "none", "--set", "run.steps=10000000"});
  ASSERT_TRUE(eventually([&] { return !fs::exists(folder_ / "run/checkpoints/step-8"); }));
  ASSERT_TRUE(eventually([&] { return has_done_step(5); })) << job->err_so_far();
  kill_rank(*job, 0);
  EXPECT_TRUE(eventually([&] {
    return job->err_so_far().find("restart 1 of 1") != std::string::npos;
  })) << job->err_so_far();
  kill_rank(*job, 0);
  const ProgramResult result = job->wait();
  EXPECT_EQ(result.exit_code, 1) << result.describe();
  EXPECT_THAT(result.out, Not(HasSubstr("going on from")));
}

TEST_F(TrainLaunch, TwoAgentsTrainToTheNumbersOfOneFront) {
  ASSERT_EQ(run_program(command({"--quiet", "--nproc-per-node", "2"}, "own")).exit_code, 0);
  const int port = listen_on("127.0.0.1", 0).port;
  const auto first = start_agent(0, port, {"--json"});
  const auto second = start_agent(1, port);
  const ProgramResult result = first->wait();
  EXPECT_EQ(result.exit_code, 0) << result.describe();
  EXPECT_EQ(second->wait().exit_code, 0);
  EXPECT_EQ(state_hash("run"), state_hash("own"));
  EXPECT_EQ(nlohmann::json::parse(result.out)["steps"], 8) << result.describe();
}

TEST_F(TrainLaunch, AnAgentWithAnotherConfigurationIsRefusedByTheNameOfWhatDiffers) {
  const int port = listen_on("127.0.0.1", 0).port;
  const auto first = start_agent(0, port);
  ASSERT_TRUE(eventually([&] { return is_served(port); }));  // so the first one leads
  const auto second = start_agent(1, port, {"--set", "optimizer.lr=0.02"});
  const ProgramResult result = second->wait();
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.err, HasSubstr("LS-3023"));
  EXPECT_THAT(result.err, HasSubstr("config"));
  first->send_signal(SIGTERM);
  (void)first->wait();
}

TEST_F(TrainLaunch, SeveralHostsNeedARunDirectoryAndAllFaultsAreTold) {
  const ProgramResult without =
      run_program({program("lockstep"), "train", folder_ / "run.toml", "--hosts", "a:1,b:1"});
  EXPECT_EQ(without.exit_code, 2);
  EXPECT_THAT(without.err, HasSubstr("--run-dir: error LS-1013"));
  const ProgramResult wrong =
      run_program(command({"--max-restarts", "many", "--set", "optimizer.lr=fast"}));
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("--max-restarts: error LS-1013"));
  EXPECT_THAT(wrong.err, HasSubstr("optimizer.lr: error LS-1004"));
  EXPECT_FALSE(fs::exists(folder_ / "run"));
}

TEST_F(TrainLaunch, ADryRunOnNamedHostsShowsEachLauncherAndItsRanks) {
  const ProgramResult result =
      run_program(command({"--hosts", "a:1,b:2", "--dry-run", "--json", "--max-restarts", "2"}));
  ASSERT_EQ(result.exit_code, 0) << result.describe();
  const auto hosts = nlohmann::json::parse(result.out)["hosts"];
  ASSERT_EQ(hosts.size(), 2U);
  EXPECT_EQ(hosts[1]["host"], "b");
  EXPECT_EQ(hosts[1]["command"][1], "train");
  EXPECT_EQ(hosts[1]["ranks"][1]["rank"], 2);
  EXPECT_EQ(hosts[1]["ranks"][1]["environment"]["WORLD_SIZE"], "3");
  EXPECT_FALSE(fs::exists(folder_ / "run"));
}

/// In a process number space of its own, whose first process takes in orphans: a shell.
TEST(Leftovers, AnOrphanOfAnOlderJobIsListedAndLeftAloneAndRanksOfALiveJobAreNot) {
  const std::string lockstep = program("lockstep");
  const std::string script =
      "(TORCHELASTIC_RUN_ID=older sleep 1000 & echo $! > orphan); " + lockstep +
      " launch --rdzv-id live --no-python sh -c 'echo $$ > rank; exec sleep 1000' & "
      "while [ ! -s rank ] || [ ! -s orphan ]; do sleep 0.01; done; " +
      lockstep + " launch --no-python true; kill -0 $(cat orphan) && cat orphan";
  const TemporaryFolder folder;
  const ProgramResult result =
      run_program({"unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "sh",
                   "-c", "cd " + folder.path().string() + "; " + script});
  EXPECT_EQ(result.exit_code, 0) << result.describe();
  const std::string orphan = result.out.substr(0, result.out.find('\n'));
  EXPECT_THAT(result.err, HasSubstr("process " + orphan + ", sleep 1000, started"));
  EXPECT_THAT(result.err, HasSubstr("by run older; `kill " + orphan + "` ends it"));
  EXPECT_THAT(result.err, Not(HasSubstr("by run live")));
}

}  // namespace
}  // namespace lockstep::test
