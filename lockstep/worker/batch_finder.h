// batch.micro_batch = "auto" on a rank: tries cuts of the batch before training, takes the best,
// and keeps job, files and memory of it true when a step had to be cut finer.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/comm/group.h"
#include "lockstep/config/starter.h"
#include "lockstep/data/dataset.h"
#include "lockstep/data/sampler.h"
#include "lockstep/engine/observer.h"
#include "lockstep/parallel/session.h"
#include "lockstep/planner/batch_cuts.h"
#include "lockstep/planner/job.h"
#include "lockstep/worker/report_observer.h"

namespace lockstep::worker {

class BatchFinder : public engine::Observer {
 public:
  /// \param job whose plan and search it changes; on every rank alike. \param sink of the printing
  /// rank, else null. All outlive it.
  BatchFinder(planner::Job& job, comm::Group& world, const config::RankEnv& env, ReportSink* sink);

  /// Collective, before training: nothing for a job without a search. Passes of the model over real
  /// samples; parameters, buffers and the position in the data stay what they are.
  /// \param stops_now is asked between passes. \returns false when a rank is to stop: on all ranks,
  /// and then nothing was found.
  [[nodiscard]] bool find(parallel::Session& session, const data::Dataset& train,
                          const data::Sampler& sampler, const std::function<bool()>& stops_now);

  /// What is left for when memory runs out: of TrainerParts.
  [[nodiscard]] std::vector<config::BatchShape> finer() const;

  [[nodiscard]] engine::Answer on_step(const engine::StepReport& /*report*/,
                                       const engine::TrainState& /*state*/) override {
    return engine::Answer::go_on;
  }
  void on_finer_cut(const engine::FinerCut& cut) override;

 private:
  void limit_memory() const;
  [[nodiscard]] std::optional<planner::ProbedCut> probe(
      const parallel::ParallelPlan& plan, std::size_t cut, parallel::Session& session,
      const data::Dataset& train, const data::Sampler& sampler,
      const std::function<bool()>& stops_now) const;
  void remember(const planner::ProbedCut& best) const;
  void note(const std::string& text) const;

  planner::Job& job_;
  comm::Group& world_;
  ReportSink* sink_;
  std::int64_t limit_bytes_ = 0;  // of resident memory; 0 = unknown
};

}  // namespace lockstep::worker
