// lockstep train: the front of a run, or one of its ranks when somebody else started it as such.
#include <array>
#include <ostream>
#include <string>
#include <string_view>

#include "lockstep/cli/commands.h"
#include "lockstep/cli/run_flags.h"
#include "lockstep/cli/train_front.h"
#include "lockstep/cli/worker_program.h"
#include "lockstep/config/starter.h"
#include "lockstep/topology/mesh.h"

namespace lockstep::cli {
namespace {

constexpr std::array kFlags{
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

constexpr auto kExamples = std::to_array<Example>({
    {"lockstep train run.toml --nproc-per-node 2", "train on 2 ranks of this host"},
    {"lockstep train run.toml --set optimizer.lr=0.05", "with another value of a key"},
    {"lockstep train run.toml --run-dir runs/demo",
     "go on where runs/demo stopped, or start there"},
    {"torchrun --nproc-per-node 2 --no-python lockstep train run.toml",
     "ranks started by torchrun"},
});

/// A node of several: their ranks need a launcher that spans hosts.
void check_agent(const Context& context) {
  const char* nodes = context.get_env ? context.get_env("WORLD_SIZE") : nullptr;
  if (nodes == nullptr || std::string(nodes) == "1") return;
  throw UsageError({{"LS-1016", "WORLD_SIZE",
                     "this node is one of " + std::string(nodes) +
                         ", and `lockstep train` starts the ranks of one host",
                     "start the ranks with torchrun, srun or mpirun: `torchrun --no-python ... "
                     "lockstep train RUN.toml`"}});
}

/// Whoever started the ranks has decided these already.
void note_unread_flags(const Args& args, const Context& context, const config::RankEnv& env) {
  if (env.rank != index(kPrintingRank) || context.quiet) return;
  for (const std::string_view flag :
       {kNprocFlag.name, std::string_view("--master-addr"), std::string_view("--master-port")}) {
    if (!args.has(flag)) continue;
    context.err << "note: " << flag << " " << args.text(flag)
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
  if (starter.role == config::Role::agent) check_agent(context);
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
              "Started by torchrun, srun or mpirun it is one rank of their job.",
          .examples = kExamples,
          .positional = {.name = "RUN.toml", .help = "the run", .at_least = 1},
          .flags = kFlags,
          .json =
              "the summary of the run, as in its summary.json (errors where it was stopped before "
              "there was one); with --dry-run plan, nproc_per_node and command.",
          .run = run};
}

}  // namespace lockstep::cli
