#include "lockstep/cli/comm_text.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "lockstep/base/units.h"
#include "lockstep/comm/bench/regime.h"
#include "lockstep/metrics/canvas.h"

namespace lockstep::cli {
namespace {

using bench::Row;
using metrics::Canvas;
using metrics::pad_left;
using metrics::pad_right;
using metrics::TextStyle;
using metrics::Tone;

constexpr std::size_t kMostPlotColumns = 60;
constexpr std::size_t kPlotRows = 10;
constexpr std::size_t kAxisColumns = 7;

/// Three digits of a rate or a ratio, without an exponent.
std::string three(double value) { return value < 0.001 ? "< 0.001" : format_number(value, 3); }

std::string time_text(double us) { return us > 0 ? format_duration(us / 1e6) : "-"; }

std::string title(const Row& row) {
  std::string text = std::string(bench::name_of(row.op)) + " fp32, " + std::to_string(row.ranks) +
                     (row.ranks == 1 ? " rank, " : " ranks, ") + row.backend +
                     (row.symmetric ? " in symmetric memory" : "");
  return row.against.empty() ? text : text + " against " + row.against;
}

/// One line of the table, cells in order; those of the other side are left out without one.
class Line {
 public:
  explicit Line(bool has_theirs) : has_theirs_(has_theirs) {}
  Line& cell(const std::string& text, std::size_t width) {
    text_ += pad_left(text, width);
    return *this;
  }
  Line& theirs(const std::string& text, std::size_t width) {
    return has_theirs_ ? cell(text, width) : *this;
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  bool has_theirs_;
  std::string text_;
};

std::string head(const Row& row) {
  return Line(!row.against.empty())
      .cell("bytes", 9)
      .cell("min", 10)
      .cell("median", 10)
      .cell("max", 10)
      .theirs(row.against + " median", 13)
      .theirs("ratio", 8)
      .cell("GB/s", 9)
      .cell("bus GB/s", 10)
      .text();
}

std::string line_of(const Row& row) {
  return Line(!row.against.empty())
      .cell(row.bytes > 0 ? size_text(row.bytes) : "-", 9)
      .cell(time_text(row.time_us.min), 10)
      .cell(time_text(row.time_us.median), 10)
      .cell(time_text(row.time_us.max), 10)
      .theirs(time_text(row.against_time_us.median), 13)
      .theirs(row.ratio > 0 ? three(row.ratio) : "-", 8)
      .cell(row.bytes > 0 ? three(row.algbw_gbs) : "-", 9)
      .cell(row.bytes > 0 ? three(row.busbw_gbs) : "-", 10)
      .text();
}

/// The other side's bus bandwidth; 0 without one.
double theirs_gbs(const Row& row) {
  if (!(row.against_time_us.median > 0)) return 0;
  return row.busbw_gbs * row.time_us.median / row.against_time_us.median;
}

/// Bytes by powers of two, bandwidth from 0.
class PlotAxis {
 public:
  explicit PlotAxis(const std::vector<Row>& rows)
      : from_(std::log2(rows.front().bytes)), to_(std::log2(rows.back().bytes)) {
    for (const Row& row : rows) most_gbs_ = std::max({most_gbs_, row.busbw_gbs, theirs_gbs(row)});
  }
  [[nodiscard]] double x(std::int64_t bytes) const {
    return (std::log2(bytes) - from_) / (to_ - from_);
  }
  [[nodiscard]] double y(double gbs) const { return gbs / most_gbs_; }
  [[nodiscard]] double most_gbs() const { return most_gbs_; }

 private:
  double from_;
  double to_;
  double most_gbs_ = 0;
};

struct Curve {
  Tone tone;
  char ascii;
  std::string_view mark;
  std::string_view ascii_mark;
  double (*gbs)(const Row& row);
};

constexpr auto kTheirs = Curve{Tone::faint, ':', "○", "o", theirs_gbs};
constexpr auto kOurs =
    Curve{Tone::accent, '*', "●", "@", [](const Row& row) { return row.busbw_gbs; }};

void draw(Canvas& canvas, const PlotAxis& axis, const std::vector<Row>& rows, const Curve& curve,
          const TextStyle& style) {
  for (std::size_t i = 1; i < rows.size(); ++i) {
    canvas.line(axis.x(rows[i - 1].bytes), axis.y(curve.gbs(rows[i - 1])), axis.x(rows[i].bytes),
                axis.y(curve.gbs(rows[i])), curve.tone, curve.ascii);
  }
  for (const Row& row : rows) {
    canvas.mark(axis.x(row.bytes), axis.y(curve.gbs(row)),
                std::string(style.pick(curve.mark, curve.ascii_mark)), curve.tone);
  }
}

/// Sizes below their points; one that would touch its neighbour is left out.
std::string size_labels(const PlotAxis& axis, const Canvas& canvas, const std::vector<Row>& rows) {
  std::string labels;
  for (const Row& row : rows) {
    const std::size_t at = canvas.column_of(axis.x(row.bytes));
    if (!labels.empty() && at <= labels.size()) continue;
    labels = pad_right(labels, at) + size_text(row.bytes);
  }
  return labels;
}

std::string axis_label(std::size_t row, double most_gbs) {
  if (row == 0) return three(most_gbs);
  if (row + 1 == kPlotRows) return "0";
  return "";
}

std::string key_of(const Curve& curve, const std::string& name, const TextStyle& style) {
  return style.paint(curve.tone, style.pick(curve.mark, curve.ascii_mark)) + " " + name + "   ";
}

}  // namespace

std::string size_text(std::int64_t bytes) {
  static constexpr std::array<const char*, 5> kUnits{" B", " KiB", " MiB", " GiB", " TiB"};
  auto amount = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (amount >= 1024 && unit + 1 < kUnits.size()) {
    amount /= 1024;
    ++unit;
  }
  const bool is_whole = amount == std::floor(amount);
  return (is_whole ? format_fixed(amount, 0) : format_number(amount, 4)) + kUnits.at(unit);
}

std::string regime_text(double probe_us) {
  if (std::isnan(probe_us)) return "one core only";
  return std::string(bench::regime_of(probe_us)) + ": a core hands 256 KiB to another in " +
         format_duration(probe_us / 1e6);
}

std::string comm_table(const std::vector<Row>& rows, const TextStyle& style) {
  const Row& first = rows.front();
  std::string text = style.paint(Tone::strong, title(first)) + "\n";
  text += style.paint(Tone::faint, head(first)) + "\n";
  for (const Row& row : rows) text += line_of(row) + "\n";
  text += style.paint(Tone::faint, "  regime:");
  for (const bench::RoundRow& round : first.rounds) text += " " + round.regime;
  if (first.crowded) {
    text += style.paint(Tone::warning, "   crowded") + ": more ranks than cores, they take turns";
  }
  return text + "\n";
}

std::string comm_plot(const std::vector<Row>& rows, std::size_t width, const TextStyle& style) {
  if (rows.size() < 2) return "";
  const PlotAxis axis(rows);
  if (!(axis.most_gbs() > 0)) return "";
  const std::size_t across = std::clamp<std::size_t>(
      width > kAxisColumns + 4 ? width - kAxisColumns - 4 : 0, 16, kMostPlotColumns);
  Canvas canvas(across, kPlotRows, style);
  const bool has_theirs = !rows.front().against.empty();
  if (has_theirs) draw(canvas, axis, rows, kTheirs, style);
  draw(canvas, axis, rows, kOurs, style);
  std::string text = style.paint(Tone::faint, " bus GB/s") + "\n";
  const std::vector<std::string> lines = canvas.draw();
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string label = axis_label(i, axis.most_gbs());
    const std::string_view border = label.empty() ? style.pick("│", "|") : style.pick("┤", "+");
    text += style.paint(Tone::faint, pad_left(label, kAxisColumns - 1) + std::string(border)) +
            lines[i] + "\n";
  }
  const std::string indent(kAxisColumns, ' ');
  text += style.paint(Tone::faint, indent + size_labels(axis, canvas, rows)) + "\n";
  text += indent + key_of(kOurs, rows.front().backend, style);
  if (has_theirs) text += key_of(kTheirs, rows.front().against, style);
  return text + "\n";
}

}  // namespace lockstep::cli
