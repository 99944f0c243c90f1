// Saves every so many steps, and answers a restore with the newest checkpoint that verifies.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/checkpoint/async_saver.h"
#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/comm/group.h"
#include "lockstep/engine/observer.h"
#include "lockstep/planner/job.h"
#include "lockstep/rundir/earlier_run.h"
#include "lockstep/worker/report_observer.h"

namespace lockstep::worker {

class CheckpointObserver : public engine::Observer {
 public:
  /// \param sink null on ranks that do not print. All references outlive the observer.
  /// \param flight null where nobody records what the rank does.
  /// \param behind a group of all ranks for saves behind the training (checkpoint.async); null =
  /// they are written before training goes on.
  CheckpointObserver(const planner::Job& job, comm::Group& world, ReportSink* sink,
                     comm::FlightRecorder* flight = nullptr, comm::Group* behind = nullptr);

  [[nodiscard]] engine::Answer on_step(const engine::StepReport& report,
                                       const engine::TrainState& state) override;
  [[nodiscard]] bool restore(engine::TrainState& state) override;

  /// Collective: saves now, unless this step is saved already, and returns when it and all saves
  /// before it are written.
  void save(const engine::TrainState& state);
  /// Collective: loads what --resume names. \throws BadData (LS-5006) at once when the newest
  /// checkpoint is of another model: older ones are too.
  [[nodiscard]] rundir::StartPoint resume(engine::TrainState& state);

 private:
  void save_or_warn(const engine::TrainState& state);
  void save_behind(const engine::TrainState& state);
  void settle(const std::vector<checkpoint::SaveOutcome>& outcomes);
  void end_saves();
  [[nodiscard]] checkpoint::SaveInfo save_info() const;
  void load_from(const std::filesystem::path& folder, engine::TrainState& state);
  [[nodiscard]] bool is_saved_here(const std::filesystem::path& folder) const;
  [[nodiscard]] std::vector<std::string> agreed_steps() const;
  [[nodiscard]] std::optional<std::filesystem::path> load_newest(engine::TrainState& state);
  void note(const std::string& text);

  const planner::Job& job_;
  comm::Group& world_;
  ReportSink* sink_;
  comm::FlightRecorder* flight_;
  std::filesystem::path dir_;
  std::string data_hash_;
  std::int64_t saved_step_ = -1;  // that lies in dir_, as this run has it
  int failed_saves_ = 0;          // in a row
  std::optional<checkpoint::AsyncSaver> saver_;
};

}  // namespace lockstep::worker
