// lockstep bench scaling: the same training on more and more ranks of this host.
#include <array>
#include <filesystem>
#include <ostream>

#include "lockstep/base/run_dir.h"
#include "lockstep/cli/commands.h"
#include "lockstep/cli/job_front.h"
#include "lockstep/cli/run_flags.h"
#include "lockstep/cli/scaling_plan.h"
#include "lockstep/cli/worker_program.h"
#include "lockstep/config/batch_shape.h"
#include "lockstep/data/formats/data_size.h"
#include "lockstep/metrics/events_file.h"
#include "lockstep/metrics/report_line.h"
#include "lockstep/metrics/scaling.h"
#include "lockstep/planner/planner.h"

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

std::string ranks_text(int ranks) {
  return std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks");
}

/// One call: runs each count in turn and keeps what was measured.
class ScalingBench {
 public:
  ScalingBench(const Args& args, const Context& context)
      : context_(context),
        config_(read_run(args)),
        host_(probe_host()),
        counts_(parse_rank_counts(args.text("--ranks", "1,2"))),
        scaling_(args.has("--strong") ? Scaling::strong : Scaling::weak) {
    steps_.measured = static_cast<int>(args.integer("--steps").value_or(steps_.measured));
    steps_.warmup = static_cast<int>(args.integer("--warmup").value_or(steps_.warmup));
    check_counts();
    worker_ = find_worker(context);
    out_dir_ = make_run_dir(args.text("--out"), config_.run.name + "-scaling");
  }

  Exit run() {
    for (const int ranks : counts_) measure(ranks);
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
  void check_counts() {
    std::vector<Problem> problems;
    for (const int ranks : counts_) {
      const auto config = scaling_config(config_, ranks, scaling_, steps_);
      for (Problem& problem : config::settle_batch(config, ranks).problems) {
        problem.where += " on " + ranks_text(ranks);
        problems.push_back(std::move(problem));
      }
    }
    if (!problems.empty()) throw UsageError(std::move(problems));
  }

  void measure(int ranks) {
    const std::filesystem::path dir = out_dir_ / ("ranks-" + std::to_string(ranks));
    planner::Job job;
    job.config = scaling_config(config_, ranks, scaling_, steps_);
    job.plan = planner::make_plan(job.config, host_, ranks, data::resident_bytes(job.config.data));
    job.resume = "none";
    make_job_dir(job, dir.string());

    metrics::ScalingRun run{ranks, {}};
    metrics::Console console(context_.json ? context_.err : context_.out,
                             console_options(context_));
    console.note(started(ranks));
    launch::LocalJobOptions options;
    options.command = worker_command(worker_, job);
    options.nproc_per_node = ranks;
    options.threads_per_rank = job.config.run.threads;
    options.log_dir = (dir / "logs").string();
    options.on_report = [&](const std::string& line) { take(line, run, console); };
    const launch::LocalJobResult result = launch::run_local_job(options);
    if (result.exit != Exit::ok || run.reports.empty()) fail(ranks, result, options.log_dir);
    runs_.push_back(std::move(run));
  }

  void take(const std::string& line, metrics::ScalingRun& run, metrics::Console& console) const {
    const metrics::ReportLine report = metrics::read_report_line(line);
    const auto* step = std::get_if<engine::StepReport>(&report);
    if (step == nullptr) return;
    if (step->step > steps_.warmup) run.reports.push_back(*step);
    if (shows_steps()) console.on_step(*step);
  }

  [[noreturn]] static void fail(int ranks, const launch::LocalJobResult& result,
                                const std::string& log_dir) {
    const bool is_own = result.exit == Exit::ok || result.exit == Exit::requeue;
    std::vector<Problem> problems;
    if (result.first_failure) problems = problems_of_job(result, log_dir);
    problems.push_back({"LS-7053", "the run on " + ranks_text(ranks),
                        result.first_failure ? "failed" : "ended before its last step",
                        "all that its ranks printed is in " + log_dir});
    throw Error(is_own ? Exit::failed : result.exit, std::move(problems));
  }

  [[nodiscard]] bool shows_steps() const { return console_options(context_).terminal; }

  [[nodiscard]] std::string started(int ranks) const {
    return ranks_text(ranks) + ": " + std::to_string(steps_.warmup) + " + " +
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
  std::vector<int> counts_;
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
          "a step / median step time. Counts above the cores are measured and marked.",
      .examples = kExamples,
      .positional = {.name = "RUN.toml", .help = "the run to measure", .at_least = 1},
      .flags = kFlags,
      .run = run};
}

}  // namespace lockstep::cli
