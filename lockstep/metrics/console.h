// A training run as a person watches it: the plan, one living line, evaluations, and the summary.
#pragma once
#include <iosfwd>
#include <optional>
#include <string>

#include "lockstep/base/clock.h"
#include "lockstep/engine/values/run_summary.h"
#include "lockstep/engine/values/step_report.h"
#include "lockstep/metrics/progress.h"
#include "lockstep/metrics/report_line.h"
#include "lockstep/metrics/text_style.h"
#include "lockstep/parallel/plan/parallel_plan.h"

namespace lockstep::metrics {

struct ConsoleOptions {
  bool terminal = false;  // redraw one line in place; otherwise plain lines now and then
  TextStyle style;
  std::size_t width = 80;     // columns of the terminal
  bool quiet = false;         // only the summary, in one line
  Clock clock = monotonic_s;  // limits redrawing
};

/// Draws on `out`, which must outlive it. Each call writes at most once, so that nothing flickers.
class Console {
 public:
  Console(std::ostream& out, ConsoleOptions options);
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;
  ~Console();  // ends a line that is still being redrawn

  void show_plan(const parallel::ParallelPlan& plan, const std::string& title);
  /// On a terminal at most ten redraws a second. Otherwise a line for the first and the last step,
  /// and about every 5 % of the steps or 10 s of training (rarer in a long run: a thirtieth of the
  /// time so far, at most a minute).
  void on_step(const engine::StepReport& report);
  void on_eval(const engine::EvalReport& report);
  void note(const std::string& text);
  void show_summary(const engine::RunSummary& summary);
  void show(const ReportLine& line);
  /// What is printed next by others begins a line of its own.
  void end_line();

  void resize(std::size_t width) { options_.width = width; }

 private:
  void print(const std::string& lines);
  void show_check(const engine::StepReport& report);
  void draw();
  [[nodiscard]] bool is_due(const engine::StepReport& report) const;
  [[nodiscard]] bool is_best(const engine::EvalReport& report);

  std::ostream& out_;
  ConsoleOptions options_;
  Progress progress_;
  std::optional<engine::StepReport> last_;
  bool has_said_skipped_ = false;
  bool is_live_ = false;     // the cursor stands behind a line that may be redrawn
  double last_draw_s_ = -1;  // of options_.clock
  std::int64_t printed_step_ = 0;
  double printed_at_s_ = 0;  // of training time
  std::optional<double> best_score_;
};

}  // namespace lockstep::metrics
