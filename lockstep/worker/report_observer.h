// Writes what happens to the run directory and to whoever draws it: the printing rank's observer.
#pragma once
#include <filesystem>
#include <memory>

#include "lockstep/engine/observer.h"
#include "lockstep/metrics/console.h"
#include "lockstep/metrics/events_file.h"
#include "lockstep/metrics/report_line.h"

namespace lockstep::worker {

/// Where reports go: the front's descriptor (LOCKSTEP_REPORT_FD), or a console of our own.
class ReportSink {
 public:
  /// \param report_fd -1 = draw on standard output.
  ReportSink(int report_fd, bool quiet, bool color);
  void send(const metrics::ReportLine& line);
  void show_plan(const parallel::ParallelPlan& plan, const std::string& title);

 private:
  int report_fd_;
  std::unique_ptr<metrics::Console> console_;  // null with a descriptor
};

class ReportObserver : public engine::Observer {
 public:
  /// \param events and \param sink outlive it.
  ReportObserver(metrics::EventsFile& events, ReportSink& sink) : events_(events), sink_(sink) {}
  [[nodiscard]] engine::Answer on_step(const engine::StepReport& report,
                                       const engine::TrainState& state) override;
  void on_eval(const engine::EvalReport& report) override;

 private:
  metrics::EventsFile& events_;
  ReportSink& sink_;
};

}  // namespace lockstep::worker
