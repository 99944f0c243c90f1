// lockstep train: the front of a run, or one of its ranks when somebody else started it as such.
#include <algorithm>
#include <array>
#include <cstddef>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>

#include "lockstep/cli/commands.h"
#include "lockstep/cli/launch_flags.h"
#include "lockstep/cli/launch_front.h"
#include "lockstep/cli/run_flags.h"
#include "lockstep/cli/train_agent.h"
#include "lockstep/cli/train_front.h"
#include "lockstep/cli/worker_program.h"
#include "lockstep/config/starter.h"
#include "lockstep/topology/mesh.h"

namespace lockstep::cli {
namespace {

constexpr std::array kOwnFlags{
    kSetFlag,
    kNprocFlag,
    Flag{.name = "--run-dir",
         .value = "DIR",
         .help = "where the run leaves its files; default runs/NAME-TIME, a new folder"},
    Flag{.name = "--resume",
         .value = "WHAT",
         .help =
             "go on from: auto (the newest checkpoint of the run directory), none (what is there "
             "moves to previous-N), a folder or a tag; default auto",
         .offers = "auto|none"},
    Flag{.name = "--allow-change",
         .value = "KEY",
         .help = "go on although this key of the configuration is another one than in the "
                 "checkpoint ('data': the data files are)",
         .repeats = true},
    Flag{.name = "--dry-run", .help = "print the plan and the command of the ranks, train nothing"},
    Flag{.name = "--as",
         .value = "ROLE",
         .help = "be a rank or a node's agent, whatever the environment says",
         .words = "rank|agent"},
    Flag{.name = "--master-addr",
         .value = "HOST",
         .help = "address of this host at which the ranks meet, or unix:PATH; default 127.0.0.1"},
    Flag{.name = "--master-port",
         .value = "PORT",
         .help = "port at which the ranks meet; default a free one",
         .type = ValueType::integer,
         .minimum = 0,
         .maximum = 65535},
};

constexpr bool is_own(std::string_view name) {
  return std::any_of(kOwnFlags.begin(), kOwnFlags.end(),
                     [&](const Flag& flag) { return flag.name == name; });
}

constexpr std::size_t kOthers = static_cast<std::size_t>(std::count_if(
    kLaunchFlags.begin(), kLaunchFlags.end(), [](const Flag& flag) { return !is_own(flag.name); }));

/// The flags of a run, then those of a launch that mean the same here.
constexpr auto kFlags = [] {
  std::array<Flag, kOwnFlags.size() + kOthers> flags;
  const auto end = std::copy(kOwnFlags.begin(), kOwnFlags.end(), flags.begin());
  std::copy_if(kLaunchFlags.begin(), kLaunchFlags.end(), end,
               [](const Flag& flag) { return !is_own(flag.name); });
  return flags;
}();

constexpr auto kExamples = std::to_array<Example>({
    {"lockstep train run.toml --nproc-per-node 2", "train on 2 ranks of this host"},
    {"lockstep train run.toml --set optimizer.lr=0.05", "with another value of a key"},
    {"lockstep train run.toml --run-dir runs/demo",
     "go on where runs/demo stopped, or start there"},
    {"lockstep train run.toml --hosts node-a:4,node-b:4 --run-dir /shared/run --max-restarts 3",
     "on two hosts, over ssh; a failure starts it again from the last checkpoint"},
    {"torchrun --nproc-per-node 2 --no-python lockstep train run.toml",
     "ranks started by torchrun"},
});

/// Whoever started the ranks has decided these already.
void note_unread_flags(const Args& args, const Context& context, const config::RankEnv& env) {
  if (env.rank != index(kPrintingRank) || context.quiet) return;
  for (const Flag& flag : kLaunchFlags) {
    if (!args.has(flag.name) || flag.name == "--dry-run") continue;
    const std::string value = flag.value.empty() ? "" : " " + args.text(flag.name);
    context.err << "note: " << flag.name << value
                << " is not read: this process was started as rank " << env.rank << " of "
                << env.world_size << " (by " << env.started_by << ")" << std::endl;
  }
}

Exit run(const Args& args, const Context& context) {
  config::Starter starter = config::read_starter(context.get_env, args.text("--as"));
  if (!starter.problems.empty()) throw UsageError(std::move(starter.problems));
  if (starter.role == config::Role::rank) {
    note_unread_flags(args, context, starter.env);
    if (args.has("--dry-run")) return dry_run_as_rank(args, context, starter.env);
    context.out << std::flush;
    become_worker(rank_arguments(find_worker(context), args));
  }
  if (auto job = read_train_launch(args, context)) {
    const bool runs_here = !args.has("--dry-run") && !names_hosts(job->read.options);
    if (runs_here) (void)find_worker(context);
    return run_launch(*std::move(job), args, context);
  }
  return run_front(args, context);
}

}  // namespace

Command train_command() {
  return {.name = "train",
          .summary = "train a model as RUN.toml says",
          .description =
              "Prints the plan, starts the ranks, shows the training, and prints the plan against "
              "what was measured. When a rank fails, all stop, and the first failure is told. "
              "SIGTERM and Ctrl-C save the state and end with exit code 75; a second one kills. "
              "Before the first step of a run without a checkpoint, and while its micro-batch is "
              "being found, there is nothing to save: that ends with 1. "
              "Started by torchrun, srun or mpirun it is one rank of their job. With flags of "
              "`lockstep launch` for several hosts or restarts it starts ranks as that does: on "
              "several hosts --run-dir must name a folder that all of them see, and after a "
              "restart training goes on from the newest checkpoint.",
          .examples = kExamples,
          .positional = {.name = "RUN.toml", .help = "the run", .at_least = 1},
          .flags = kFlags,
          .json =
              "the summary of the run, as in its summary.json (errors where it was stopped before "
              "there was one); with --dry-run plan, nproc_per_node and command, or hosts where it "
              "is a launcher.",
          .run = run,
          .check_values = run_file_problems};
}

}  // namespace lockstep::cli
