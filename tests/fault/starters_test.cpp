// `lockstep train` is a rank when torchrun, mpirun or srun started it: by their variables, the same
// run as with our own front.
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
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

class Started : public TinyRunTest {
 protected:
  Started() : TinyRunTest(kRun) {}

  /// Runs `argv` as ranks 0 and 1 with `variables`, in which "%r" is the rank.
  static std::vector<ProgramResult> run_ranks(const std::vector<std::string>& argv,
                                              const std::vector<std::string>& variables) {
    std::vector<std::unique_ptr<RunningProgram>> ranks;
    for (const char* rank : {"0", "1"}) {
      ProgramOptions options;
      for (std::string variable : variables) {
        const std::size_t at = variable.find("%r");
        if (at != std::string::npos) variable.replace(at, 2, rank);
        options.extra_env.push_back(variable);
      }
      ranks.push_back(std::make_unique<RunningProgram>(argv, options));
    }
    std::vector<ProgramResult> results;
    for (const auto& rank : ranks) results.push_back(rank->wait());
    return results;
  }
  static std::vector<std::string> torchrun_with(const store::Server& server) {
    return {"RANK=%r",
            "LOCAL_RANK=%r",
            "WORLD_SIZE=2",
            "LOCAL_WORLD_SIZE=2",
            "MASTER_ADDR=127.0.0.1",
            "MASTER_PORT=" + std::to_string(server.port()),
            "TORCHELASTIC_USE_AGENT_STORE=True"};
  }
  [[nodiscard]] std::vector<std::string> mpirun() const {
    const auto job = std::hash<std::string>{}(folder_.path().string());
    return {"OMPI_COMM_WORLD_RANK=%r", "OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_LOCAL_RANK=%r",
            "OMPI_COMM_WORLD_LOCAL_SIZE=2",
            "OMPI_MCA_ess_base_jobid=lockstep-test-" + std::to_string(job)};
  }
};

/// Beside the same run with our own front.
class Starters : public Started {
 protected:
  void SetUp() override {
    const ProgramResult own = run_program(command({"--quiet", "--nproc-per-node", "2"}, "own"));
    ASSERT_EQ(own.exit_code, 0) << own.describe();
  }

  std::string hash(const std::string& run_dir) {
    const std::string text = read_file(folder_ / (run_dir + "/summary.json"));
    return nlohmann::json::parse(text, nullptr, false).value("state_sha256", "none");
  }

  void start_ranks(const std::string& run_dir, const std::vector<std::string>& variables) {
    for (const ProgramResult& result : run_ranks(command({"--quiet"}, run_dir), variables)) {
      EXPECT_EQ(result.exit_code, 0) << result.describe();
    }
    EXPECT_EQ(hash(run_dir), hash("own"));
  }
};

TEST_F(Starters, TorchrunWithAStoreOfItsAgent) {
  const store::Server server("127.0.0.1", 0);
  start_ranks("torchrun", torchrun_with(server));
}

TEST_F(Starters, MpirunOnOneHostNeedsNoAddress) { start_ranks("mpirun", mpirun()); }

TEST_F(Starters, SrunOnOneNode) {
  start_ranks("srun",
              {"SLURM_STEP_ID=0", "SLURM_JOB_ID=4242", "SLURM_PROCID=%r", "SLURM_LOCALID=%r",
               "SLURM_NODEID=0", "SLURM_NTASKS=2", "SLURM_STEP_NUM_TASKS=2", "SLURM_NNODES=1",
               "SLURM_NTASKS_PER_NODE=2", "SLURM_TASKS_PER_NODE=2", "SLURM_STEP_NODELIST=localhost",
               "SLURM_JOB_NODELIST=localhost"});
}

/// How often `part` occurs in what both ranks printed.
int count_in(const std::vector<ProgramResult>& results, const std::string& part) {
  int count = 0;
  for (const ProgramResult& result : results) {
    const std::string text = result.out + result.err;
    for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  }
  return count;
}

TEST_F(Started, ByOthersTheyTellEveryFaultOfTheRunOnceAndAllEndAlike) {
  write_file(folder_ / "run.toml",
             "[data]\nformat = \"idx\"\ntrain = \"/nowhere\"\neval = \"/nowhere\"\n"
             "[batch]\nglobal_batch = 15\n");
  const store::Server server("127.0.0.1", 0);
  for (const auto& variables : {torchrun_with(server), mpirun()}) {
    const auto results = run_ranks(command(set_words({"optimizer.lr=fast"})), variables);
    for (const ProgramResult& result : results) EXPECT_EQ(result.exit_code, 2) << result.describe();
    for (const char* fault :
         {"--set optimizer.lr: error LS-1004", "batch.global_batch: error LS-1009",
          "data.train: error LS-2001", "data.eval: error LS-2001"}) {
      EXPECT_EQ(count_in(results, fault), 1)
          << fault << results[0].describe() << results[1].describe();
    }
    EXPECT_FALSE(std::filesystem::exists(folder_ / "run"));
  }
}

TEST_F(Started, ByOthersTheyNoteWhatWasTakenOtherwiseThanTheFileSays) {
  TinyRun run = kRun;
  run.data += "train = \"/nowhere\"\n";
  write_file(folder_ / "run.toml", to_toml(run));
  const auto results = run_ranks(command(set_words({"data.format=synthetic"})), mpirun());
  for (const ProgramResult& result : results) EXPECT_EQ(result.exit_code, 0) << result.describe();
  EXPECT_EQ(count_in(results, "data.train is left out: data.format is \"synthetic\" by --set"), 1)
      << results[0].describe() << results[1].describe();
}

}  // namespace
}  // namespace lockstep::test
