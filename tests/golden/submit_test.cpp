// `lockstep submit`: the scripts and manifests, and what it refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/run_program.h"
#include "tests/support/tiny_run.h"

namespace lockstep::test {
namespace {

using testing::HasSubstr;
using testing::Not;

class Submit : public TinyRunTest {
 protected:
  Submit() : TinyRunTest({.run = "name = \"tiny\"\nsteps = 6\nthreads = 2\n"}) {}

  [[nodiscard]] ProgramResult submit(std::vector<std::string> words) const {
    words.insert(words.begin(), {program("lockstep"), "submit", folder_ / "run.toml"});
    return run_program(words);
  }
  [[nodiscard]] std::string printed(const std::vector<std::string>& words) const {
    const ProgramResult result = submit(words);
    EXPECT_EQ(result.exit_code, 0) << result.describe();
    std::string text = result.out;
    const std::string path = folder_ / "run.toml";
    for (std::size_t at = text.find(path); at != std::string::npos; at = text.find(path)) {
      text.replace(at, path.size(), "RUN.toml");
    }
    return text;
  }
};

TEST_F(Submit, PrintsAScriptForSlurmWordForWord) {
  const std::string script = printed({"--print", "slurm", "--nnodes", "2", "--nproc-per-node", "4",
                                      "--set", "checkpoint.every=100", "--time", "02:00:00"});
  EXPECT_EQ(script, R"(#!/bin/bash
# Trains RUN.toml under Slurm: sbatch THIS_FILE, in the folder that paths start from.
#SBATCH --job-name=tiny
#SBATCH --nodes=2
# One task is one rank: srun starts them all, and they start no others.
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=2
#SBATCH --time=02:00:00
# 90 s before the time is up the ranks get SIGUSR1, save their state and leave with code 75.
#SBATCH --signal=USR1@90
# Slurm starts the job again when a node fails, or when a more urgent job has taken its place.
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=%x-%j.log
# What a site may ask for besides:
##SBATCH --partition=NAME
##SBATCH --account=NAME
##SBATCH --gpus-per-task=1

# The same for every start of this job: each goes on where the one before stopped.
run_dir="runs/tiny-${SLURM_JOB_ID}"
echo "start $((${SLURM_RESTART_COUNT:-0} + 1)) of job ${SLURM_JOB_ID} on ${SLURM_JOB_NODELIST}"
srun --cpus-per-task=2 lockstep train RUN.toml --run-dir "${run_dir}" \
  --set checkpoint.every=100
status=$?
# 75 = stopped on request with the state saved.
if [[ ${status} -eq 75 ]]; then
  scontrol requeue "${SLURM_JOB_ID}"
fi
exit "${status}"
)");
  write_file(folder_ / "job.sh", script);
  const ProgramResult syntax = run_program({"bash", "-n", folder_ / "job.sh"});
  EXPECT_EQ(syntax.exit_code, 0) << syntax.describe();
}

TEST_F(Submit, AManifestHoldsTheRunAndASecretOfItsOwn) {
  const std::vector<std::string> words{"--print", "k8s", "--nnodes", "2", "--image", "train:7"};
  const std::string manifest = printed(words);
  for (const char* part :
       {"kind: Service\n", "kind: Secret\n", "kind: ConfigMap\n", "kind: Job\n",
        "  completionMode: Indexed\n", "image: \"train:7\"\n", "{name: PET_NNODES, value: \"2\"}\n",
        "    name = \"tiny\"\n", "\"lockstep\", \"train\", \"/etc/lockstep/run.toml\""}) {
    EXPECT_THAT(manifest, HasSubstr(part));
  }
  EXPECT_NE(manifest, printed(words)) << "two manifests share a secret";
  EXPECT_THAT(printed({"--print", "pytorchjob", "--nnodes", "3"}),
              HasSubstr("    Worker:\n      replicas: 2\n"));
}

TEST_F(Submit, SaysAsJsonWhatItWouldPrint) {
  const auto document =
      nlohmann::json::parse(submit({"--print", "slurm", "--json"}).out, nullptr, false);
  EXPECT_EQ(document.value("kind", ""), "slurm");
  EXPECT_THAT(document.value("text", ""), HasSubstr("#SBATCH --nodes=1\n"));
}

TEST_F(Submit, RefusesWhatCouldNotTrain) {
  const ProgramResult none = submit({});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.err, HasSubstr("--print: error LS-1013"));
  const ProgramResult other = submit({"--print", "slrm"});
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_THAT(other.err, HasSubstr("use slurm|k8s|pytorchjob"));
  const ProgramResult batch =
      submit({"--print", "slurm", "--nnodes", "3", "--set", "batch.global_batch=16"});
  EXPECT_EQ(batch.exit_code, 2) << batch.describe();
  EXPECT_THAT(batch.err, HasSubstr("LS-1009"));
  EXPECT_EQ(batch.out, "");
}

}  // namespace
}  // namespace lockstep::test
