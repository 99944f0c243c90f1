// lockstep launch: starts any program on this host and watches it, with torchrun's flags.
#include <array>
#include <memory>
#include <ostream>
#include <string>
#include <utility>

#include "lockstep/cli/commands.h"
#include "lockstep/cli/launch_flags.h"
#include "lockstep/cli/launch_front.h"

namespace lockstep::cli {
namespace {

constexpr auto kExamples = std::to_array<Example>({
    {"lockstep launch --nproc-per-node 2 train.py --lr 0.1", "a PyTorch script on 2 ranks"},
    {"lockstep launch --nproc-per-node 4 --max-restarts 3 --log-dir logs --tee 3 train.py",
     "started again when a rank fails, output also in files"},
    {"lockstep launch --nproc-per-node 2 ./solver --size 10", "a program that is not Python's"},
    {"lockstep launch --hosts node-a:4,node-b:4 train.py", "on two hosts, over ssh"},
    {"lockstep launch --nproc-per-node auto --dry-run train.py", "what would be started"},
});

std::vector<Problem> check(const Args& args, const Context& context) {
  return read_launch(args, context, args.words()).problems;
}

Exit run(const Args& args, const Context& context) {
  LaunchJob job;
  job.read = read_launch(args, context, args.words());
  return run_launch(std::move(job), args, context);
}

}  // namespace

Command launch_command() {
  return {
      .name = "launch",
      .summary = "start any program on several ranks, as torchrun does",
      .description =
          "Starts PROGRAM once for each rank with torchrun's environment, shows what the ranks "
          "print, and ends them all when one fails: the first failure is told with its last "
          "words, the others as its consequences. Takes torchrun's flags and PET_* variables "
          "(PET_NNODES for --nnodes; a flag beats its variable). A .py file, or a file that is "
          "not executable, runs under $PYTHON_EXEC or python3. SIGTERM and Ctrl-C are handed "
          "to the ranks, which have 30 s; a second one kills. SIGUSR1 and SIGUSR2 are handed to "
          "the ranks that handle them and end nothing.",
      .examples = kExamples,
      .positional = {.name = "PROGRAM",
                     .help = "script or program; what follows it is its own",
                     .at_least = 1,
                     .rest = true},
      .flags = kLaunchFlags,
      .json =
          "status and restarts, or errors; what ranks print goes to standard error. With "
          "--dry-run hosts, each with its ranks.",
      .run = run,
      .check = check};
}

}  // namespace lockstep::cli
