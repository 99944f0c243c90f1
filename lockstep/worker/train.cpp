#include "lockstep/worker/train.h"

#include <ATen/Parallel.h>

#include <filesystem>
#include <memory>
#include <optional>

#include "lockstep/comm/world.h"
#include "lockstep/data/dataset.h"
#include "lockstep/data/loader.h"
#include "lockstep/engine/trainer.h"
#include "lockstep/memory/category.h"
#include "lockstep/metrics/events_file.h"
#include "lockstep/model/model.h"
#include "lockstep/parallel/compose.h"
#include "lockstep/parallel/strategies/registry.h"
#include "lockstep/topology/mesh.h"
#include "lockstep/worker/checkpoint_observer.h"
#include "lockstep/worker/job_source.h"
#include "lockstep/worker/report_observer.h"
#include "lockstep/worker/stop_observer.h"
#include "lockstep/worker/summary.h"

namespace lockstep::worker {
namespace {

/// One run of one rank. Members are in the order they depend on each other.
class TrainJob {
 public:
  TrainJob(const RankArgs& args, const config::RankEnv& env)
      : world_(comm::join_world(env)), job_(obtain_job(args, *world_)), mesh_(job_.plan.degree) {
    at::set_num_threads(job_.config.run.threads);
    if (mesh_.is_first(Rank{world_->rank()}, Axis::dp)) {
      sink_.emplace(env.report_fd, args.quiet, args.color);
      if (!args.config_file.empty()) sink_->show_plan(job_.plan, job_.config.run.name);
    }
  }

  Exit run() {
    const data::DataPair data = data::open_data(job_.config);
    const memory::Held data_in_memory(
        memory::Category::buffers,
        data.train->resident_bytes() + (data.eval ? data.eval->resident_bytes() : 0));
    const data::Sampler sampler(data.train->size(), seed(), job_.plan.batch.global_batch);
    data::Loader loader(*data.train, sampler,
                        engine::leaves_of_rank(job_.plan.batch, world_->rank()),
                        {seed(), job_.config.data.workers, job_.config.data.prefetch});
    const auto session = parallel::compose(
        {job_.config, job_.plan, mesh_, {*world_, *world_}},
        model::make_model(job_.config.model, job_.config.data.seq_len, seed()),
        parallel::strategies());
    memory::release_cached();  // the weights as the model made them, before they became flat
    engine::Trainer trainer({job_.config, job_.plan, *session, *world_, sampler, loader,
                             data.eval.get(), data.train->counts_tokens()});
    return train(trainer);
  }

 private:
  [[nodiscard]] std::uint64_t seed() const {
    return static_cast<std::uint64_t>(job_.config.run.seed);
  }

  Exit train(engine::Trainer& trainer) {
    CheckpointObserver checkpoint(job_, *world_, sink_ ? &*sink_ : nullptr);
    if (checkpoint.resume(trainer.state())) trainer.loaded();
    std::optional<metrics::EventsFile> events;
    std::optional<ReportObserver> reports;
    if (sink_) {
      events.emplace(std::filesystem::path(job_.run_dir) / "events.jsonl", trainer.state().step);
      reports.emplace(*events, *sink_);
      trainer.add_observer(*reports);
    }
    SummaryObserver summary;
    trainer.add_observer(summary);
    trainer.add_observer(checkpoint);
    trainer.add_observer(stop_);
    const engine::Outcome outcome = trainer.run();
    const bool stopped = outcome == engine::Outcome::stopped;
    if (stopped || job_.config.checkpoint.every > 0) checkpoint.save(trainer.state());
    finish(summary, trainer, stopped ? "stopped" : "done");
    return stopped ? Exit::requeue : Exit::ok;
  }

  void finish(SummaryObserver& observer, engine::Trainer& trainer, const std::string& status) {
    engine::RunSummary summary = observer.summarize(job_, status, trainer.state(), *world_);
    summary.eval = trainer.last_eval();
    if (!sink_) return;
    metrics::write_summary(job_.run_dir, summary);
    sink_->send(summary);
  }

  StopObserver stop_;  // first: a signal counts from the start
  std::unique_ptr<comm::Group> world_;
  planner::Job job_;
  Mesh mesh_;
  std::optional<ReportSink> sink_;  // of the printing rank
};

}  // namespace

Exit run_train(const RankArgs& args, const config::RankEnv& env) {
  TrainJob job(args, env);
  return job.run();
}

}  // namespace lockstep::worker
