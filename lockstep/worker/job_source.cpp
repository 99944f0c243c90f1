#include "lockstep/worker/job_source.h"

#include <fstream>
#include <optional>
#include <sstream>

#include "lockstep/base/run_dir.h"
#include "lockstep/config/parse.h"
#include "lockstep/data/formats/data_size.h"
#include "lockstep/metrics/events_file.h"
#include "lockstep/planner/planner.h"
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

std::string make_job(const RankArgs& args, int world_size) {
  planner::Job job;
  job.config = config::load_run_config(args.config_file, args.sets);
  job.plan = planner::make_plan(job.config, probe_host(), world_size,
                                data::resident_bytes(job.config.data));
  job.run_dir = make_run_dir(args.run_dir, job.config.run.name).string();
  job.resume = args.resume;
  const std::filesystem::path dir = job.run_dir;
  metrics::write_whole_file(dir / "config.json", config::to_json_text(job.config) + "\n");
  metrics::write_whole_file(dir / "plan.json", parallel::to_json_text(job.plan) + "\n");
  return planner::to_json_text(job);
}

}  // namespace

bool is_echo(const Error& error) {
  return error.problems().size() == 1 && error.problems().front().code == kEchoCode;
}

planner::Job obtain_job(const RankArgs& args, comm::Group& world) {
  if (!args.job_file.empty()) return planner::job_from_json_text(read_job_file(args.job_file));
  const bool prints = world.rank() == index(kPrintingRank);
  std::optional<Error> failure;
  std::string text;  // "J" + the job, or "E" + the exit code
  if (prints) {
    try {
      text = "J" + make_job(args, world.size());
    } catch (const Error& error) {
      failure = error;
      text = "E" + std::to_string(static_cast<int>(error.exit()));
    }
  }
  text = comm::broadcast_text(world, text, index(kPrintingRank));
  if (failure) throw *failure;
  LOCKSTEP_CHECK(!text.empty(), "an empty job was broadcast");
  if (text.front() == 'J') return planner::job_from_json_text(text.substr(1));
  throw Error(static_cast<Exit>(std::stoi(text.substr(1))),
              {{kEchoCode, "rank " + std::to_string(world.rank()),
                "the printing rank could not make the job", "see its message"}});
}

}  // namespace lockstep::worker
