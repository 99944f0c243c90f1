#include "lockstep/rundir/earlier_run.h"

#include <array>
#include <system_error>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/format/step_folder.h"
#include "lockstep/config/parse.h"
#include "lockstep/metrics/events_file.h"
#include "lockstep/parallel/plan/parallel_plan.h"
#include "lockstep/planner/batch_cuts.h"
#include "lockstep/rundir/start.h"

namespace lockstep::rundir {
namespace {

namespace fs = std::filesystem;
using checkpoint::StepFolder;

constexpr const char* kEvents = "events.jsonl";
constexpr const char* kSummary = "summary.json";
// Of one run: they mean nothing beside the checkpoints of another.
constexpr std::array<const char*, 4> kFiles{kSummary, kEvents, "config.json", "plan.json"};

bool holds_something(const fs::path& file) {
  std::error_code missing;
  return fs::is_regular_file(file, missing) && fs::file_size(file, missing) > 0 && !missing;
}

fs::path new_previous(const fs::path& dir) {
  int number = 1;
  while (fs::exists(dir / ("previous-" + std::to_string(number)))) ++number;
  const fs::path previous = dir / ("previous-" + std::to_string(number));
  fs::create_directories(previous);
  return previous;
}

void move_steps(const std::vector<StepFolder>& steps, const fs::path& target) {
  fs::create_directories(target);
  for (const StepFolder& step : steps) {
    fs::rename(step.path, target / ("step-" + std::to_string(step.step)));
  }
}

std::string names_of(const std::vector<StepFolder>& steps) {
  std::string names;
  for (const StepFolder& step : steps) {
    names += (names.empty() ? "step-" : ", step-") + std::to_string(step.step);
  }
  return names;
}

/// Also where `folder` ends in a slash, as shells complete it, is the working directory, or is a
/// link to one there.
bool is_in(const fs::path& folder, const fs::path& checkpoints) {
  std::error_code missing;
  fs::path plain = fs::absolute(folder, missing).lexically_normal();
  if (!plain.has_filename()) plain = plain.parent_path();
  return fs::equivalent(plain.parent_path(), checkpoints, missing) ||
         fs::equivalent(fs::canonical(folder, missing).parent_path(), checkpoints, missing);
}

/// Checkpoints outside of the run directory stay on their file system.
std::vector<std::string> set_all_aside(const planner::Job& job) {
  const fs::path run_dir = job.run_dir;
  const fs::path checkpoints = checkpoints_dir(job);
  const auto steps = checkpoint::complete_steps(checkpoints);
  if (steps.empty() && !holds_something(run_dir / kEvents) &&
      !holds_something(run_dir / kSummary)) {
    return {};
  }
  std::vector<std::string> notes;
  fs::path previous;
  if (job.config.checkpoint.dir.empty()) {
    previous = new_previous(run_dir);
    if (fs::exists(checkpoints)) fs::rename(checkpoints, previous / "checkpoints");
  } else {
    if (!steps.empty()) {
      const fs::path beside = new_previous(checkpoints);
      move_steps(steps, beside);
      notes.push_back("the checkpoints of an earlier run (" + names_of(steps) + ") are now in " +
                      beside.string());
    }
    if (!holds_something(run_dir / kEvents) && !holds_something(run_dir / kSummary)) return notes;
    previous = new_previous(run_dir);
  }
  for (const char* file : kFiles) {
    if (fs::exists(run_dir / file)) fs::rename(run_dir / file, previous / file);
  }
  notes.push_back("what an earlier run left in " + run_dir.string() + " is now in " +
                  previous.string());
  return notes;
}

std::vector<std::string> set_later_aside(const planner::Job& job, std::int64_t step) {
  const fs::path run_dir = job.run_dir;
  std::vector<StepFolder> later = checkpoint::complete_steps(checkpoints_dir(job));
  std::erase_if(later, [step](const StepFolder& folder) { return folder.step <= step; });
  if (later.empty()) return {};
  const bool own = job.config.checkpoint.dir.empty();
  const fs::path previous = new_previous(own ? run_dir : checkpoints_dir(job));
  move_steps(later, own ? previous / "checkpoints" : previous);
  for (const char* file : {kEvents, kSummary}) {
    if (holds_something(run_dir / file)) fs::copy_file(run_dir / file, previous / file);
  }
  return {"checkpoints of later steps (" + names_of(later) + ") are now in " + previous.string()};
}

}  // namespace

std::vector<std::string> set_aside_earlier(const planner::Job& job, const StartPoint& start) {
  try {
    const bool goes_on = start.checkpoint && is_in(*start.checkpoint, checkpoints_dir(job));
    return goes_on ? set_later_aside(job, start.step) : set_all_aside(job);
  } catch (const fs::filesystem_error& error) {
    throw EnvironmentFault({"LS-3051", error.path1().string(),
                            "an earlier run cannot be set aside: " + error.code().message(),
                            "make the run directory writable, or choose another with --run-dir"});
  }
}

void write_job_files(const planner::Job& job) {
  const fs::path dir = job.run_dir;
  const config::RunConfig config = planner::with_found_batch(job.config, job.plan);
  metrics::write_whole_file(dir / "config.json", config::to_json_text(config) + "\n");
  metrics::write_whole_file(dir / "plan.json", parallel::to_json_text(job.plan) + "\n");
}

}  // namespace lockstep::rundir
