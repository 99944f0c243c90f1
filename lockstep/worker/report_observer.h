// Writes what happens to the run directory and to whoever draws it: the printing rank's observer.
#pragma once
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/engine/observer.h"
#include "lockstep/engine/values/straggler.h"
#include "lockstep/metrics/console.h"
#include "lockstep/metrics/events_file.h"
#include "lockstep/metrics/report_line.h"

namespace lockstep::worker {

/// Where reports go: the front's descriptor (LOCKSTEP_REPORT_FD), or a console of our own.
class ReportSink {
 public:
  /// \param report_fd -1 = draw on standard output.
  ReportSink(int report_fd, bool quiet, bool color);
  ReportSink(const ReportSink&) = delete;
  ReportSink& operator=(const ReportSink&) = delete;
  ~ReportSink() { flush(); }
  void send(const metrics::ReportLine& line);
  /// \param json the report as a line, which its caller has anyway. Lines of steps may wait for 25
  /// ms of further steps, and are lost when the process is killed meanwhile: events.jsonl has them.
  void send(const engine::StepReport& report, const std::string& json);
  void show_plan(const parallel::ParallelPlan& plan, const std::string& title);

 private:
  void flush();

  int report_fd_;
  std::string pending_;  // lines of steps shorter than anybody can see
  std::chrono::steady_clock::time_point flushed_{};
  std::unique_ptr<metrics::Console> console_;  // null with a descriptor
};

class ReportObserver : public engine::Observer {
 public:
  /// \param events and \param sink outlive it. \param hosts of all ranks, for people.
  ReportObserver(metrics::EventsFile& events, ReportSink& sink, std::vector<std::string> hosts)
      : events_(events), sink_(sink), hosts_(std::move(hosts)) {}
  [[nodiscard]] engine::Answer on_step(const engine::StepReport& report,
                                       const engine::TrainState& state) override;
  void on_eval(const engine::EvalReport& report) override;
  /// The rank that was named last as the one that the others wait for.
  [[nodiscard]] std::optional<int> straggler() const { return straggler_; }
  [[nodiscard]] const std::vector<std::string>& hosts() const { return hosts_; }

 private:
  void tell(const engine::Straggler& straggler, std::int64_t step);

  metrics::EventsFile& events_;
  ReportSink& sink_;
  std::vector<std::string> hosts_;
  engine::StragglerWatch watch_;
  std::optional<int> straggler_;
};

}  // namespace lockstep::worker
