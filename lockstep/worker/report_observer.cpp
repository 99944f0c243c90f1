#include "lockstep/worker/report_observer.h"

#include <unistd.h>

#include <cerrno>
#include <iostream>
#include <string_view>

#include "lockstep/base/terminal.h"

namespace lockstep::worker {
namespace {

/// Best effort: a front that is gone must not stop training.
void write_line(int fd, std::string line) {
  line += '\n';
  std::string_view left = line;
  while (!left.empty()) {
    const ssize_t n = ::write(fd, left.data(), left.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    left.remove_prefix(static_cast<std::size_t>(n));
  }
}

}  // namespace

ReportSink::ReportSink(int report_fd, bool quiet, bool color) : report_fd_(report_fd) {
  if (report_fd >= 0) return;
  metrics::ConsoleOptions options;
  options.terminal = ::isatty(STDOUT_FILENO) == 1;
  options.style.color = color && options.terminal;
  options.width = terminal_columns(STDOUT_FILENO);
  options.quiet = quiet;
  console_ = std::make_unique<metrics::Console>(std::cout, options);
}

void ReportSink::send(const metrics::ReportLine& line) {
  if (console_) {
    console_->show(line);
  } else {
    write_line(report_fd_, metrics::to_json_text(line));
  }
}

void ReportSink::show_plan(const parallel::ParallelPlan& plan, const std::string& title) {
  if (console_) console_->show_plan(plan, title);
}

engine::Answer ReportObserver::on_step(const engine::StepReport& report,
                                       const engine::TrainState& /*state*/) {
  events_.append(engine::to_json_text(report));
  sink_.send(report);
  return engine::Answer::go_on;
}

void ReportObserver::on_eval(const engine::EvalReport& report) {
  events_.append(engine::to_json_text(report));
  sink_.send(report);
}

}  // namespace lockstep::worker
