#include "lockstep/metrics/summary_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "lockstep/base/units.h"
#include "lockstep/engine/values/memory_rows.h"
#include "lockstep/engine/values/phase_rows.h"
#include "lockstep/engine/values/straggler.h"
#include "lockstep/metrics/bars.h"
#include "lockstep/parallel/plan/plan_bars.h"

namespace lockstep::metrics {
namespace {

constexpr std::size_t kMostColumns = 78;
constexpr std::size_t kLabelColumns = 16;
constexpr std::size_t kNumberColumns = 13;

struct PhaseLook {
  Tone tone;
  const char* shade;
  char letter;
};
// In the order of kPhaseRows, then "other".
constexpr std::array<PhaseLook, 6> kLooks{{{Tone::data, "▞", 'd'},
                                           {Tone::forward, "░", 'f'},
                                           {Tone::backward, "▒", 'b'},
                                           {Tone::sync, "█", 's'},
                                           {Tone::optimizer, "▓", 'o'},
                                           {Tone::other, "·", '.'}}};

/// Collects the lines of the page.
class Page {
 public:
  Page(std::size_t width, const TextStyle& style) : width_(width), style_(style) {}

  void line(const std::string& text) { text_ += text.empty() ? "\n" : "  " + text + "\n"; }
  void fact(const char* label, const std::string& value) {
    line(style_.paint(Tone::faint, pad_right(label, kLabelColumns)) + value);
  }
  void rule(Tone tone, const std::string& title) {
    const std::size_t used = columns(title) + 4;
    const std::size_t rest = width_ > used ? width_ - used : 0;
    const std::string_view dash = style_.pick("─", "-");
    text_ += style_.paint(Tone::faint, repeat(dash, 2)) + " " + style_.paint(tone, title) + " " +
             style_.paint(Tone::faint, repeat(dash, rest)) + "\n";
  }
  [[nodiscard]] std::size_t inner() const { return width_ > 4 ? width_ - 4 : width_; }
  [[nodiscard]] const TextStyle& style() const { return style_; }
  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  std::size_t width_;
  TextStyle style_;
  std::string text_;
};

Tone tone_of(const std::string& status) {
  if (status == "done") return Tone::good;
  return status == "stopped" ? Tone::warning : Tone::bad;
}

std::string rate_text(const engine::RunSummary& summary) {
  return format_count(std::llround(summary.samples_or_tokens_per_s)) +
         (summary.counts_tokens ? " tokens/s" : " samples/s");
}

/// "1,876 steps", or of a resumed run "steps 606-1,876": the numbers beside it are of those alone.
std::string trained_steps(const engine::RunSummary& summary) {
  if (summary.first_step <= 1) return format_count(summary.steps) + " steps";
  return "steps " + format_count(summary.first_step) + "-" + format_count(summary.steps);
}

/// An evaluation of earlier parameters than the last ones says so.
std::string eval_step(const engine::RunSummary& summary) {
  if (!summary.eval || summary.eval->step == summary.steps) return "";
  return "at step " + format_count(summary.eval->step);
}

std::vector<BarPart> phase_parts(const engine::PhaseTimes& times) {
  std::vector<BarPart> parts;
  for (const engine::PhaseRow& row : engine::kPhaseRows) {
    const PhaseLook& look = kLooks.at(parts.size());
    parts.push_back({row.name, times.*row.seconds, look.tone, look.shade, look.letter});
  }
  const PhaseLook& other = kLooks.back();
  parts.push_back({"other", engine::other_s(times), other.tone, other.shade, other.letter});
  return parts;
}

void add_results(Page& page, const engine::RunSummary& summary) {
  if (summary.eval) {
    const engine::EvalReport& eval = *summary.eval;
    const std::string at = eval_step(summary);
    const std::string over =
        "   " +
        page.style().paint(Tone::faint, "over " + format_count(eval.weight) +
                                            (summary.counts_tokens ? " tokens" : " samples")) +
        (at.empty() ? "" : ", " + page.style().paint(Tone::warning, at));
    const bool has_bits = eval.bits_per_byte.has_value();
    const std::string value =
        has_bits ? format_fixed(*eval.bits_per_byte, 4) : format_percent(eval.accuracy, 2);
    page.fact(has_bits ? "bits per byte" : "accuracy",
              page.style().paint(Tone::strong, value) + over);
    page.fact("eval loss", loss_number(eval.loss));
  }
  if (summary.skipped_steps > 0) {
    page.fact("skipped", page.style().paint(Tone::warning, format_count(summary.skipped_steps)) +
                             " times no update: loss or gradient not finite");
  }
  if (summary.steps_this_run == 0) return page.fact("training", "no step in this run");
  page.fact("train loss", loss_number(summary.final_loss));
  page.fact("throughput", rate_text(summary));
  page.fact("training",
            format_duration(summary.train_s) + "   " +
                page.style().paint(Tone::faint, trained_steps(summary) + ", median " +
                                                    format_duration(summary.measured_step_s)));
  // Above 1 the machine was busier while its rate was measured than in training: nothing to
  // compare.
  if (summary.mfu > 0 && summary.mfu <= 1) {
    page.fact("compute used", format_percent(summary.mfu) + " of the measured matmul rate");
  }
  if (summary.gradient_check) {
    const engine::GradientCheckReport& check = *summary.gradient_check;
    page.fact("gradient check", page.style().paint(check.passed ? Tone::plain : Tone::warning,
                                                   "worst relative difference " +
                                                       format_number(check.worst_relative, 2)) +
                                    "   " + page.style().paint(Tone::faint, check.parameter));
  }
}

void add_time_split(Page& page, const engine::RunSummary& summary) {
  const std::vector<BarPart> parts = phase_parts(summary.mean_times);
  const std::string bar = stacked_bar(parts, page.inner(), page.style());
  if (bar.empty()) return;
  page.line("");
  page.line(page.style().paint(Tone::strong, "time of a step") + "   " +
            page.style().paint(Tone::faint, "mean " + format_duration(summary.mean_times.step_s)));
  page.line(bar);
  for (const std::string& line : legend(parts, page.inner(), page.style())) page.line(line);
}

// The share by which measurement missed the plan; faint when it kept within a tenth.
std::string difference(double planned, double measured, const TextStyle& style) {
  if (!(planned > 0) || !(measured >= 0)) return {};
  const double share = measured / planned - 1;
  const std::string sign = share < 0 ? "" : "+";
  const bool is_close = std::abs(share) <= 0.1;
  if (share > 9.99) return style.paint(Tone::warning, "> 10 x");
  return style.paint(is_close ? Tone::faint : Tone::warning, sign + format_percent(share, 0));
}

void add_row(Page& page, const std::string& label, const std::string& planned,
             const std::string& measured, const std::string& note) {
  page.line(pad_right(label, kLabelColumns) + pad_left(planned, kNumberColumns) +
            pad_left(measured, kNumberColumns) + (note.empty() ? "" : pad_left(note, 10)));
}

void add_byte_row(Page& page, const std::string& label, std::int64_t planned,
                  std::int64_t measured) {
  const std::string note =
      planned == measured && planned > 0
          ? page.style().paint(Tone::faint, "=")
          : difference(static_cast<double>(planned), static_cast<double>(measured), page.style());
  add_row(page, label, planned > 0 ? format_bytes(planned) : "-", format_bytes(measured), note);
}

std::string more_or_less(std::int64_t planned, std::int64_t measured) {
  return format_bytes(std::abs(measured - planned)) + (measured > planned ? " more" : " less");
}

/// The first step is not measured: it warms up, and ranks agree on an order.
bool has_measured_steps(const engine::RunSummary& summary) { return summary.steps_this_run >= 2; }

/// Few steps tell no time.
bool is_timed(const engine::RunSummary& summary) {
  constexpr std::int64_t kLeastSteps = 5;
  return summary.planned_step_s > 0 && summary.steps_this_run >= kLeastSteps;
}

/// Where the run and its plan are farther apart than their bars.
std::vector<std::string> misses(const engine::RunSummary& summary) {
  std::vector<std::string> found;
  for (const engine::MemoryRow& row : engine::kMemoryRows) {
    const std::int64_t planned = summary.planned.*row.bytes;
    const std::int64_t measured = summary.measured.*row.bytes;
    if (parallel::keeps_memory(planned, measured)) continue;
    found.push_back(std::string(row.category) + " " + more_or_less(planned, measured));
  }
  if (has_measured_steps(summary) && summary.planned_comm_bytes != summary.measured_comm_bytes) {
    found.push_back("sent a step " +
                    more_or_less(summary.planned_comm_bytes, summary.measured_comm_bytes));
  }
  const double planned_s = summary.planned_step_s;
  const double measured_s = summary.measured_step_s;
  if (is_timed(summary) && !parallel::keeps_time(planned_s, measured_s)) {
    const double share = std::abs(measured_s / planned_s - 1);
    found.push_back("a step " + format_percent(share, 0) +
                    (measured_s > planned_s ? " longer" : " shorter"));
  }
  return found;
}

void add_verdict(Page& page, const engine::RunSummary& summary) {
  if (summary.steps_this_run == 0 || summary.planned.total() == 0) return;
  const std::vector<std::string> missed = misses(summary);
  if (missed.empty()) {
    page.fact("plan kept", is_timed(summary)             ? "memory, bytes sent and time of a step"
                           : has_measured_steps(summary) ? "memory and bytes sent"
                                                         : "memory");
  }
  for (const std::string& miss : missed) {
    page.fact(&miss == missed.data() ? "plan missed" : "", page.style().paint(Tone::warning, miss));
  }
}

void add_step_rows(Page& page, const engine::RunSummary& summary) {
  const std::string planned =
      summary.planned_step_s > 0 ? format_duration(summary.planned_step_s) : "-";
  if (!has_measured_steps(summary)) {
    add_row(page, "time of a step", planned, "-", "");
    add_row(page, "sent a step", format_bytes(summary.planned_comm_bytes), "-", "");
    return;
  }
  add_row(page, "time of a step", planned, format_duration(summary.measured_step_s),
          difference(summary.planned_step_s, summary.measured_step_s, page.style()));
  add_byte_row(page, "sent a step", summary.planned_comm_bytes, summary.measured_comm_bytes);
}

void add_plan_against_measured(Page& page, const engine::RunSummary& summary) {
  page.line("");
  page.line(page.style().paint(Tone::strong, pad_right("peak memory", kLabelColumns)) +
            page.style().paint(Tone::faint, pad_left("planned", kNumberColumns) +
                                                pad_left("measured", kNumberColumns)));
  for (const engine::MemoryRow& row : engine::kMemoryRows) {
    add_byte_row(page, row.category, summary.planned.*row.bytes, summary.measured.*row.bytes);
  }
  add_byte_row(page, "total a rank", summary.planned.total(), summary.measured.total());
  page.line("");
  add_step_rows(page, summary);
  page.line("");
  add_verdict(page, summary);
}

/// The phases in which a slow rank and the others spent more than a hundredth of the step.
void add_straggler(Page& page, const engine::RunSummary& summary) {
  if (!summary.straggler) return;
  const auto rank = static_cast<std::size_t>(*summary.straggler);
  const engine::Straggler slow = engine::compare_rank(summary.per_rank, *summary.straggler);
  std::string host;
  if (rank < summary.hosts.size()) {
    host = "   on host " + printable(summary.hosts[rank], page.style().utf8);
  }
  const std::size_t used = kLabelColumns + 2 * kNumberColumns + 2;
  if (used + columns(host) > page.inner()) host.clear();
  const bool is_pair = summary.per_rank.size() == 2;
  page.line("");
  page.line(
      page.style().paint(Tone::strong, pad_right("slowest rank", kLabelColumns)) +
      page.style().paint(
          Tone::faint, pad_left("rank " + std::to_string(rank), kNumberColumns) +
                           pad_left(is_pair ? "rank " + std::to_string(1 - rank) : "others' median",
                                    kNumberColumns + 2) +
                           host));
  for (const engine::PhaseRow& row : engine::kPhaseRows) {
    const double own_s = slow.times.*row.seconds;
    const double others_s = slow.others.*row.seconds;
    if (std::max(own_s, others_s) < slow.times.step_s / 100) continue;
    const bool is_wait = row.seconds == &engine::PhaseTimes::sync_s;
    page.line(pad_right(is_wait ? "waits" : row.name, kLabelColumns) +
              pad_left(format_duration(own_s), kNumberColumns) +
              pad_left(format_duration(others_s), kNumberColumns + 2) +
              (is_wait ? "" : pad_left(difference(others_s, own_s, page.style()), 10)));
  }
}

}  // namespace

std::string loss_number(double loss) {
  constexpr double kTooLargeForDecimals = 1e5;
  return std::abs(loss) < kTooLargeForDecimals ? format_fixed(loss, 4) : format_number(loss, 3);
}

std::string eval_result(const engine::EvalReport& eval) {
  const std::string result = eval.bits_per_byte
                                 ? format_fixed(*eval.bits_per_byte, 4) + " bits per byte"
                                 : "accuracy " + format_percent(eval.accuracy, 2);
  return result + ", loss " + loss_number(eval.loss);
}

std::string summary_text(const engine::RunSummary& summary, std::size_t width,
                         const TextStyle& style) {
  Page page(std::min(width, kMostColumns), style);
  page.rule(tone_of(summary.status), printable(summary.status, style.utf8) + " after " +
                                         format_count(summary.steps) + " steps");
  add_results(page, summary);
  add_time_split(page, summary);
  add_straggler(page, summary);
  add_plan_against_measured(page, summary);
  page.fact("run directory", printable(summary.run_dir, style.utf8));
  if (!summary.state_sha256.empty()) {
    page.fact("state sha256", printable(summary.state_sha256.substr(0, 16), style.utf8));
  }
  return page.take();
}

std::string summary_line(const engine::RunSummary& summary, const TextStyle& style) {
  std::string line =
      printable(summary.status, style.utf8) + ": " + format_count(summary.steps) + " steps";
  const bool has_trained = summary.steps_this_run > 0;
  if (!has_trained) line += " (none in this run)";
  if (has_trained && summary.first_step > 1)
    line += " (" + trained_steps(summary) + " in this run)";
  if (summary.eval) line += ", " + eval_result(*summary.eval);
  if (const std::string at = eval_step(summary); !at.empty()) line += " (" + at + ")";
  if (has_trained) line += ", " + rate_text(summary) + ", " + format_duration(summary.train_s);
  return line + ", " + printable(summary.run_dir, style.utf8);
}

}  // namespace lockstep::metrics
