// Adds up a run while it goes, and makes its summary at the end.
#pragma once
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/comm/group.h"
#include "lockstep/engine/observer.h"
#include "lockstep/engine/values/run_summary.h"
#include "lockstep/planner/job.h"

namespace lockstep::worker {

class SummaryObserver : public engine::Observer {
 public:
  /// \param resumed_step what a checkpoint held already; 0 = from the start.
  explicit SummaryObserver(std::int64_t resumed_step) : resumed_step_(resumed_step) {}
  [[nodiscard]] engine::Answer on_step(const engine::StepReport& report,
                                       const engine::TrainState& state) override;

  /// What others found out, for the summary. \param hosts of all ranks. \param straggler that was
  /// named.
  void set_findings(std::vector<std::string> hosts, std::optional<int> straggler);

  /// Collective: gathers memory over ranks and measures the matmul rate for mfu.
  [[nodiscard]] engine::RunSummary summarize(const planner::Job& job, const std::string& status,
                                             const engine::TrainState& state, comm::Group& world);

 private:
  void add_rank_times(engine::RunSummary& summary) const;

  std::int64_t resumed_step_;
  std::vector<double> step_s_;  // without the first step, which warms up
  std::vector<double> comm_bytes_;
  std::vector<engine::PhaseTimes> time_sums_;  // by rank, over steps
  double time_terms_ = 0;                      // steps
  std::vector<std::string> hosts_;
  std::optional<int> straggler_;
  std::optional<engine::GradientCheckReport> worst_check_;
  std::optional<parallel::ParameterUse> parameter_use_;
  double samples_ = 0;
  double tokens_ = 0;
  double train_s_ = 0;
  double last_loss_ = std::numeric_limits<double>::quiet_NaN();
  std::int64_t steps_seen_ = 0;
};

/// Sustained fp32 or bf16 matmul rate of this rank, in FLOP/s: a 768 x 768 product repeated,
/// the fastest of eight samples of 10 ms. What mfu on CPU is measured against.
[[nodiscard]] double matmul_flops_per_s(config::Dtype compute);

}  // namespace lockstep::worker
