// lockstep launch --hosts: what the launchers of the hosts are told, by flags and by variables.
// Here both are this machine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/run_program.h"

namespace lockstep::test {
namespace {

using testing::HasSubstr;
using testing::Not;

ProgramResult launch(std::vector<std::string> words, std::vector<std::string> variables = {}) {
  words.insert(words.begin(), {program("lockstep"), "launch"});
  ProgramOptions options;
  options.extra_env = std::move(variables);
  options.extra_env.emplace_back("OMP_NUM_THREADS=1");
  options.deadline = std::chrono::seconds(30);
  return run_program(words, options);
}

const std::vector<std::string> kTell{"--no-python", "sh", "-c", "echo $RANK of $WORLD_SIZE"};

std::vector<std::string> with(std::vector<std::string> words,
                              const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(LaunchNamedHosts, AVariableThatNamesHostsIsNotReadAgainByTheirLaunchers) {
  for (const char* variable : {"PET_HOSTS=127.0.0.1:2", "PET_HOSTFILE=$"}) {
    const TemporaryFolder folder;
    write_file(folder / "hosts", "127.0.0.1 slots=2\n");
    std::string text = variable;
    if (text.ends_with('$')) text = text.substr(0, text.size() - 1) + (folder / "hosts");
    const auto result = launch(kTell, {text});
    EXPECT_EQ(result.exit_code, 0) << result.describe();
    EXPECT_THAT(result.out, HasSubstr("[127.0.0.1] 1 of 2\n"));
    EXPECT_THAT(result.out, Not(HasSubstr("[127.0.0.1] [127.0.0.1]")));
  }
}

TEST(LaunchNamedHosts, NeitherVariablesNorASchedulerSayHowManyHostsThereAre) {
  for (const auto& variables :
       {std::vector<std::string>{"PET_NNODES=3", "PET_NODE_RANK=2", "PET_MASTER_PORT=1"},
        std::vector<std::string>{"SLURM_JOB_ID=7", "SLURM_NNODES=2", "SLURM_NODEID=1",
                                 "SLURM_JOB_NODELIST=n[1-2]", "SLURM_STEP_ID=0",
                                 "SLURM_STEP_NUM_TASKS=2", "SLURM_NTASKS=2",
                                 "SLURM_NTASKS_PER_NODE=1", "SLURM_PROCID=1"}}) {
    const auto result = launch(with({"--hosts", "127.0.0.1:1"}, kTell), variables);
    EXPECT_EQ(result.exit_code, 0) << result.describe();
    EXPECT_THAT(result.out, HasSubstr("0 of 1\n"));
  }
}

TEST(LaunchNamedHosts, OtherVariablesMeanOnTheHostsWhatTheyMeanHere) {
  const auto result =
      launch({"--hosts", "127.0.0.1:1", "--dry-run", "--json", "--no-python", "true"},
             {"PET_MAX_RESTARTS=3", "PET_TEE=1"});
  ASSERT_EQ(result.exit_code, 0) << result.describe();
  const auto host = nlohmann::json::parse(result.out)["hosts"][0];
  EXPECT_EQ(host["environment"]["PET_MAX_RESTARTS"], "3");
  EXPECT_EQ(host["environment"]["PET_TEE"], "1");
  EXPECT_EQ(host["environment"]["PET_HOSTS"], "");
}

TEST(LaunchNamedHosts, MoreHostsThanAreNamedAreRefused) {
  const auto result = launch(with({"--hosts", "127.0.0.1:1", "--nnodes", "3"}, kTell));
  EXPECT_EQ(result.exit_code, 2) << result.describe();
  EXPECT_THAT(result.err, HasSubstr("says 3, and 1 host is named"));
  EXPECT_EQ(launch(with({"--hosts", "127.0.0.1:1", "--nnodes", "1:2"}, kTell)).exit_code, 0)
      << "the hosts meet elastically, not by static";
}

TEST(LaunchNamedHosts, AsJsonThereIsOneDocumentAndAllElseIsOnStandardError) {
  const auto done = launch({"--json", "--hosts", "127.0.0.1:1", "--no-python", "echo", "hello"});
  EXPECT_EQ(done.out, "{\"status\":\"done\",\"restarts\":0}\n") << done.describe();
  EXPECT_EQ(done.err, "[127.0.0.1] hello\n");
  const auto failed = launch({"--json", "--hosts", "127.0.0.1:1", "--no-python", "false"});
  EXPECT_EQ(failed.exit_code, 1);
  EXPECT_EQ(nlohmann::json::parse(failed.out)["errors"][0]["code"], "LS-3085");
}

TEST(LaunchNamedHosts, AFolderThatIsGoneIsAFaultOfTheMachine) {
  const TemporaryFolder folder;
  const auto result = run_program(
      {"sh", "-c",
       "mkdir " + (folder / "gone") + "; cd " + (folder / "gone") + "; rmdir " + (folder / "gone") +
           "; exec " + program("lockstep") + " launch --hosts 127.0.0.1:1 --no-python true"});
  EXPECT_EQ(result.exit_code, 3) << result.describe();
  EXPECT_THAT(result.err, HasSubstr("LS-3083"));
}

}  // namespace
}  // namespace lockstep::test
