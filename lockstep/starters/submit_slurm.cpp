#include <algorithm>
#include <cctype>
#include <string>

#include "lockstep/base/shell_word.h"
#include "lockstep/starters/submit.h"
#include "lockstep/starters/template_text.h"

namespace lockstep::starters {
namespace {

constexpr std::string_view kScript = R"(#!/bin/bash
# Trains @run_file_text@ under Slurm: sbatch THIS_FILE, in the folder that paths start from.
#SBATCH --job-name=@name@
#SBATCH --nodes=@nnodes@
# One task is one rank: srun starts them all, and they start no others.
#SBATCH --ntasks-per-node=@nproc@
#SBATCH --cpus-per-task=@threads@
#SBATCH --time=@time@
# 90 s before the time is up the ranks get SIGUSR1, save their state and leave with code 75.
#SBATCH --signal=USR1@at@90
# Slurm starts the job again when a node fails, or when a more urgent job has taken its place.
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=%x-%j.log
# What a site may ask for besides:
##SBATCH --partition=NAME
##SBATCH --account=NAME
##SBATCH --gpus-per-task=1

# The same for every start of this job: each goes on where the one before stopped.
run_dir=@run_dir@
@hint@
echo "start $((${SLURM_RESTART_COUNT:-0} + 1)) of job ${SLURM_JOB_ID} on ${SLURM_JOB_NODELIST}"
srun --cpus-per-task=@threads@ lockstep train @run_file@ --run-dir "${run_dir}"@more@
status=$?
# 75 = stopped on request with the state saved.
if [[ ${status} -eq 75 ]]; then
  scontrol requeue "${SLURM_JOB_ID}"
fi
exit "${status}"
)";

constexpr const char* kHint =
    "# A node that fails takes all steps since the last checkpoint with it, and without\n"
    "# checkpoint.every there is none in between: add --set checkpoint.every=500 below.";

/// A name that Slurm's options and file names take.
std::string job_name(const std::string& name) {
  std::string plain = name.substr(0, 64);
  std::replace_if(
      plain.begin(), plain.end(),
      [](unsigned char c) {
        return c >= 0x80 || (std::isalnum(c) == 0 && c != '-' && c != '_' && c != '.');
      },
      '-');
  return plain.empty() ? "run" : plain;
}

/// For a comment or an option: a line break would end it.
std::string one_line(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
  return text;
}

}  // namespace

std::string slurm_script(const Submission& job) {
  const std::string name = job_name(job.name);
  const std::string own_dir = "\"runs/" + name + "-${SLURM_JOB_ID}\"";
  return filled(kScript,
                {{"run_file_text", one_line(job.run_file)},
                 {"name", name},
                 {"nnodes", std::to_string(job.nnodes)},
                 {"nproc", std::to_string(job.nproc_per_node)},
                 {"threads", std::to_string(job.threads)},
                 {"time", one_line(job.time_limit)},
                 {"at", "@"},
                 {"run_dir", job.run_dir.empty() ? own_dir : shell_word(job.run_dir)},
                 {"hint", job.saves_between ? "" : kHint},
                 {"run_file", shell_word(job.run_file)},
                 {"more", job.more_words.empty() ? "" : " \\\n  " + shell_line(job.more_words)}});
}

}  // namespace lockstep::starters
