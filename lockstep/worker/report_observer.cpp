#include "lockstep/worker/report_observer.h"

#include <unistd.h>

#include <cerrno>
#include <iostream>
#include <string_view>

#include "lockstep/base/terminal.h"
#include "lockstep/engine/values/report_json.h"
#include "lockstep/metrics/findings_text.h"

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

void ReportSink::send(const engine::StepReport& report, const std::string& json) {
  if (console_) {
    console_->on_step(report);
  } else {
    write_line(report_fd_, json);
  }
}

void ReportSink::show_plan(const parallel::ParallelPlan& plan, const std::string& title) {
  if (console_) console_->show_plan(plan, title);
}

engine::Answer ReportObserver::on_step(const engine::StepReport& report,
                                       const engine::TrainState& /*state*/) {
  const std::string json = engine::to_json_text(report);
  events_.append(json);
  sink_.send(report, json);
  if (const auto found = watch_.add(report.per_rank)) tell(*found, report.step);
  return engine::Answer::go_on;
}

void ReportObserver::tell(const engine::Straggler& straggler, std::int64_t step) {
  straggler_ = straggler.rank;
  const auto rank = static_cast<std::size_t>(straggler.rank);
  const std::string host = rank < hosts_.size() ? hosts_[rank] : "";
  nlohmann::ordered_json json{{"step", step}, {"host", host}};
  json.update(engine::to_json(straggler));
  events_.append(to_line({{"straggler", json}}));
  sink_.send(metrics::Note{metrics::straggler_text(straggler, hosts_.size(), host)});
}

void ReportObserver::on_eval(const engine::EvalReport& report) {
  events_.append(engine::to_json_text(report));
  sink_.send(report);
}

}  // namespace lockstep::worker
