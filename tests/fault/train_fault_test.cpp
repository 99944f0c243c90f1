// What a user meets when something is wrong with a training run: a clear error, the contract's exit
// code, no hang, no orphan.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/socket.h"
#include "lockstep/store/server.h"
#include "tests/support/eventually.h"
#include "tests/support/front_ranks.h"
#include "tests/support/run_program.h"
#include "tests/support/tiny_run.h"

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;

const TinyRun kRun{.run = "name = \"fault\"\nsteps = 8\n",
                   .more = "[optimizer]\nname = \"sgd\"\nlr = 0.01\n"};

class TrainFault : public TinyRunTest {
 protected:
  TrainFault() : TinyRunTest(kRun) {}

  ProgramResult train(const std::vector<std::string>& more) const {
    return run_program(command(more));
  }
  /// A run on two ranks that would take minutes, once it is in its steps.
  std::unique_ptr<RunningProgram> start_long_run() const {
    auto running = std::make_unique<RunningProgram>(
        command({"--nproc-per-node", "2", "--set", "run.steps=10000000"}));
    EXPECT_TRUE(eventually([&] { return has_done_step(3); })) << running->err_so_far();
    return running;
  }
};

TEST_F(TrainFault, NoRanksIsAUsageError) {
  const auto result = train({"--nproc-per-node", "0"});
  EXPECT_EQ(result.exit_code, 2) << result.describe();
  EXPECT_NE(result.err.find("--nproc-per-node"), std::string::npos) << result.describe();
}

TEST_F(TrainFault, AllConfigurationErrorsAreToldAtOnceWithTheirPlace) {
  write_file(folder_ / "run.toml", to_toml(kRun) + "momentun = 0.9\n[run2]\nx = 1\n");
  const auto result = train({"--set", "run.steps=many"});
  EXPECT_EQ(result.exit_code, 2) << result.describe();
  EXPECT_NE(result.err.find("run.toml:22:"), std::string::npos) << result.describe();
  EXPECT_NE(result.err.find("momentum"), std::string::npos) << "the nearest name is missing";
  EXPECT_NE(result.err.find("run.steps"), std::string::npos) << result.describe();
  EXPECT_FALSE(fs::exists(folder_ / "run")) << "a run directory was made for a run that cannot be";
}

TEST_F(TrainFault, ABatchThatDoesNotDivideNamesOneThatDoes) {
  const auto result = train({"--nproc-per-node", "2", "--set", "batch.global_batch=20"});
  EXPECT_EQ(result.exit_code, 2) << result.describe();
  EXPECT_NE(result.err.find("16"), std::string::npos) << result.describe();
}

TEST_F(TrainFault, AMissingConfigurationIsAUsageErrorAlsoAsJson) {
  const auto result = run_program({program("lockstep"), "train", folder_ / "none.toml", "--json"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_TRUE(result.out.starts_with("{\"errors\":[{\"code\":\"LS-1001\"")) << result.describe();
}

TEST_F(TrainFault, APortInUseIsAFaultOfTheEnvironmentThatNamesItsHolder) {
  const store::Server holder("127.0.0.1", 0);
  const auto result = train({"--master-port", std::to_string(holder.port())});
  EXPECT_EQ(result.exit_code, 3) << result.describe();
  EXPECT_NE(result.err.find("pid " + std::to_string(::getpid())), std::string::npos)
      << result.describe();
}

TEST_F(TrainFault, AMissingDataSetIsAFaultOfTheEnvironmentToldOnce) {
  write_file(folder_ / "run.toml",
             "[model]\nfamily = \"mlp\"\n[data]\nformat = \"idx\"\ntrain = \"" +
                 (folder_ / "none/train-images-idx3-ubyte.gz") + "\"\n");
  const auto result = train({"--nproc-per-node", "2", "--set", "run.steps=1"});
  EXPECT_EQ(result.exit_code, 3) << result.describe();
  const auto first = result.err.find("error LS-2");
  EXPECT_NE(first, std::string::npos) << result.describe();
  EXPECT_EQ(result.err.find("error LS-2", first + 1), std::string::npos) << result.describe();
}

TEST_F(TrainFault, ATruncatedDataFileIsBadDataAlsoAsJson) {
  const std::string images = folder_ / "train-images-idx3-ubyte";
  write_file(images,
             std::string("\0\0\10\3\0\0\0\12\0\0\0\34\0\0\0\34", 16) + std::string(99, 'x'));
  write_file(folder_ / "train-labels-idx1-ubyte",
             std::string("\0\0\10\1\0\0\0\12", 8) + std::string(10, '\1'));
  write_file(folder_ / "run.toml",
             "[model]\nfamily = \"mlp\"\n[data]\nformat = \"idx\"\ntrain = \"" + images + "\"\n");
  const auto result = train({"--json", "--set", "run.steps=1"});
  EXPECT_EQ(result.exit_code, 4) << result.describe();
  EXPECT_TRUE(result.out.starts_with("{\"errors\":[{\"code\":\"LS-2")) << result.describe();
}

TEST_F(TrainFault, ARankKilledInMidStepIsNamedAndAllStop) {
  const auto running = start_long_run();
  const int first = find_rank(running->pid(), 0);
  const int second = find_rank(running->pid(), 1);
  ASSERT_GT(second, 0);
  ::kill(second, SIGKILL);
  const auto result = running->wait();
  EXPECT_EQ(result.exit_code, 1) << result.describe();
  EXPECT_NE(result.err.find("rank 1 was killed by SIGKILL"), std::string::npos)
      << result.describe();
  EXPECT_TRUE(is_gone(first));
}

TEST_F(TrainFault, AFrontKilledLeavesNoRankBehind) {
  const auto running = start_long_run();
  const std::vector<int> ranks{find_rank(running->pid(), 0), find_rank(running->pid(), 1)};
  running->send_signal(SIGKILL);
  for (const int pid : ranks) {
    ASSERT_GT(pid, 0);
    EXPECT_TRUE(eventually([&] { return is_gone(pid); })) << pid;
  }
}

TEST_F(TrainFault, SigtermSavesEndsAsSeventyFiveAndTheSameCommandGoesOn) {
  const auto running = start_long_run();
  running->send_signal(SIGTERM);
  const auto stopped = running->wait();
  EXPECT_EQ(stopped.exit_code, 75) << stopped.describe();
  EXPECT_NE(stopped.err.find("--run-dir"), std::string::npos) << stopped.describe();
  RunningProgram again(command({"--nproc-per-node", "2", "--set", "run.steps=10000000"}));
  EXPECT_TRUE(eventually([&] {
    return again.out_so_far().find("going on from") != std::string::npos;
  })) << again.out_so_far()
      << again.err_so_far();
}

TEST_F(TrainFault, ACheckpointThatIsNotThereIsAUsageError) {
  const auto result = train({"--resume", "step-7"});
  EXPECT_EQ(result.exit_code, 2) << result.describe();
  EXPECT_NE(result.err.find("step-7"), std::string::npos) << result.describe();
}

// RANK and WORLD_SIZE without LOCAL_RANK: a PyTorchJob, whose RANK is the pod's number.
TEST_F(TrainFault, APodOfSeveralNodesIsTheAgentOfItsNode) {
  ProgramOptions options;
  const int port = listen_on("127.0.0.1", 0).port;
  options.extra_env = {"RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1",
                       "MASTER_PORT=" + std::to_string(port), "PET_RDZV_CONF=timeout=1"};
  const auto result = run_program(command({}), options);
  EXPECT_EQ(result.exit_code, 3) << result.describe();
  EXPECT_NE(result.err.find("node 1 of 2 has not come"), std::string::npos) << result.describe();
}

}  // namespace
}  // namespace lockstep::test
