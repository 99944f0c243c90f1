// lockstep plan: what a run will need, without training.
#include <array>
#include <ostream>
#include <utility>

#include "lockstep/cli/commands.h"
#include "lockstep/cli/plan_report.h"
#include "lockstep/cli/run_flags.h"
#include "lockstep/rundir/found_batch.h"

namespace lockstep::cli {
namespace {

constexpr std::size_t kWidth = 100;

constexpr std::array kFlags{
    kNprocFlag,
    kSetFlag,
    Flag{.name = "--check", .help = "exit 1 when it does not fit"},
    Flag{.name = "--states-only", .help = "count parameters, gradients and optimizer state only"},
};

constexpr auto kExamples = std::to_array<Example>({
    {"lockstep plan run.toml --nproc-per-node 2",
     "memory, time and traffic of this run on 2 ranks"},
    {"lockstep plan run.toml --json", "the same as one JSON document"},
    {"lockstep plan run.toml --set batch.micro_batch=256 --check", "does a larger batch fit?"},
    {"lockstep plan run.toml --set batch.micro_batch=auto --set batch.global_batch=512",
     "the micro-batch that a training would start with, and why"},
    {"lockstep plan --set model.family=gpt --set model.width=768 --states-only",
     "state of a model without a file"},
});

Exit run(const Args& args, const Context& context) {
  const Host host = probe_host();
  rundir::CheckedRun checked = check_run(args, context, host, 0, /*needs_data=*/false);
  planner::Job job{checked.config, checked.plan, "", "none", {}};
  rundir::settle_micro_batch(job, host, checked.data_size.resident_bytes);
  checked.plan = job.plan;
  PlanReport report = make_plan_report(checked, host, args.has("--states-only"));
  report.search = std::move(job.search);
  if (context.json) {
    context.out << plan_json(report) << std::endl;
  } else if (context.quiet) {
    context.out << (report.chosen.fits() ? "fits" : "does not fit") << std::endl;
  } else {
    const metrics::TextStyle style{.color = context.color, .utf8 = context.utf8};
    context.out << plan_for_people(report, kWidth, style) << std::flush;
  }
  return args.has("--check") && !report.chosen.fits() ? Exit::failed : Exit::ok;
}

}  // namespace

Command plan_command() {
  return {.name = "plan",
          .summary = "what a run will need: memory by category, time, traffic",
          .description =
              "Computes, without training, the memory of the fullest rank by category, the time of "
              "a step and what ranks send each other, lists other rank counts of this host, and "
              "says what to change. Bytes are per rank, 1 GB = 1e9 bytes.",
          .examples = kExamples,
          .positional = {.name = "RUN.toml", .help = "the run; without it, the defaults and --set"},
          .flags = kFlags,
          .json =
              "one document: parameters, fits, memory_bytes (by category, and total), "
              "device_memory_bytes, "
              "step_s, samples_per_s or tokens_per_s, tflops_per_device, mfu, bubble_fraction, "
              "exposed_comm_s, comm_bytes_per_step, time_to_train_s (null where the steps are not "
              "known), layout, "
              "alternatives, distribute, advice, assumptions, error_band, micro_batch (where it "
              "is \"auto\": because, memory_limit_bytes, will_probe, candidates).",
          .run = run};
}

}  // namespace lockstep::cli
