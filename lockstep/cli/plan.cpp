// lockstep plan: what a run will need, without training.
#include <array>
#include <optional>
#include <ostream>
#include <utility>

#include "lockstep/cli/commands.h"
#include "lockstep/cli/plan_calibrate.h"
#include "lockstep/cli/plan_cluster.h"
#include "lockstep/cli/plan_flags.h"
#include "lockstep/cli/plan_report.h"
#include "lockstep/cli/run_flags.h"
#include "lockstep/rundir/found_batch.h"

namespace lockstep::cli {
namespace {

constexpr std::size_t kWidth = 100;

constexpr auto kExamples = std::to_array<Example>({
    {"lockstep plan run.toml --nproc-per-node 2",
     "memory, time and traffic of this run on 2 ranks"},
    {"lockstep plan --calibrate",
     "measure this machine once, some four minutes: plans of runs on it then go by that"},
    {"lockstep plan run.toml --json", "the same as one JSON document"},
    {"lockstep plan run.toml --set batch.micro_batch=256 --check", "does a larger batch fit?"},
    {"lockstep plan run.toml --set batch.micro_batch=auto --set batch.global_batch=512",
     "the micro-batch that a training would start with, and why"},
    {"lockstep plan run.toml --search",
     "how many ranks of this host and which micro-batch are quickest at this batch, and why"},
    {"lockstep plan --set model.family=gpt --set model.width=768 --states-only",
     "state of a model without a file"},
    {"lockstep plan --model llama-2-13b --gpus 2 --gpu A100-80G --zero 3",
     "does this model fit on those devices, how fast is it, and what else would do?"},
    {"lockstep plan --params 175e9 --cluster 8xA100-80G*128 --tensor 8 --pipeline 16 --tokens "
     "300e9",
     "a GPT of 175 billion parameters on 128 hosts of eight devices"},
    {"lockstep plan --model llama-2-13b --gpus 16 --gpu A100-80G --global-batch 64 --search",
     "how to split it: the fastest layout that fits, the next ones, and why not the others"},
    {"lockstep plan --params 13e9 --gpus 64 --gpu A100-80G --global-batch 512 --search --tokens "
     "20e9 --need-within 3d",
     "the fewest of up to 64 devices that are done in three days"},
    {"lockstep plan --model llama-2-7b --gpus 64 --gpu H100-80G --zero 1 --mtbf 2000d --tokens "
     "300e9",
     "how much of the time is progress when devices fail, and how often to save"},
    {"lockstep plan --params 7e9 --gpus 8 --zero 3 --states-only",
     "parameters, gradients and optimizer alone, of any device"},
});

/// The micro-batch that a training finds goes by what is free now; all else by what the machine
/// has, so that the same question gets the same answer.
Host without_moment(Host host) {
  host.memory_free_bytes = 0;
  return host;
}

PlanReport report_of(const Args& args, rundir::CheckedRun checked, const Host& host) {
  planner::Job job{checked.config, checked.plan, "", "none", {}};
  rundir::settle_micro_batch(job, host, checked.data_size.resident_bytes);
  checked.plan = job.plan;
  PlanReport report = make_plan_report(checked, without_moment(host), args.has("--states-only"));
  report.search = std::move(job.search);
  return report;
}

Exit run_on_this_host(const Args& args, const Context& context) {
  const Host host = probe_host();
  rundir::CheckedRun checked = check_run(args, context, host, 0, /*needs_data=*/false);
  const PlanReport report = args.has("--search")
                                ? make_searched_report(std::move(checked), without_moment(host))
                                : report_of(args, std::move(checked), host);
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

Exit run_on_cluster(const Args& args, const Context& context) {
  const ClusterReport report = make_cluster_report(read_cluster_job(args), read_questions(args));
  if (!report.questions.timeline.empty() && report.plan.time) {
    write_timeline(report.job, report.plan, report.questions.timeline);
  }
  const std::optional<bool> fits = report.plan.fits();
  if (context.json) {
    context.out << cluster_json(report) << std::endl;
  } else if (context.quiet) {
    context.out << (fits ? *fits ? "fits" : "does not fit" : "no device was named") << std::endl;
  } else {
    const metrics::TextStyle style{.color = context.color, .utf8 = context.utf8};
    context.out << cluster_for_people(report, kWidth, style) << std::flush;
  }
  return args.has("--check") && !fits.value_or(false) ? Exit::failed : Exit::ok;
}

std::vector<Problem> value_problems(const Args& args, const Context& context) {
  try {
    if (asks_for_cluster(args)) {
      (void)read_cluster_job(args);
    } else {
      Context silent = context;
      silent.quiet = true;
      (void)check_run(args, silent, probe_host(), 0, /*needs_data=*/false);
    }
    return {};
  } catch (const Error& error) {
    std::vector<Problem> problems = error.problems();
    // How many devices there are may be what is wrong.
    std::erase_if(problems, [](const Problem& problem) { return problem.code == "LS-6104"; });
    return problems;
  }
}

Exit run(const Args& args, const Context& context) {
  if (args.has("--calibrate")) {
    const bool plans = args.has("--set") || !args.words().empty();
    // Minutes of measuring for a run that cannot be planned would be lost.
    if (plans) (void)check_run(args, context, probe_host(), 0, /*needs_data=*/false);
    calibrate(context, /*prints=*/!plans);
    if (!plans) return Exit::ok;
  }
  return asks_for_cluster(args) ? run_on_cluster(args, context) : run_on_this_host(args, context);
}

}  // namespace

Command plan_command() {
  return {
      .name = "plan",
      .summary = "what a run will need: memory by category, time, traffic",
      .description =
          "Computes, without training, the memory of the fullest rank by category, the time of "
          "a step and what ranks send each other, lists other rank counts of this host, and "
          "says what to change. With --model or --params it answers the same for any model on "
          "devices "
          "that are named, wherever they are. Bytes are per rank, 1 GB = 1e9 bytes.",
      .examples = kExamples,
      .positional = {.name = "RUN.toml", .help = "the run; without it, the defaults and --set"},
      .flags = plan_flags(),
      .json =
          "one document: parameters, fits, memory_bytes (by category, and total), "
          "device_memory_bytes, "
          "step_s, samples_per_s or tokens_per_s, tflops_per_device, mfu, bubble_fraction, "
          "exposed_comm_s, comm_bytes_per_step, time_to_train_s (null where the steps are not "
          "known), layout, "
          "alternatives, distribute, advice, assumptions, error_band, micro_batch (where it "
          "is \"auto\": because, memory_limit_bytes, will_probe, candidates) (of named devices "
          "also optimizer_bytes, host_memory_bytes, nvme_bytes, need_within, goodput, timeline, "
          "deepspeed "
          "and, "
          "by --search, alternatives and rejected: what, because; what is not asked for or "
          "predicted is null).",
      .run = run,
      .check = check_plan_flags,
      .check_values = value_problems};
}

}  // namespace lockstep::cli
