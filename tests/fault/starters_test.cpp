// `lockstep train` is a rank when torchrun, mpirun or srun started it: by their variables, the same
// run as with our own front.
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lockstep/store/server.h"
#include "tests/support/run_program.h"

namespace lockstep::test {
namespace {

constexpr const char* kRun = R"([run]
steps = 6
[model]
family = "mlp"
layers = 1
width = 16
inputs = 8
classes = 4
[data]
format = "synthetic"
train_samples = 100
[batch]
micro_batch = 8
)";

class Starters : public testing::Test {
 protected:
  void SetUp() override {
    write_file(folder_ / "run.toml", kRun);
    const ProgramResult own = run_program(command("own", {"--nproc-per-node", "2"}));
    ASSERT_EQ(own.exit_code, 0) << own.describe();
  }

  std::vector<std::string> command(const std::string& run_dir, std::vector<std::string> more = {}) {
    std::vector<std::string> argv{program("lockstep"), "train",     folder_ / "run.toml",
                                  "--quiet",           "--run-dir", folder_ / run_dir};
    argv.insert(argv.end(), more.begin(), more.end());
    return argv;
  }

  std::string hash(const std::string& run_dir) {
    const std::string text = read_file(folder_ / (run_dir + "/summary.json"));
    return nlohmann::json::parse(text, nullptr, false).value("state_sha256", "none");
  }

  /// Starts ranks 0 and 1 with `variables`, in which "%r" is the rank.
  void start_ranks(const std::string& run_dir, const std::vector<std::string>& variables) {
    std::vector<std::unique_ptr<RunningProgram>> ranks;
    for (const char* rank : {"0", "1"}) {
      ProgramOptions options;
      for (std::string variable : variables) {
        const std::size_t at = variable.find("%r");
        if (at != std::string::npos) variable.replace(at, 2, rank);
        options.extra_env.push_back(variable);
      }
      ranks.push_back(std::make_unique<RunningProgram>(command(run_dir), options));
    }
    for (const auto& rank : ranks) {
      const ProgramResult result = rank->wait();
      EXPECT_EQ(result.exit_code, 0) << result.describe();
    }
    EXPECT_EQ(hash(run_dir), hash("own"));
  }

  TemporaryFolder folder_;
};

TEST_F(Starters, TorchrunWithAStoreOfItsAgent) {
  const store::Server server("127.0.0.1", 0);
  start_ranks("torchrun", {"RANK=%r", "LOCAL_RANK=%r", "WORLD_SIZE=2", "LOCAL_WORLD_SIZE=2",
                           "MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + std::to_string(server.port()),
                           "TORCHELASTIC_USE_AGENT_STORE=True"});
}

TEST_F(Starters, MpirunOnOneHostNeedsNoAddress) {
  start_ranks("mpirun", {"OMPI_COMM_WORLD_RANK=%r", "OMPI_COMM_WORLD_SIZE=2",
                         "OMPI_COMM_WORLD_LOCAL_RANK=%r", "OMPI_COMM_WORLD_LOCAL_SIZE=2",
                         "OMPI_MCA_ess_base_jobid=lockstep-test-" +
                             std::to_string(std::hash<std::string>{}(folder_.path().string()))});
}

TEST_F(Starters, SrunOnOneNode) {
  start_ranks("srun",
              {"SLURM_STEP_ID=0", "SLURM_JOB_ID=4242", "SLURM_PROCID=%r", "SLURM_LOCALID=%r",
               "SLURM_NODEID=0", "SLURM_NTASKS=2", "SLURM_STEP_NUM_TASKS=2", "SLURM_NNODES=1",
               "SLURM_NTASKS_PER_NODE=2", "SLURM_TASKS_PER_NODE=2", "SLURM_STEP_NODELIST=localhost",
               "SLURM_JOB_NODELIST=localhost"});
}

}  // namespace
}  // namespace lockstep::test
