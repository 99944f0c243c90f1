#include "lockstep/metrics/console.h"

#include <algorithm>
#include <cmath>
#include <ostream>
#include <utility>

#include "lockstep/base/units.h"
#include "lockstep/metrics/findings_text.h"
#include "lockstep/metrics/live_line.h"
#include "lockstep/metrics/plan_text.h"
#include "lockstep/metrics/summary_text.h"

namespace lockstep::metrics {
namespace {

constexpr double kRedrawInterval_s = 0.1;
constexpr double kShareBetweenLines = 0.05;
constexpr const char* kToLineStart = "\r";
constexpr const char* kEraseToLineEnd = "\x1b[K";

std::string skip_text(const engine::StepReport& report) {
  if (!report.loss_scale) return "the loss or a gradient is not finite, no update was made";
  std::string text =
      "no update was made: fp16 overflowed at loss scale " + format_shortest(*report.loss_scale);
  if (!report.not_finite) return text;
  const auto& [rank, where] = *report.not_finite;
  const bool is_on_a_rank = rank != parallel::NotFinite::kNoRank;
  return text + " (" + (is_on_a_rank ? "rank " + std::to_string(rank) + ", " : "") + where + ")";
}

}  // namespace

Console::Console(std::ostream& out, ConsoleOptions options)
    : out_(out), options_(std::move(options)) {}

Console::~Console() { end_line(); }

void Console::end_line() {
  if (std::exchange(is_live_, false)) out_ << "\n" << std::flush;
}

// Lines stand above the living one: it is overwritten by the text and drawn again below it.
void Console::print(const std::string& lines) {
  if (options_.quiet) return;
  std::string text;
  if (is_live_) text += std::string(kToLineStart) + kEraseToLineEnd;
  text += lines;
  if (is_live_ && last_) text += live_line(*last_, progress_, options_.width, options_.style);
  out_ << text << std::flush;
}

void Console::draw() {
  out_ << kToLineStart + live_line(*last_, progress_, options_.width, options_.style) +
              kEraseToLineEnd
       << std::flush;
  is_live_ = true;
  last_draw_s_ = options_.clock();
}

bool Console::is_due(const engine::StepReport& report) const {
  if (printed_step_ == 0 || report.step >= report.total_steps) return true;
  const double trained_s = progress_.trained_s();
  const double interval_s = std::clamp(trained_s / 30, 10.0, 60.0);
  const double steps = static_cast<double>(report.step - printed_step_);
  return steps >= kShareBetweenLines * static_cast<double>(report.total_steps) ||
         trained_s - printed_at_s_ >= interval_s;
}

void Console::show_plan(const parallel::ParallelPlan& plan, const std::string& title) {
  print(plan_text(plan, title, options_.width, options_.style));
}

void Console::on_step(const engine::StepReport& report) {
  progress_.add(report);
  last_ = report;
  if (options_.quiet) return;
  // Once: a run that diverges would fill the screen. The summary counts them.
  if (report.skipped && !std::exchange(has_said_skipped_, true)) {
    note("step " + format_count(report.step) + ": " + skip_text(report));
  }
  if (report.gradient_check) show_check(report);
  if (report.parameter_use)
    note("step " + format_count(report.step) + ": " + parallel::to_text(*report.parameter_use));
  if (!report.warning.empty()) note("step " + format_count(report.step) + ": " + report.warning);
  if (options_.terminal) {
    const bool is_early = last_draw_s_ >= 0 && options_.clock() - last_draw_s_ < kRedrawInterval_s;
    if (!is_early || report.step >= report.total_steps) draw();
    return;
  }
  if (report.skipped || !is_due(report)) return;
  printed_step_ = report.step;
  printed_at_s_ = progress_.trained_s();
  print(plain_line(report, progress_, options_.style) + "\n");
}

void Console::show_check(const engine::StepReport& report) {
  const engine::GradientCheckReport& check = *report.gradient_check;
  const std::string text = "gradients at step " + format_count(report.step) + ": " +
                           printable(gradient_check_text(check), options_.style.utf8);
  if (!check.passed) return note(text);
  const TextStyle& style = options_.style;
  print(text + style.paint(Tone::faint, "  (" + format_duration(check.check_s) + ")") + "\n");
}

bool Console::is_best(const engine::EvalReport& report) {
  const double score = report.bits_per_byte ? -*report.bits_per_byte : report.accuracy;
  const bool is_first = !best_score_;
  if (!std::isfinite(score) || (best_score_ && score <= *best_score_)) return false;
  best_score_ = score;
  return !is_first;
}

void Console::on_eval(const engine::EvalReport& report) {
  const TextStyle& style = options_.style;
  std::string line = style.paint(Tone::strong, "eval") + " at step " + format_count(report.step) +
                     ": " + style.paint(Tone::strong, eval_result(report));
  if (is_best(report)) line += "  " + style.paint(Tone::good, "best so far");
  line += style.paint(Tone::faint, "  (" + format_duration(report.eval_s) + ")");
  print(line + "\n");
}

void Console::note(const std::string& text) {
  const TextStyle& style = options_.style;
  print(style.paint(Tone::warning, style.pick("▪", "*")) + " " + printable(text, style.utf8) +
        "\n");
}

void Console::show_summary(const engine::RunSummary& summary) {
  if (options_.quiet) {
    out_ << summary_line(summary, options_.style) + "\n" << std::flush;
    return;
  }
  const std::string gap = is_live_ ? "\n\n" : "\n";
  is_live_ = false;
  out_ << gap + summary_text(summary, options_.width, options_.style) << std::flush;
}

void Console::show(const ReportLine& line) {
  if (const auto* step = std::get_if<engine::StepReport>(&line)) on_step(*step);
  if (const auto* eval = std::get_if<engine::EvalReport>(&line)) on_eval(*eval);
  if (const auto* text = std::get_if<Note>(&line)) note(text->text);
  if (const auto* summary = std::get_if<engine::RunSummary>(&line)) show_summary(*summary);
}

}  // namespace lockstep::metrics
