// lockstep bench scaling: the same training on more and more ranks of this host.
#include <array>
#include <filesystem>
#include <ostream>
#include <utility>

#include "lockstep/base/run_dir.h"
#include "lockstep/base/units.h"
#include "lockstep/cli/commands.h"
#include "lockstep/cli/job_front.h"
#include "lockstep/cli/run_flags.h"
#include "lockstep/cli/scaling_plan.h"
#include "lockstep/cli/worker_program.h"
#include "lockstep/metrics/events_file.h"
#include "lockstep/metrics/report_line.h"
#include "lockstep/metrics/scaling.h"
#include "lockstep/planner/batch_cuts.h"
#include "lockstep/rundir/run_check.h"
#include "lockstep/rundir/start.h"

namespace lockstep::cli {
namespace {

using metrics::Scaling;

constexpr std::array kFlags{
    Flag{.name = "--ranks", .value = "N,N,...", .help = "rank counts to measure; default 1,2"},
    Flag{.name = "--strong", .help = "keep the global batch; otherwise that of a rank stays"},
    Flag{.name = "--steps",
         .value = "N",
         .help = "steps to measure at each count; default 20",
         .type = ValueType::integer,
         .minimum = 1,
         .maximum = 1e6},
    Flag{.name = "--warmup",
         .value = "N",
         .help = "steps to run first, unmeasured; default 5",
         .type = ValueType::integer,
         .minimum = 0,
         .maximum = 1e6},
    kSetFlag,
    Flag{.name = "--out", .value = "DIR", .help = "folder for results; default a new one in runs/"},
};

constexpr auto kExamples = std::to_array<Example>({
    {"lockstep bench scaling run.toml --ranks 1,2,4", "table, plot, scaling.csv and scaling.svg"},
    {"lockstep bench scaling run.toml --ranks 1,2 --strong --json",
     "the global batch stays; one JSON line a count"},
});

/// One call: runs each count in turn and keeps what was measured.
class ScalingBench {
 public:
  ScalingBench(const Args& args, const Context& context)
      : context_(context),
        host_(probe_host()),
        scaling_(args.has("--strong") ? Scaling::strong : Scaling::weak) {
    steps_.measured = static_cast<int>(args.integer("--steps").value_or(steps_.measured));
    steps_.warmup = static_cast<int>(args.integer("--warmup").value_or(steps_.warmup));
    settle_jobs(args);
    worker_ = find_worker(context);
    auto name = rundir::name_problems("--out", args.text("--out"));
    if (!name.empty()) throw UsageError(std::move(name));
    out_dir_ = make_run_dir(args.text("--out"), config_.run.name + "-scaling");
  }

  Exit run() {
    for (planner::Job& job : jobs_) measure(job);
    const auto rows =
        metrics::scaling_rows(runs_, scaling_, std::max(1, host_.cores / config_.run.threads));
    metrics::write_whole_file(out_dir_ / "scaling.csv", metrics::scaling_csv(rows));
    metrics::write_whole_file(out_dir_ / "scaling.svg",
                              metrics::scaling_svg(rows, config_.run.name, scaling_));
    print(rows);
    return Exit::ok;
  }

 private:
  /// Every count is settled before the first is run: a batch that does not divide shows at once.
  void settle_jobs(const Args& args) {
    const std::vector<int> counts = parse_rank_counts(args.text("--ranks", "1,2"));
    config::ParsedConfig parsed = read_run(args);
    parsed.config.data.eval.clear();  // nothing is evaluated or checked
    parsed.config.run.check_gradients = 0;
    rundir::RunCheck check(std::move(parsed));
    config_ = check.config();
    if (config_.batch.finds_micro_batch) take_predicted_batch(check);
    for (const int ranks : counts) {
      const std::string where = " on " + counted(ranks, "rank");
      planner::Job job;
      job.resume = "none";
      try {
        job.config = scaling_config(config_, ranks, scaling_, steps_);
        job.plan = check.plan(job.config, host_, ranks, where).value_or(parallel::ParallelPlan{});
      } catch (const UsageError& error) {
        check.add(error, where);
      }
      jobs_.push_back(std::move(job));
    }
    check.check_data();
    check.require_none();
    print_notes(check.notes(), context_);
  }

  /// The micro-batch is the same at every count: that of the ranks the run was written for.
  void take_predicted_batch(rundir::RunCheck& check) {
    const auto plan = check.plan(config_, host_, config_.parallel.data.value_or(1));
    if (!plan) return;
    config_ = planner::with_found_batch(config_, *plan);
    config_.batch.accumulation = plan->batch.accumulation;
  }

  void measure(planner::Job& job) {
    const int ranks = job.plan.batch.data_ranks;
    const std::filesystem::path dir = out_dir_ / ("ranks-" + std::to_string(ranks));
    const JobDir started_in = make_job_dir(job, dir.string());

    metrics::ScalingRun run{ranks, {}};
    metrics::Console console(context_.json ? context_.err : context_.out,
                             console_options(context_));
    console.note(started(ranks));
    launch::LocalJobOptions options;
    options.command = worker_command(worker_, started_in.job_file);
    options.nproc_per_node = ranks;
    options.threads_per_rank = job.config.run.threads;
    options.log_dir = started_in.log_dir;
    options.on_report = [&](const std::string& line) { take(line, run, console); };
    const launch::LocalJobResult result = launch::run_local_job(options);
    if (result.exit != Exit::ok || run.reports.empty()) {
      fail_bench(counted(ranks, "rank"), result, options.log_dir);
    }
    runs_.push_back(std::move(run));
  }

  void take(const std::string& line, metrics::ScalingRun& run, metrics::Console& console) const {
    const metrics::ReportLine report = metrics::read_report_line(line);
    const auto* step = std::get_if<engine::StepReport>(&report);
    if (step == nullptr) return;
    if (step->step > steps_.warmup) run.reports.push_back(*step);
    if (shows_steps()) console.on_step(*step);
  }

  [[nodiscard]] bool shows_steps() const { return console_options(context_).terminal; }

  [[nodiscard]] std::string started(int ranks) const {
    return counted(ranks, "rank") + ": " + std::to_string(steps_.warmup) + " + " +
           std::to_string(steps_.measured) + " steps";
  }

  void print(const std::vector<metrics::ScalingRow>& rows) const {
    if (context_.json) {
      for (const metrics::ScalingRow& row : rows)
        context_.out << metrics::to_json_text(row) << "\n";
      context_.out << std::flush;
      return;
    }
    const metrics::ConsoleOptions options = console_options(context_);
    context_.out << "\n" << metrics::scaling_text(rows, options.width, options.style);
    context_.out << "\n  " << (out_dir_ / "scaling.svg").string() << ", scaling.csv" << std::endl;
  }

  const Context& context_;
  std::string worker_;
  config::RunConfig config_;
  Host host_;
  std::vector<planner::Job> jobs_;  // one of each rank count
  Scaling scaling_;
  ScalingSteps steps_;
  std::filesystem::path out_dir_;
  std::vector<metrics::ScalingRun> runs_;
};

Exit run(const Args& args, const Context& context) { return ScalingBench(args, context).run(); }

}  // namespace

Command bench_scaling_command() {
  return {
      .name = "bench scaling",
      .summary = "throughput and efficiency of a run over rank counts",
      .description =
          "Trains RUN.toml for a few steps on each rank count of this host and prints samples a "
          "second, speedup and efficiency (speedup / ranks), a plot with the ideal line, and "
          "the dominating phase: the one whose seconds a step exceed ideal scaling from the "
          "smallest count most (there, and where none does, the longest). Rates are samples of "
          "a step / median step time. A rank that computes a tenth longer than the others is named "
          "with what they wait for it. Counts above the cores are measured and marked.",
      .examples = kExamples,
      .positional = {.name = "RUN.toml", .help = "the run to measure", .at_least = 1},
      .flags = kFlags,
      .json =
          "a line for each rank count: ranks, samples_per_s, speedup, efficiency, "
          "dominating_phase, oversubscribed, tokens_per_s (of models that count tokens), step_s "
          "and the seconds of each phase; of two ranks and more also slowest_rank, slowest_share "
          "(by which it computes longer than the median of the others) and others_wait_s.",
      .run = run,
      .check_values = run_file_problems};
}

}  // namespace lockstep::cli
