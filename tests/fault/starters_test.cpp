// `lockstep train` is a rank when torchrun, mpirun or srun started it: by their variables, the same
// run as with our own front.
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lockstep/store/server.h"
#include "tests/support/run_program.h"
#include "tests/support/tiny_run.h"

namespace lockstep::test {
namespace {

const TinyRun kRun{.run = "steps = 6\n", .data = "train_samples = 100\n"};

class Starters : public TinyRunTest {
 protected:
  Starters() : TinyRunTest(kRun) {}
  void SetUp() override {
    const ProgramResult own = run_program(command({"--quiet", "--nproc-per-node", "2"}, "own"));
    ASSERT_EQ(own.exit_code, 0) << own.describe();
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
      ranks.push_back(std::make_unique<RunningProgram>(command({"--quiet"}, run_dir), options));
    }
    for (const auto& rank : ranks) {
      const ProgramResult result = rank->wait();
      EXPECT_EQ(result.exit_code, 0) << result.describe();
    }
    EXPECT_EQ(hash(run_dir), hash("own"));
  }
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
