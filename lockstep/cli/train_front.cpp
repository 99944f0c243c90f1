#include "lockstep/cli/train_front.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "lockstep/base/json_fields.h"
#include "lockstep/base/shell_word.h"
#include "lockstep/base/units.h"
#include "lockstep/cli/job_front.h"
#include "lockstep/cli/launch_front.h"
#include "lockstep/cli/parser.h"
#include "lockstep/cli/run_flags.h"
#include "lockstep/cli/worker_program.h"
#include "lockstep/launch/launcher_process.h"
#include "lockstep/launch/local_job.h"
#include "lockstep/metrics/console.h"
#include "lockstep/rundir/found_batch.h"
#include "lockstep/rundir/start.h"
#include "lockstep/topology/mesh.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

/// A path below the working directory is shorter without it. A shell looks for a program without
/// '/' elsewhere.
std::string short_program(const std::string& path) {
  std::error_code unknown;
  const fs::path relative = fs::proximate(path, unknown);
  if (unknown || relative.empty() || *relative.begin() == "..") return path;
  return (relative.has_parent_path() ? relative : "." / relative).string();
}

/// A training run from its plan to its summary.
class Front {
 public:
  /// \param world_size of a job that somebody else started; 0 = as the flags say.
  Front(const Args& args, const Context& context, int world_size = 0)
      : args_(args),
        context_(context),
        console_(context.json ? context.err : context.out, console_options(context)) {
    const Host host = probe_host();
    rundir::CheckedRun run = check_run(args, context, host, world_size, !args.has("--dry-run"));
    job_.config = std::move(run.config);
    job_.plan = std::move(run.plan);
    launch_.nproc_per_node = job_.plan.batch.data_ranks;
    crowding_ = crowding_text(launch_.nproc_per_node, job_.config.run.threads, host.cores);
    job_.resume = args.text("--resume", "auto");
    job_.allow_change = args.all("--allow-change");
    launch_.threads_per_rank = job_.config.run.threads;
    launch_.master_addr = args.text("--master-addr", "127.0.0.1");
    launch_.master_port = static_cast<int>(args.integer("--master-port").value_or(0));
    job_.run_dir = args.text("--run-dir");
    rundir::check_start(job_);
    rundir::settle_micro_batch(job_, host, run.data_size.resident_bytes);
  }

  Exit dry_run() {
    const fs::path run_dir = job_.run_dir.empty() ? "RUN_DIR" : job_.run_dir;
    return dry_run(worker_command("lockstep-worker", run_dir / "logs" / "N" / "job.json"));
  }

  Exit dry_run(const std::vector<std::string>& command) {
    if (context_.json) {
      const nlohmann::ordered_json document{
          {"plan", nlohmann::ordered_json::parse(parallel::to_json_text(job_.plan))},
          {"nproc_per_node", launch_.nproc_per_node},
          {"command", command}};
      context_.out << to_line(document) << std::endl;
      return Exit::ok;
    }
    console_.show_plan(job_.plan, job_.config.run.name);
    context_.out << "would start " << launch_.nproc_per_node << " x:";
    for (const auto& word : command) context_.out << ' ' << word;
    context_.out << std::endl;
    return Exit::ok;
  }

  Exit train() {
    summary_ = rundir::finished_summary(job_);
    if (summary_) return already_done();
    const std::string worker = find_worker(context_);
    note_leftovers(context_);
    const JobDir dir = make_job_dir(job_, job_.run_dir);
    console_.show_plan(job_.plan, job_.config.run.name);
    if (!context_.quiet) note_choices();
    launch_.command = worker_command(worker, dir.job_file);
    launch_.log_dir = dir.log_dir;
    const launch::LauncherProcess process;
    launch_.open_files = process.open_files();
    launch_.on_report = [this](const std::string& line) { show(line); };
    launch_.report_on_stop = metrics::to_json_text(metrics::Note{
        "stopping: the ranks save their state; a second signal ends them at once, without"});
    const launch::LocalJobResult result = launch::run_local_job(launch_);
    if (result.exit == Exit::ok) {
      if (context_.json && summary_) context_.out << engine::to_json_text(*summary_) << std::endl;
      return result.lost.empty() ? Exit::ok : Exit::environment;  // told when it was lost
    }
    return report_end(result);
  }

 private:
  /// What somebody may not have meant.
  void note_choices() {
    const config::RunSection& run = job_.config.run;
    if (!run.steps && !run.epochs) console_.note("1 epoch: run.steps and run.epochs are unset");
    if (job_.search) console_.note(job_.search->because);
    if (crowding_.empty()) return;
    console_.note(crowding_ +
                  ": steps take many times as long as with one core for each thread; "
                  "use fewer ranks, or a smaller run.threads");
  }

  Exit already_done() {
    console_.note(rundir::already_done_text());
    console_.show_summary(*summary_);
    if (context_.json) context_.out << engine::to_json_text(*summary_) << std::endl;
    return Exit::ok;
  }

  void show(const std::string& line) {
    try {
      const metrics::ReportLine report = metrics::read_report_line(line);
      if (const auto* summary = std::get_if<engine::RunSummary>(&report)) summary_ = *summary;
      if (const auto* step = std::get_if<engine::StepReport>(&report)) last_step_ = step->step;
      console_.show(report);
    } catch (const BadData& error) {  // what was measured is lost, not the training
      console_.note("a report of rank 0 cannot be read: " + error.problems().front().what);
    }
  }

  [[nodiscard]] std::string same_command() const {
    return "this goes on from it:\n  " + command_to_go_on(args_, context_, job_.run_dir);
  }

  /// Until a step was reported the checkpoints may be those of an earlier run, or later than the
  /// one that --resume names.
  [[nodiscard]] std::optional<ResumePoint> own_point() const {
    if (job_.resume != "auto" && last_step_ == 0) return std::nullopt;
    return resume_point(job_);
  }

  /// Says what a stop on request left, and what to do next. With --json it is the one document, in
  /// place of a summary.
  [[nodiscard]] Exit end_stopped(Exit exit, const std::string& what, const std::string& next) {
    context_.err << what << "; " << next << std::endl;
    if (!context_.json) return exit;
    if (!summary_) throw Error(exit, {{rundir::kStoppedCode, job_.run_dir, what, next}});
    context_.out << engine::to_json_text(*summary_) << std::endl;
    return exit;
  }

  /// The ranks were stopped before they could save.
  [[nodiscard]] Exit report_stop(const launch::LocalJobResult& result) {
    const auto point = own_point();
    if (point && last_step_ <= point->step) {  // nothing was done since: that state is the state
      return end_stopped(Exit::requeue,
                         "stopped on request before a further step was finished; the state is that "
                         "of checkpoint " +
                             point->name,
                         same_command());
    }
    if (last_step_ == 0) {
      return end_stopped(
          result.exit, "stopped on request; nothing was saved: no step had been finished",
          "this starts it again:\n  " +
              command_to_go_on(args_, context_, job_.run_dir, /*keeps_resume=*/true));
    }
    const std::string budget =
        format_duration(std::chrono::duration<double>(launch_.stop_budget).count());
    return end_stopped(
        result.exit,
        "stopped on request, but the state of step " + std::to_string(last_step_) +
            " was not saved: " +
            (result.killed_on_request
                 ? std::string("a second signal ended the ranks at once")
                 : "the ranks did not come to the end of a micro-batch within " + budget),
        point ? "checkpoint " + point->name + " is there; " + same_command()
              : "there is no checkpoint to go on from; checkpoint.every saves one every so many "
                "steps");
  }

  /// A rank that has nothing to save yet says so and ends with 1.
  static bool left_on_request(const launch::LocalJobResult& result) {
    if (!result.stopped_on_request) return false;
    const auto problems = problems_of_worker(result.first_failure->last_stderr);
    return !problems.empty() && problems.front().code == rundir::kStoppedCode;
  }

  [[nodiscard]] Exit report_end(const launch::LocalJobResult& result) {
    console_.end_line();
    if (result.exit == Exit::requeue) {
      const auto point = resume_point(job_);
      return end_stopped(result.exit,
                         "stopped on request with the state saved" +
                             (point ? " at step " + std::to_string(point->step) : std::string()),
                         same_command());
    }
    if (!result.first_failure || left_on_request(result)) return report_stop(result);
    if (!context_.json) print_failure(result);
    const bool may_go_on = result.exit != Exit::usage;  // else the same command fails again
    if (const auto point = own_point(); point && may_go_on) {
      context_.err << "checkpoint " << point->name << " is there; " << same_command() << std::endl;
    }
    if (context_.json) throw Error(result.exit, problems_of_job(result, launch_.log_dir));
    return result.exit;
  }

  void print_failure(const launch::LocalJobResult& result) const {
    const launch::RankEnd& first = *result.first_failure;
    const auto problems = problems_of_worker(first.last_stderr);
    if (problems.empty()) {
      context_.err << launch::describe(result);
    } else {
      context_.err << to_text(problems) << "rank " << first.rank << " ended with exit code "
                   << first.exit_code << " after " << format_duration(first.seconds)
                   << ", and with it the job\n";
    }
    context_.err << place_of_logs(launch_.log_dir) << std::endl;
  }

  const Args& args_;
  const Context& context_;
  metrics::Console console_;
  planner::Job job_;
  launch::LocalJobOptions launch_;
  std::optional<engine::RunSummary> summary_;
  std::string crowding_;        // empty where each thread has a core
  std::int64_t last_step_ = 0;  // that was reported
};

}  // namespace

Exit run_front(const Args& args, const Context& context) {
  Front front(args, context);
  return args.has("--dry-run") ? front.dry_run() : front.train();
}

Exit dry_run_as_rank(const Args& args, const Context& context, const config::RankEnv& env) {
  if (env.rank != index(kPrintingRank)) return Exit::ok;
  return Front(args, context, env.world_size).dry_run(rank_arguments("lockstep-worker", args));
}

std::string command_to_go_on(const Args& args, const Context& context, const std::string& run_dir,
                             bool keeps_resume) {
  std::vector<std::string_view> leave_out{"--run-dir", "--dry-run", "--help"};
  if (!keeps_resume) leave_out.emplace_back("--resume");
  std::vector<std::string> words = words_of(*find_command("train"), args, leave_out);
  words.insert(words.begin(), {short_program(context.program_path), "train"});
  words.insert(words.end(), {"--run-dir", run_dir});
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + shell_word(word);
  return line;
}

}  // namespace lockstep::cli
