#include "lockstep/worker/checkpoint_observer.h"

#include <optional>

#include "lockstep/base/error.h"
#include "lockstep/config/parse.h"

namespace lockstep::worker {
namespace {

namespace fs = std::filesystem;

fs::path checkpoint_dir(const planner::Job& job) {
  const std::string& dir = job.config.checkpoint.dir;
  return dir.empty() ? fs::path(job.run_dir) / "checkpoints" : fs::path(dir);
}

}  // namespace

CheckpointObserver::CheckpointObserver(const planner::Job& job, comm::Group& world,
                                       ReportSink* sink)
    : job_(job), world_(world), sink_(sink), dir_(checkpoint_dir(job)) {}

engine::Answer CheckpointObserver::on_step(const engine::StepReport& report,
                                           const engine::TrainState& state) {
  const std::int64_t every = job_.config.checkpoint.every;
  if (every > 0 && !report.skipped && state.step % every == 0) save_or_warn(state);
  return engine::Answer::go_on;
}

/// A full or failing disk does not end training at once: the checkpoints of before are intact. All
/// ranks get the same error, so all count alike.
void CheckpointObserver::save_or_warn(const engine::TrainState& state) {
  constexpr int kMostFailedSaves = 3;
  try {
    save(state);
  } catch (const EnvironmentFault& fault) {
    if (++failed_saves_ >= kMostFailedSaves) throw;
    note("checkpoint not saved, training goes on: " + fault.problems().front().what);
  }
}

void CheckpointObserver::save(const engine::TrainState& state) {
  if (saved_step_ == state.step) return;
  checkpoint::SaveInfo info;
  info.config_json = config::to_json_text(job_.config);
  info.config_hash = config::config_hash(job_.config);
  info.seed = job_.config.run.seed;
  info.layout = "data=" + std::to_string(job_.plan.batch.data_ranks);
  checkpoint::save(state, dir_, info, world_, job_.config.checkpoint.keep);
  saved_step_ = state.step;
  failed_saves_ = 0;
  note("checkpoint saved at step " + std::to_string(state.step));
}

bool CheckpointObserver::resume(engine::TrainState& state) {
  if (job_.resume == "none") return false;
  if (job_.resume == "auto") return load_newest(state);
  const fs::path tagged = dir_ / job_.resume;
  load_from(fs::is_directory(tagged) ? tagged : fs::path(job_.resume), state);
  return true;
}

bool CheckpointObserver::restore(engine::TrainState& state) { return load_newest(state); }

bool CheckpointObserver::load_newest(engine::TrainState& state) {
  std::optional<BadData> damage;  // of the newest
  for (const checkpoint::StepFolder& folder : checkpoint::complete_steps(dir_)) {
    try {
      load_from(folder.path, state);
      return true;
    } catch (const BadData& error) {  // on every rank
      note("passing over " + folder.path.filename().string() + ": " +
           error.problems().front().what);
      if (!damage) damage = error;
    }
  }
  if (damage) throw BadData(*damage);
  return false;
}

void CheckpointObserver::load_from(const fs::path& folder, engine::TrainState& state) {
  const checkpoint::Manifest manifest = checkpoint::load(state, folder, world_);
  saved_step_ = state.step;
  if (manifest.config_hash != config::config_hash(job_.config)) {
    note("the configuration differs from the one that saved " + folder.filename().string());
  }
  note("going on from " + folder.string() + " (step " + std::to_string(state.step) + ")");
}

void CheckpointObserver::note(const std::string& text) {
  if (sink_ != nullptr) sink_->send(metrics::Note{text});
}

}  // namespace lockstep::worker
