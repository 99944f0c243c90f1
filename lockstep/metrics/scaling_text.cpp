#include <algorithm>
#include <cmath>

#include "lockstep/base/units.h"
#include "lockstep/metrics/canvas.h"
#include "lockstep/metrics/findings_text.h"
#include "lockstep/metrics/scaling.h"
#include "lockstep/metrics/scaling_axis.h"

namespace lockstep::metrics {
namespace {

constexpr std::size_t kMostPlotColumns = 60;
constexpr std::size_t kPlotRows = 14;
constexpr std::size_t kAxisColumns = 6;

std::string table(const std::vector<ScalingRow>& rows, const TextStyle& style) {
  const bool counts_tokens = rows.front().tokens_per_s > 0;
  const auto line = [](const std::string& ranks, const std::string& rate, const std::string& step,
                       const std::string& speedup, const std::string& efficiency) {
    return pad_left(ranks, 6) + pad_left(rate, 14) + pad_left(step, 12) + pad_left(speedup, 10) +
           pad_left(efficiency, 12) + "   ";
  };
  std::string text =
      style.paint(Tone::faint, line("ranks", counts_tokens ? "tokens/s" : "samples/s", "step",
                                    "speedup", "efficiency") +
                                   "dominating phase") +
      "\n";
  for (const ScalingRow& row : rows) {
    const double rate = counts_tokens ? row.tokens_per_s : row.samples_per_s;
    text += line(std::to_string(row.ranks), format_count(std::llround(rate)),
                 format_duration(row.times.step_s), format_fixed(row.speedup, 2),
                 format_percent(row.efficiency, 0)) +
            row.dominating_phase;
    if (row.oversubscribed) text += style.paint(Tone::warning, " *");
    text += "\n";
  }
  if (rows.back().oversubscribed) {
    text += style.paint(Tone::warning, "     *") + " more ranks than cores: they take turns\n";
  }
  for (const ScalingRow& row : rows) {
    if (!row.slowest || !row.slowest->is_straggler()) continue;
    text += "  of " + std::to_string(row.ranks) + ": " +
            straggler_text(*row.slowest, static_cast<std::size_t>(row.ranks), "") + "\n";
  }
  return text;
}

Canvas plot(const ScalingAxis& axis, const std::vector<ScalingRow>& rows, std::size_t width,
            const TextStyle& style) {
  Canvas canvas(width, kPlotRows, style);
  const double first = rows.front().ranks;
  const double last = rows.back().ranks;
  canvas.line(axis.x(first), axis.y(first), axis.x(last), axis.y(last), Tone::faint, ':', 2);
  for (std::size_t i = 1; i < rows.size(); ++i) {
    canvas.line(axis.x(rows[i - 1].ranks), axis.y(rows[i - 1].speedup), axis.x(rows[i].ranks),
                axis.y(rows[i].speedup), Tone::accent, '*');
  }
  for (const ScalingRow& row : rows) {
    const std::string_view mark = row.oversubscribed ? style.pick("○", "o") : style.pick("●", "@");
    canvas.mark(axis.x(row.ranks), axis.y(row.speedup), std::string(mark), Tone::accent);
  }
  return canvas;
}

// Tick labels by the row of the plot they stand at; "" = none.
std::vector<std::string> row_labels(const ScalingAxis& axis, const Canvas& canvas) {
  std::vector<std::string> labels(kPlotRows);
  for (const double tick : axis.y_ticks(4)) {
    labels.at(canvas.row_of(axis.y(tick))) = tick_text(tick);
  }
  return labels;
}

// Rank counts below their points; one that would touch its neighbour is left out.
std::string rank_labels(const ScalingAxis& axis, const Canvas& canvas,
                        const std::vector<ScalingRow>& rows) {
  std::string labels;
  for (const ScalingRow& row : rows) {
    const std::size_t at = canvas.column_of(axis.x(row.ranks));
    if (!labels.empty() && at <= labels.size()) continue;
    labels = pad_right(labels, at) + std::to_string(row.ranks);
  }
  return labels;
}

}  // namespace

std::string scaling_text(const std::vector<ScalingRow>& rows, std::size_t width,
                         const TextStyle& style) {
  const ScalingAxis axis(rows);
  const std::size_t across = std::clamp<std::size_t>(
      width > kAxisColumns + 4 ? width - kAxisColumns - 4 : 0, 16, kMostPlotColumns);
  const Canvas canvas = plot(axis, rows, across, style);
  const std::vector<std::string> lines = canvas.draw();
  const std::vector<std::string> ticks = row_labels(axis, canvas);
  std::string text = table(rows, style) + "\n" + style.paint(Tone::faint, " speedup") + "\n";
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string_view border = ticks[i].empty() ? style.pick("│", "|") : style.pick("┤", "+");
    text += style.paint(Tone::faint, pad_left(ticks[i], kAxisColumns - 1) + std::string(border)) +
            lines[i] + "\n";
  }
  text += style.paint(Tone::faint, std::string(kAxisColumns - 1, ' ') +
                                       std::string(style.pick("└", "+")) +
                                       repeat(style.pick("─", "-"), across)) +
          "\n";
  text +=
      style.paint(Tone::faint, std::string(kAxisColumns, ' ') +
                                   pad_right(rank_labels(axis, canvas, rows), across) + " ranks") +
      "\n";
  text += std::string(kAxisColumns, ' ') + style.paint(Tone::accent, style.pick("━━", "**")) +
          " measured   " + style.paint(Tone::faint, style.pick("┄┄", "::")) + " ideal\n";
  return text;
}

}  // namespace lockstep::metrics
