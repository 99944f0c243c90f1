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

// Each write wakes the front, which takes its time from the ranks.
constexpr std::chrono::milliseconds kFlushEvery{25};

/// Best effort: a front that is gone must not stop training.
void write_all(int fd, std::string_view left) {
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
    pending_ += metrics::to_json_text(line) + '\n';
    flush();
  }
}

void ReportSink::send(const engine::StepReport& report, const std::string& json) {
  if (console_) {
    console_->on_step(report);
  } else {
    pending_ += json;
    pending_ += '\n';
    const auto now = std::chrono::steady_clock::now();
    if (now - flushed_ < kFlushEvery && report.step < report.total_steps) return;
    flushed_ = now;
    flush();
  }
}

void ReportSink::flush() {
  if (!pending_.empty()) write_all(report_fd_, pending_);
  pending_.clear();
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
