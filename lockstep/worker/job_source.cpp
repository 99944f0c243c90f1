#include "lockstep/worker/job_source.h"

#include <fstream>
#include <optional>
#include <sstream>

#include "lockstep/base/run_dir.h"
#include "lockstep/comm/records/purpose.h"
#include "lockstep/config/parse.h"
#include "lockstep/rundir/found_batch.h"
#include "lockstep/rundir/run_check.h"
#include "lockstep/rundir/start.h"
#include "lockstep/topology/cluster.h"
#include "lockstep/topology/mesh.h"

namespace lockstep::worker {
namespace {

constexpr const char* kEchoCode = "LS-7202";

std::string read_job_file(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  if (!in) {
    throw UsageError({{"LS-1001", file, "cannot be read", "start ranks with `lockstep train`"}});
  }
  return text.str();
}

Assignment make_job(const RankArgs& args, int world_size) {
  Assignment made;
  planner::Job& job = made.job;
  rundir::RunCheck check(config::parse_run_file(args.config_file, args.sets));
  const Host host = probe_host();
  auto plan = check.plan(check.config(), host, world_size);
  check.check_data();
  rundir::CheckedRun run = check.checked(std::move(plan));
  job.config = std::move(run.config);
  job.plan = std::move(run.plan);
  made.notes = std::move(run.notes);
  job.run_dir = args.run_dir;
  job.resume = args.resume;
  job.allow_change = args.allow_change;
  rundir::check_start(job);
  made.finished = rundir::finished_summary(job);
  made.is_done = made.finished.has_value();
  if (made.is_done) return made;
  rundir::settle_micro_batch(job, host, run.data_size.resident_bytes);
  if (job.search) made.notes.push_back(job.search->because);
  job.run_dir = make_run_dir(args.run_dir, job.config.run.name).string();
  made.locks = rundir::lock_folders(job);
  return made;
}

}  // namespace

bool is_echo(const Error& error) {
  return error.problems().size() == 1 && error.problems().front().code == kEchoCode;
}

Assignment obtain_job(const RankArgs& args, comm::Group& world) {
  Assignment made;
  if (!args.job_file.empty()) {
    made.job = planner::job_from_json_text(read_job_file(args.job_file));
    return made;
  }
  const bool prints = world.rank() == index(kPrintingRank);
  std::optional<Error> failure;
  std::string text;  // "J" + the job, "D" + the job that is done, or "E" + the exit code
  if (prints) {
    try {
      made = make_job(args, world.size());
      text = (made.is_done ? "D" : "J") + planner::to_json_text(made.job);
    } catch (const Error& error) {
      failure = error;
      text = "E" + std::to_string(static_cast<int>(error.exit()));
    }
  }
  const comm::Purpose purpose("the job");
  text = comm::broadcast_text(world, text, index(kPrintingRank));
  if (failure) throw *failure;
  LOCKSTEP_CHECK(!text.empty(), "an empty job was broadcast");
  if (text.front() != 'E') {
    made.job = planner::job_from_json_text(text.substr(1));
    made.is_done = text.front() == 'D';
    return made;
  }
  throw Error(static_cast<Exit>(std::stoi(text.substr(1))),
              {{kEchoCode, "rank " + std::to_string(world.rank()),
                "the printing rank could not make the job", "see its message"}});
}

}  // namespace lockstep::worker
