#include "lockstep/worker/checkpoint_observer.h"

#include <torch/headeronly/version.h>

#include <map>
#include <sstream>
#include <system_error>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/format/step_folder.h"
#include "lockstep/comm/records/flight_recorder.h"
#include "lockstep/comm/records/purpose.h"
#include "lockstep/config/parse.h"
#include "lockstep/planner/batch_cuts.h"
#include "lockstep/rundir/start.h"
#include "lockstep/topology/mesh.h"

namespace lockstep::worker {
namespace {

namespace fs = std::filesystem;

constexpr const char* kOtherModel = "LS-5006";

std::map<std::string, std::string> versions() {
  return {{"lockstep", LOCKSTEP_VERSION}, {"libtorch", TORCH_VERSION}};
}

std::string sentence_of(const Problem& problem) {
  return problem.where + ": " + problem.what + "; to do: " + problem.fix;
}

}  // namespace

CheckpointObserver::CheckpointObserver(const planner::Job& job, comm::Group& world,
                                       ReportSink* sink, comm::FlightRecorder* flight,
                                       comm::Group* behind)
    : job_(job),
      world_(world),
      sink_(sink),
      flight_(flight),
      dir_(rundir::checkpoints_dir(job)),
      data_hash_(rundir::training_data_hash(job.config.data)) {
  if (behind != nullptr) saver_.emplace(*behind, dir_, job.config.checkpoint.keep);
}

engine::Answer CheckpointObserver::on_step(const engine::StepReport& report,
                                           const engine::TrainState& state) {
  const std::int64_t every = job_.config.checkpoint.every;
  const bool is_due = every > 0 && !report.skipped && state.step % every == 0;
  if (is_due) saver_ ? save_behind(state) : save_or_warn(state);
  return engine::Answer::go_on;
}

/// A full or failing disk does not end training at once: the checkpoints of before are intact. All
/// ranks get the same error, so all count alike.
void CheckpointObserver::save_or_warn(const engine::TrainState& state) {
  try {
    save(state);
  } catch (const EnvironmentFault& fault) {
    settle({{state.step, fault.problems().front(), {}}});
  }
}

void CheckpointObserver::save_behind(const engine::TrainState& state) {
  comm::set_phase(flight_, comm::Phase::checkpoint);
  settle(saver_->save(state, save_info(), world_));
}

void CheckpointObserver::settle(const std::vector<checkpoint::SaveOutcome>& outcomes) {
  constexpr int kMostFailedSaves = 3;
  for (const checkpoint::SaveOutcome& outcome : outcomes) {
    if (!outcome.fault) {
      saved_step_ = outcome.step;
      failed_saves_ = 0;
      note("checkpoint saved at step " + std::to_string(outcome.step));
      if (outcome.left) note("older checkpoints stay: " + sentence_of(*outcome.left));
      continue;
    }
    if (++failed_saves_ >= kMostFailedSaves) throw EnvironmentFault(*outcome.fault);
    note("checkpoint of step " + std::to_string(outcome.step) +
         " not saved, training goes on: " + sentence_of(*outcome.fault));
  }
}

/// Before anything else touches the folder of the checkpoints.
void CheckpointObserver::end_saves() {
  if (saver_) settle(saver_->finish());
}

checkpoint::SaveInfo CheckpointObserver::save_info() const {
  checkpoint::SaveInfo info;
  info.config_json = config::to_json_text(planner::with_found_batch(job_.config, job_.plan));
  info.config_hash = config::config_hash(job_.config);
  info.seed = job_.config.run.seed;
  info.versions = versions();
  info.data_hash = data_hash_;
  info.layout = "data=" + std::to_string(job_.plan.batch.data_ranks);
  return info;
}

void CheckpointObserver::save(const engine::TrainState& state) {
  end_saves();
  if (saved_step_ == state.step) return;
  comm::set_phase(flight_, comm::Phase::checkpoint);
  const checkpoint::SaveParts parts = checkpoint::parts_of(state, save_info(), world_);
  const auto saved = checkpoint::write_save(parts, dir_, world_, job_.config.checkpoint.keep);
  settle({{state.step, {}, saved.left}});
}

rundir::StartPoint CheckpointObserver::resume(engine::TrainState& state) {
  if (job_.resume == "none") return {};
  if (job_.resume == "auto") {
    const auto newest = load_newest(state);
    return {newest, state.step};
  }
  const fs::path named = rundir::named_checkpoint(job_);
  load_from(named, state);
  return {named, state.step};
}

bool CheckpointObserver::restore(engine::TrainState& state) {
  end_saves();
  return load_newest(state).has_value();
}

/// Names of the complete ones, newest first, as one rank sees them: hosts may see a shared folder
/// at different times, and ranks that load different steps would train a mixture.
std::vector<std::string> CheckpointObserver::agreed_steps() const {
  std::string text;
  if (world_.rank() == index(kPrintingRank)) {
    for (const checkpoint::StepFolder& step : checkpoint::complete_steps(dir_)) {
      text += step.path.filename().string() + '\n';
    }
  }
  const comm::Purpose purpose("which checkpoints there are");
  std::istringstream lines(comm::broadcast_text(world_, text, index(kPrintingRank)));
  std::vector<std::string> names;
  for (std::string name; std::getline(lines, name);) names.push_back(name);
  return names;
}

std::optional<fs::path> CheckpointObserver::load_newest(engine::TrainState& state) {
  std::optional<BadData> damage;  // of the newest
  for (const std::string& name : agreed_steps()) {
    try {
      load_from(dir_ / name, state);
      return dir_ / name;
    } catch (const BadData& error) {  // on every rank
      if (error.problems().front().code == kOtherModel) throw;
      note("passing over " + name + ": " + error.problems().front().what);
      if (!damage) damage = error;
    }
  }
  if (damage) throw BadData(*damage);
  return std::nullopt;
}

void CheckpointObserver::load_from(const fs::path& folder, engine::TrainState& state) {
  comm::set_phase(flight_, comm::Phase::checkpoint);
  const checkpoint::Manifest manifest = checkpoint::load(state, folder, world_);
  if (is_saved_here(folder)) saved_step_ = state.step;
  const std::vector<rundir::ResumeChange> changes = rundir::changes_since(job_, manifest);
  for (const std::string& line : rundir::change_notes(changes, job_.allow_change)) note(line);
  for (const std::string& line : rundir::version_notes(manifest.versions, versions())) note(line);
  note("going on from " + folder.string() + " (step " + std::to_string(state.step) + ")");
}

/// A state that came from elsewhere is still to be saved here. One rank looks, for all: saving is
/// collective, and hosts may see a folder under different names.
bool CheckpointObserver::is_saved_here(const fs::path& folder) const {
  std::string found = "elsewhere";
  if (world_.rank() == index(kPrintingRank)) {
    for (const checkpoint::StepFolder& step : checkpoint::complete_steps(dir_)) {
      std::error_code missing;
      if (fs::equivalent(step.path, folder, missing)) found = "here";
    }
  }
  const comm::Purpose purpose("where the loaded checkpoint lies");
  return comm::broadcast_text(world_, found, index(kPrintingRank)) == "here";
}

void CheckpointObserver::note(const std::string& text) {
  if (sink_ != nullptr) sink_->send(metrics::Note{text});
}

}  // namespace lockstep::worker
