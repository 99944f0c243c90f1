// lockstep submit: the script or manifest by which a scheduler starts a training.
#include "lockstep/starters/submit.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <ostream>

#include "lockstep/base/random_hex.h"
#include "lockstep/cli/commands.h"
#include "lockstep/cli/run_flags.h"

namespace lockstep::cli {
namespace {

constexpr int kMostNodes = 100'000;

constexpr std::array kFlags{
    Flag{.name = "--print",
         .value = "KIND",
         .help = "what starts the training: slurm (a script for sbatch), k8s (an Indexed Job) or "
                 "pytorchjob (Kubeflow)",
         .words = "slurm|k8s|pytorchjob"},
    Flag{.name = "--nnodes",
         .value = "N",
         .help = "nodes or pods; default 1",
         .type = ValueType::integer,
         .minimum = 1,
         .maximum = kMostNodes},
    kNprocFlag,
    kSetFlag,
    Flag{.name = "--run-dir",
         .value = "DIR",
         .help = "where the run leaves its files, seen by all nodes; default one for each job"},
    Flag{.name = "--time",
         .value = "LIMIT",
         .help = "of slurm: the longest that one start may take; default 1-00:00:00, a day"},
    Flag{.name = "--image",
         .value = "IMAGE",
         .help = "of k8s and pytorchjob: a container that holds lockstep; default lockstep:latest"},
};

constexpr auto kExamples = std::to_array<Example>({
    {"lockstep submit --print slurm run.toml --nnodes 2 --nproc-per-node 8 > job.sh; sbatch job.sh",
     "16 ranks under Slurm, requeued with their state when the time is up"},
    {"lockstep submit --print k8s run.toml --nnodes 4 --image registry.local/train:7 | kubectl "
     "apply -f -",
     "an Indexed Job of 4 pods"},
    {"lockstep submit --print pytorchjob run.toml --nnodes 2 --nproc-per-node 4",
     "a PyTorchJob of a Master and a Worker"},
});

const starters::SubmitKind& kind_of(const Args& args) {
  const auto kinds = starters::submit_kinds();
  const std::string name = args.text("--print");
  const auto kind = std::find_if(kinds.begin(), kinds.end(),
                                 [&](const starters::SubmitKind& one) { return one.name == name; });
  if (kind == kinds.end()) {
    throw UsageError({{"LS-1013", "--print", "the kind is missing",
                       "use --print slurm, --print k8s or --print pytorchjob"}});
  }
  return *kind;
}

/// A rank of the job needs what the plan of all of them says.
starters::Submission submission_of(const Args& args, const Context& context) {
  const Host host = probe_host();
  const config::ParsedConfig parsed = read_run(args);
  starters::Submission job;
  job.nnodes = static_cast<int>(args.integer("--nnodes").value_or(1));
  job.nproc_per_node = ranks_of(args, parsed.config, host);
  if (!args.has(kNprocFlag.name) && job.nproc_per_node % job.nnodes == 0) {
    job.nproc_per_node /= job.nnodes;  // parallel.data counts all ranks
  }
  const rundir::CheckedRun run = check_run(args, context, host, job.nnodes * job.nproc_per_node,
                                           /*needs_data=*/false);
  job.run_file = args.words().front();
  std::ifstream in(job.run_file, std::ios::binary);
  job.run_text.assign(std::istreambuf_iterator<char>(in), {});
  job.name = run.config.run.name;
  for (const std::string& set : args.all(kSetFlag.name)) {
    job.more_words.insert(job.more_words.end(), {std::string(kSetFlag.name), set});
  }
  job.run_dir = args.text("--run-dir");
  job.threads = run.config.run.threads;
  job.rank_memory_bytes = run.plan.memory.total();
  job.shared_memory_bytes = run.plan.memory.gradients + run.plan.memory.communication;
  job.saves_between = run.config.checkpoint.every > 0;
  job.time_limit = args.text("--time", job.time_limit);
  job.image = args.text("--image", job.image);
  job.secret_hex = random_hex(64);  // 32 bytes
  return job;
}

Exit run(const Args& args, const Context& context) {
  const starters::SubmitKind& kind = kind_of(args);
  const std::string text = kind.print(submission_of(args, context));
  if (context.json) {
    context.out << nlohmann::ordered_json{{"kind", kind.name}, {"text", text}}.dump() << std::endl;
  } else {
    context.out << text << std::flush;
  }
  return Exit::ok;
}

}  // namespace

Command submit_command() {
  return {.name = "submit",
          .summary = "print what a scheduler needs to start a training: Slurm, Kubernetes",
          .description =
              "Checks RUN.toml for the ranks that are asked for, and prints a script or a manifest "
              "that trains it: nothing is submitted. A job that is stopped by its scheduler saves "
              "its state, and goes on from it when it is started again. A manifest holds RUN.toml "
              "itself and a secret made for it.",
          .examples = kExamples,
          .positional = {.name = "RUN.toml", .help = "the run", .at_least = 1},
          .flags = kFlags,
          .json = "kind and text.",
          .run = run,
          .check_values = run_file_problems};
}

}  // namespace lockstep::cli
