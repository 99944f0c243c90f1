#include "lockstep/cli/train_front.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <variant>
#include <vector>

#include "lockstep/base/units.h"
#include "lockstep/cli/job_front.h"
#include "lockstep/cli/run_flags.h"
#include "lockstep/cli/worker_program.h"
#include "lockstep/data/formats/data_size.h"
#include "lockstep/launch/local_job.h"
#include "lockstep/metrics/console.h"
#include "lockstep/planner/planner.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

/// A checkpoint named on the command line must be there before any rank starts.
void check_resume(const planner::Job& job, const std::string& run_dir) {
  if (job.resume == "auto" || job.resume == "none") return;
  const std::string& dir = job.config.checkpoint.dir;
  const fs::path own = fs::path(run_dir.empty() ? "RUN_DIR" : run_dir) / "checkpoints";
  const fs::path checkpoints = dir.empty() ? own : fs::path(dir);
  if (fs::is_directory(job.resume) || fs::is_directory(checkpoints / job.resume)) return;
  throw UsageError({{"LS-1001", "--resume " + job.resume,
                     "no such folder, and no such checkpoint in " + checkpoints.string(),
                     "name a folder or a tag that is there; auto takes the newest one"}});
}

/// One folder of logs per call: going on in a run directory keeps the logs of before.
std::string new_log_folder(const fs::path& run_dir) {
  int number = 1;
  while (fs::exists(run_dir / "logs" / std::to_string(number))) ++number;
  return (run_dir / "logs" / std::to_string(number)).string();
}

/// A training run from its plan to its summary.
class Front {
 public:
  Front(const Args& args, const Context& context)
      : context_(context),
        console_(context.json ? context.err : context.out, console_options(context)) {
    const Host host = probe_host();
    job_.config = read_run(args);
    launch_.nproc_per_node = ranks_of(args, job_.config, host);
    job_.plan = planner::make_plan(job_.config, host, launch_.nproc_per_node,
                                   data::resident_bytes(job_.config.data));
    job_.resume = args.text("--resume", "auto");
    launch_.threads_per_rank = job_.config.run.threads;
    launch_.master_addr = args.text("--master-addr", "127.0.0.1");
    launch_.master_port = static_cast<int>(args.integer("--master-port").value_or(0));
    wanted_run_dir_ = args.text("--run-dir");
    check_resume(job_, wanted_run_dir_);
  }

  Exit dry_run() {
    job_.run_dir = wanted_run_dir_.empty() ? "RUN_DIR" : wanted_run_dir_;
    const auto command = worker_command("lockstep-worker", job_);
    if (context_.json) {
      const nlohmann::ordered_json document{
          {"plan", nlohmann::ordered_json::parse(parallel::to_json_text(job_.plan))},
          {"nproc_per_node", launch_.nproc_per_node},
          {"command", command}};
      context_.out << document.dump() << std::endl;
      return Exit::ok;
    }
    console_.show_plan(job_.plan, job_.config.run.name);
    context_.out << "would start " << launch_.nproc_per_node << " x:";
    for (const auto& word : command) context_.out << ' ' << word;
    context_.out << std::endl;
    return Exit::ok;
  }

  Exit train() {
    const std::string worker = find_worker(context_);
    make_job_dir(job_, wanted_run_dir_);
    console_.show_plan(job_.plan, job_.config.run.name);
    launch_.command = worker_command(worker, job_);
    launch_.log_dir = new_log_folder(job_.run_dir);
    launch_.on_report = [this](const std::string& line) { show(line); };
    const launch::LocalJobResult result = launch::run_local_job(launch_);
    if (result.exit == Exit::ok) {
      if (context_.json && summary_) context_.out << engine::to_json_text(*summary_) << std::endl;
      return Exit::ok;
    }
    return report_end(result);
  }

 private:
  void show(const std::string& line) {
    try {
      const metrics::ReportLine report = metrics::read_report_line(line);
      if (const auto* summary = std::get_if<engine::RunSummary>(&report)) summary_ = *summary;
      console_.show(report);
    } catch (const BadData& error) {  // what was measured is lost, not the training
      console_.note("a report of rank 0 cannot be read: " + error.problems().front().what);
    }
  }

  [[nodiscard]] Exit report_end(const launch::LocalJobResult& result) {
    if (result.exit == Exit::requeue) {
      if (context_.json && summary_) context_.out << engine::to_json_text(*summary_) << std::endl;
      context_.err << "stopped with the state saved; the same command with --run-dir "
                   << job_.run_dir << " goes on from there" << std::endl;
      return result.exit;
    }
    if (!result.first_failure) {
      context_.err << launch::describe(result) << std::flush;
      return result.exit;
    }
    const launch::RankEnd& first = *result.first_failure;
    const auto problems = problems_of_worker(first.last_stderr);
    if (context_.json) throw Error(result.exit, problems_of_job(result, launch_.log_dir));
    if (problems.empty()) {
      context_.err << launch::describe(result);
    } else {
      context_.err << to_text(problems) << "rank " << first.rank << " ended with exit code "
                   << first.exit_code << " after " << format_duration(first.seconds)
                   << ", and with it the job\n";
    }
    context_.err << "all that the ranks printed: " << launch_.log_dir << std::endl;
    return result.exit;
  }

  const Context& context_;
  metrics::Console console_;
  planner::Job job_;
  launch::LocalJobOptions launch_;
  std::string wanted_run_dir_;
  std::optional<engine::RunSummary> summary_;
};

}  // namespace

Exit run_front(const Args& args, const Context& context) {
  Front front(args, context);
  return args.has("--dry-run") ? front.dry_run() : front.train();
}

}  // namespace lockstep::cli
