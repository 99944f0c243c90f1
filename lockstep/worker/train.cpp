#include "lockstep/worker/train.h"

#include <ATen/Parallel.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/units.h"
#include "lockstep/checkpoint/agree.h"
#include "lockstep/checkpoint/format/step_folder.h"
#include "lockstep/comm/records/flight_recorder.h"
#include "lockstep/comm/records/purpose.h"
#include "lockstep/comm/world.h"
#include "lockstep/config/registry.h"
#include "lockstep/data/dataset.h"
#include "lockstep/data/loader.h"
#include "lockstep/engine/trainer.h"
#include "lockstep/memory/category.h"
#include "lockstep/metrics/events_file.h"
#include "lockstep/model/model.h"
#include "lockstep/parallel/compose.h"
#include "lockstep/parallel/strategies/registry.h"
#include "lockstep/rundir/earlier_run.h"
#include "lockstep/rundir/start.h"
#include "lockstep/topology/mesh.h"
#include "lockstep/worker/batch_finder.h"
#include "lockstep/worker/checkpoint_observer.h"
#include "lockstep/worker/flight_file.h"
#include "lockstep/worker/host_names.h"
#include "lockstep/worker/job_source.h"
#include "lockstep/worker/report_observer.h"
#include "lockstep/worker/start_weights.h"
#include "lockstep/worker/stop_observer.h"
#include "lockstep/worker/summary.h"

namespace lockstep::worker {
namespace {

/// \throws UsageError for a group of GPUs: the models here live in the memory of the host.
std::unique_ptr<comm::Group> join(const config::RankEnv& env,
                                  std::shared_ptr<comm::FlightRecorder> flight) {
  if (env.backend != "nccl") return comm::join_world(env, std::move(flight));
  throw UsageError({{"LS-4018", "LOCKSTEP_BACKEND",
                     "nccl moves the memory of GPUs, and training computes on CPUs",
                     "unset LOCKSTEP_BACKEND, or set it to auto"}});
}

std::string where_of(const config::RankEnv& env) { return "rank " + std::to_string(env.rank); }

/// Of a run without a checkpoint to go on from, before its first step.
Problem nothing_saved(const config::RankEnv& env) {
  return {rundir::kStoppedCode, where_of(env),
          "stopped on request; nothing was saved: no step had been finished",
          "the same command starts it again"};
}

/// One run of one rank. Members are in the order they depend on each other.
class TrainJob {
 public:
  TrainJob(const RankArgs& args, const config::RankEnv& env)
      : env_(env),
        flight_(std::make_shared<comm::FlightRecorder>(env.rank, env.world_size)),
        world_(join(env, flight_)),
        assigned_(obtain_job(args, *world_)),
        mesh_(job_.plan.degree) {
    if (args.job_file.empty()) tell_stops(args.json);
    const std::string fault = assigned_.is_done ? "" : keep_flight(*flight_, job_.run_dir, *world_);
    at::set_num_threads(job_.config.run.threads);
    if (mesh_.is_first(Rank{world_->rank()}, Axis::dp)) {
      sink_.emplace(env.report_fd, args.quiet, args.color);
      if (!args.config_file.empty() && !assigned_.is_done)
        sink_->show_plan(job_.plan, job_.config.run.name);
      for (const std::string& note : assigned_.notes) sink_->send(metrics::Note{note});
      if (!fault.empty()) sink_->send(metrics::Note{fault});
      if (env.backend == "fake") {
        sink_->send(
            metrics::Note{"LOCKSTEP_BACKEND=fake: nothing is exchanged between ranks; only times "
                          "mean something"});
      }
    }
  }

  Exit run() {
    if (assigned_.is_done) return already_done();
    const data::DataPair data = data::open_data(job_.config);
    const memory::Held data_in_memory(
        memory::Category::buffers,
        data.train->resident_bytes() + (data.eval ? data.eval->resident_bytes() : 0));
    const data::Sampler sampler(data.train->size(), seed(), job_.plan.batch.global_batch);
    const auto session = parallel::compose({job_.config, job_.plan, mesh_, groups(), flight_.get()},
                                           make_model(), parallel::strategies());
    memory::release_cached();  // the weights as the model made them, before they became flat
    stop_.emplace();
    BatchFinder finder(assigned_.job, *world_, env_, sink_ ? &*sink_ : nullptr);
    if (!finder.find(*session, *data.train, sampler, [this] { return stop_->stops_now(); })) {
      throw Error(Exit::failed, {nothing_saved(env_)});
    }
    data::Loader loader(*data.train, sampler,
                        engine::leaves_of_rank(job_.plan.batch, world_->rank()),
                        {seed(), job_.config.data.workers, job_.config.data.prefetch});
    engine::Trainer trainer({job_.config, job_.plan, *session, *world_, sampler, loader,
                             data.eval.get(), data.train->counts_tokens(), flight_.get(),
                             data.train.get(), finder.finer()});
    trainer.add_observer(finder);
    return train(trainer, sampler);
  }

 private:
  /// What a signal says from here on until there is something to save. A front says it itself.
  void tell_stops(bool json) const {
    const auto newest = job_.resume == "auto" && !assigned_.is_done
                            ? checkpoint::newest_complete(rundir::checkpoints_dir(job_))
                            : std::nullopt;
    if (!newest) return;
    leave_on_stop({rundir::kStoppedCode, where_of(env_),
                   "stopped on request before a further step was finished; the state is that of "
                   "checkpoint " +
                       newest->filename().string(),
                   "the same command goes on from it"},
                  Exit::requeue, json);
  }

  /// Collective. A run that goes on has the weights of its checkpoint.
  std::unique_ptr<model::Model> make_model() {
    auto made = model::make_model(job_.config.model, job_.config.data.seq_len, seed());
    if (job_.config.model.weights.empty()) return made;
    leaves_out_weights_ = goes_on();
    if (leaves_out_weights_) return made;
    std::vector<std::string> notes;
    checkpoint::run_on_all(*world_, [&] { notes = load_start_weights(job_.config, *made); });
    for (const std::string& note : notes) {
      if (sink_) sink_->send(metrics::Note{note});
    }
    return made;
  }

  /// Collective: as the printing rank sees the folder.
  bool goes_on() {
    bool goes_on = job_.resume != "auto" && job_.resume != "none";
    if (job_.resume == "auto") {
      goes_on = checkpoint::newest_complete(rundir::checkpoints_dir(job_)).has_value();
    }
    const comm::Purpose purpose("whether there is a checkpoint");
    return comm::broadcast_text(*world_, goes_on ? "yes" : "no", index(kPrintingRank)) == "yes";
  }

  /// Collective. Statistics have a group of their own: in that of the gradients they would wait
  /// behind buckets.
  parallel::Groups groups() {
    parallel::Groups groups{*world_, *world_};
    if (job_.config.parallel.sync_batch_norm && world_->size() > 1) {
      statistics_ = comm::join_beside_world(env_, "batch norm", flight_);
      groups.statistics = statistics_.get();
    }
    return groups;
  }

  Exit already_done() {
    if (sink_ && assigned_.finished) {
      sink_->send(metrics::Note{rundir::already_done_text()});
      sink_->send(*assigned_.finished);
    }
    return Exit::ok;
  }

  [[nodiscard]] std::uint64_t seed() const {
    return static_cast<std::uint64_t>(job_.config.run.seed);
  }

  Exit train(engine::Trainer& trainer, const data::Sampler& sampler) {
    const std::unique_ptr<comm::Group> behind =
        job_.config.checkpoint.async ? comm::join_beside_world(env_, "checkpoints") : nullptr;
    CheckpointObserver checkpoint(job_, *world_, sink_ ? &*sink_ : nullptr, flight_.get(),
                                  behind.get());
    const rundir::StartPoint start = checkpoint.resume(trainer.state());
    if (leaves_out_weights_ && !start.checkpoint) {
      throw EnvironmentFault({"LS-5003", rundir::checkpoints_dir(job_).string(),
                              "the checkpoint to go on from was there and is gone",
                              "start again: without a checkpoint the run begins with "
                              "model.weights"});
    }
    if (start.checkpoint) {
      check_position(trainer.state(), sampler, *start.checkpoint);
      trainer.loaded();
      if (start.step >= trainer.total_steps() && was_finished(trainer)) {
        flight_->finish();
        return Exit::ok;
      }
    }
    const std::vector<std::string> hosts = gather_host_names(*world_, env_.host_id);
    std::optional<metrics::EventsFile> events;
    std::optional<ReportObserver> reports;
    if (sink_) {
      for (const std::string& moved : rundir::set_aside_earlier(job_, start)) {
        sink_->send(metrics::Note{moved});
      }
      rundir::write_job_files(job_);
      events.emplace(std::filesystem::path(job_.run_dir) / "events.jsonl", trainer.state().step);
      reports.emplace(*events, *sink_, hosts);
      trainer.add_observer(*reports);
    }
    SummaryObserver summary(start.step);
    trainer.add_observer(summary);
    trainer.add_observer(checkpoint);
    trainer.add_observer(*stop_);
    const engine::Outcome outcome = trainer.run();
    const bool stopped = outcome == engine::Outcome::stopped;
    if (stopped || job_.config.checkpoint.every > 0) checkpoint.save(trainer.state());
    summary.set_findings(hosts, reports ? reports->straggler() : std::nullopt);
    finish(summary, trainer, stopped ? "stopped" : "done");
    flight_->finish();
    return stopped ? Exit::requeue : Exit::ok;
  }

  static void check_position(const engine::TrainState& state, const data::Sampler& sampler,
                             const std::filesystem::path& checkpoint) {
    if (state.position.sample < sampler.dataset_size()) return;
    throw UsageError(
        {{"LS-5008", checkpoint.string(),
          "it stands at sample " + format_count(state.position.sample) +
              " of an epoch, but the data set has only " + format_count(sampler.dataset_size()),
          "train on the data it was saved with (data.train, data.train_samples), or "
          "anew with --resume none"}});
  }

  /// Collective: nothing is left to train, and the printing rank says why. \returns whether the
  /// summary of this very state is there already; then all of the run directory stays as it is.
  bool was_finished(engine::Trainer& trainer) {
    const config::RunSection& run = job_.config.run;
    const bool by_steps = run.steps && *run.steps == trainer.total_steps();
    const config::Option& end = *config::find_option(by_steps ? "run.steps" : "run.epochs");
    const config::Value value = run.steps || run.epochs ? end.get(job_.config) : 1.0;
    std::string kept;
    if (sink_) {
      sink_->send(metrics::Note{
          "nothing is left to train: the run ends at step " + format_count(trainer.total_steps()) +
          " (" + std::string(end.key) + " = " + config::to_toml_text(end, value) +
          "), and the checkpoint is of step " + format_count(trainer.state().step) +
          "; raise run.epochs or run.steps to go on"});
      const auto summary = rundir::read_summary(job_.run_dir);
      const bool stands = summary && summary->status == "done" &&
                          summary->state_sha256 == engine::state_sha256(trainer.state());
      if (stands) sink_->send(*summary);
      kept = stands ? "kept" : "new";
    }
    const comm::Purpose purpose("whether the run was finished");
    return comm::broadcast_text(*world_, kept, index(kPrintingRank)) == "kept";
  }

  void finish(SummaryObserver& observer, engine::Trainer& trainer, const std::string& status) {
    engine::RunSummary summary = observer.summarize(job_, status, trainer.state(), *world_);
    summary.eval = trainer.last_eval();
    if (!sink_) return;
    if (summary.steps_this_run == 0) keep_measured(summary);
    metrics::write_summary(job_.run_dir, summary);
    sink_->send(summary);
  }

  /// Without a step of its own this run has measured nothing: what an earlier start in the run
  /// directory measured on the way to this very state still holds.
  void keep_measured(engine::RunSummary& summary) const {
    std::optional<engine::RunSummary> earlier = rundir::read_summary(job_.run_dir);
    if (!earlier || earlier->state_sha256 != summary.state_sha256) return;
    earlier->status = summary.status;
    earlier->config_hash = summary.config_hash;
    if (summary.eval) earlier->eval = summary.eval;
    summary = *earlier;
  }

  const config::RankEnv& env_;
  std::shared_ptr<comm::FlightRecorder> flight_;
  std::unique_ptr<comm::Group> world_;
  std::unique_ptr<comm::Group> statistics_;  // null where batch normalisation is each rank's own
  Assignment assigned_;
  const planner::Job& job_ = assigned_.job;
  Mesh mesh_;
  std::optional<ReportSink> sink_;  // of the printing rank
  std::optional<StopObserver> stop_;
  bool leaves_out_weights_ = false;  // model.weights: a checkpoint has others
};

}  // namespace

Exit run_train(const RankArgs& args, const config::RankEnv& env) {
  leave_on_stop(nothing_saved(env), Exit::failed, args.json);
  TrainJob job(args, env);
  return job.run();
}

}  // namespace lockstep::worker
