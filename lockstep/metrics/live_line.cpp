#include "lockstep/metrics/live_line.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <vector>

#include "lockstep/base/units.h"
#include "lockstep/metrics/bars.h"
#include "lockstep/metrics/summary_text.h"

namespace lockstep::metrics {
namespace {

constexpr std::size_t kLeastBar = 10;
constexpr std::size_t kMostBar = 32;
constexpr std::size_t kWideTerminal = 110;

/// A piece of the line. Lower `rank` = needed more.
struct Segment {
  std::string text;
  int rank = 0;
  bool shown = true;
};

double fraction_done(const engine::StepReport& report) {
  if (report.total_steps <= 0) return 0;
  return static_cast<double>(report.step) / static_cast<double>(report.total_steps);
}

// 1:12, 1:05:09: short, and steady in width while it counts down.
std::string countdown(double seconds) {
  if (!(seconds >= 0) || seconds > 1e8) return "?";
  const long long s = std::llround(seconds);
  std::array<char, 32> text{};
  if (s < 3600) {
    std::snprintf(text.data(), text.size(), "%lld:%02lld", s / 60, s % 60);
  } else {
    std::snprintf(text.data(), text.size(), "%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
  }
  return text.data();
}

std::string percent(const engine::StepReport& report) {
  return pad_left(format_fixed(std::floor(100 * fraction_done(report)), 0), 3) + "%";
}

std::string step_of(const engine::StepReport& report) {
  const std::string total = std::to_string(report.total_steps);
  return pad_left(std::to_string(report.step), total.size()) + "/" + total;
}

std::string rate_text(const Progress& progress) {
  return format_short(progress.rate_per_s()) +
         (progress.counts_tokens() ? " tokens/s" : " samples/s");
}

std::string loss_text(const engine::StepReport& report, const TextStyle& style) {
  const Tone tone = std::isfinite(report.loss) ? Tone::strong : Tone::bad;
  return style.paint(Tone::faint, "loss ") + style.paint(tone, loss_number(report.loss));
}

std::string lr_text(double lr) { return format_number(lr, 3); }

std::size_t length(const std::vector<Segment>& segments) {
  std::size_t sum = 0;
  for (const Segment& segment : segments) {
    if (segment.shown) sum += columns(segment.text);
  }
  return sum;
}

/// Hides the least needed segments until the rest fits.
void fit(std::vector<Segment>& segments, std::size_t width) {
  while (length(segments) > width) {
    Segment* last = nullptr;
    for (Segment& segment : segments) {
      if (segment.shown && (last == nullptr || segment.rank > last->rank)) last = &segment;
    }
    if (last == nullptr || last->rank == 0) return;
    last->shown = false;
  }
}

}  // namespace

std::string live_line(const engine::StepReport& report, const Progress& progress, std::size_t width,
                      const TextStyle& style) {
  const auto faint = [&](const char* label, const std::string& value) {
    return "  " + style.paint(Tone::faint, label) + value;
  };
  const auto curve = progress.loss_curve(width >= kWideTerminal ? 16 : 6);
  std::vector<Segment> segments{
      {" " + step_of(report), 1},
      {faint("epoch ", format_fixed(report.epoch, 2)), 6},
      {"  " + loss_text(report, style), 2},
      {" " + style.paint(Tone::accent, sparkline(curve, style)), 5},
      {faint("lr ", lr_text(report.lr)), 7},
      {"  " + rate_text(progress), 4},
      {faint("ETA ", countdown(progress.seconds_left())), 3},
  };
  const std::string start = percent(report);
  const std::size_t usable = width > 1 ? width - 1 : 0;  // the last column would wrap
  if (usable < columns(start)) return {};
  const std::size_t bar_least = columns(start) + 1 + kLeastBar;
  fit(segments, usable > bar_least ? usable - bar_least : 0);
  const std::size_t used = columns(start) + 1 + length(segments);
  std::string line = start;
  if (used + kLeastBar <= usable) {
    const std::size_t bar = std::min(kMostBar, usable - used);
    line += " " + progress_bar(fraction_done(report), bar, style);
  }
  for (const Segment& segment : segments) {
    if (segment.shown) line += segment.text;
  }
  return line;
}

std::string plain_line(const engine::StepReport& report, const Progress& progress,
                       const TextStyle& style) {
  return "step " + step_of(report) + " " + percent(report) + "  epoch " +
         format_fixed(report.epoch, 2) + "  " + loss_text(report, style) + "  lr " +
         lr_text(report.lr) + "  " + rate_text(progress) + "  ETA " +
         countdown(progress.seconds_left());
}

}  // namespace lockstep::metrics
