#include <cmath>

#include "lockstep/base/units.h"
#include "lockstep/metrics/scaling.h"
#include "lockstep/metrics/scaling_axis.h"

namespace lockstep::metrics {
namespace {

constexpr double kWidth = 640;
constexpr double kHeight = 420;
constexpr double kLeft = 64;
constexpr double kRight = 104;  // room for the last label
constexpr double kTop = 56;
constexpr double kBottom = 56;

// Colours by class, so that a page in dark mode gets its own.
constexpr const char* kHead =
    R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 420" width="640" height="420" role="img" font-family="system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif">
<style>
.label { stroke: #ffffff; stroke-width: 4; paint-order: stroke }
.page { fill: #ffffff } .text { fill: #24292f } .faint { fill: #57606a }
.grid { stroke: #d0d7de; stroke-width: 1 }
.ideal { stroke: #8c959f; stroke-width: 2; stroke-dasharray: 6 5; fill: none }
.line { stroke: #0969da; stroke-width: 3; fill: none; stroke-linejoin: round }
.point { fill: #0969da; stroke: #0969da; stroke-width: 2.5 } .over { fill: #ffffff }
@media (prefers-color-scheme: dark) {
.label { stroke: #0d1117 }
.page { fill: #0d1117 } .text { fill: #e6edf3 } .faint { fill: #8b949e }
.grid { stroke: #30363d } .ideal { stroke: #6e7681 }
.line { stroke: #4493f8 } .point { fill: #4493f8; stroke: #4493f8 } .over { fill: #0d1117 }
}
</style>
<rect class="page" width="640" height="420" rx="8"/>
)";

std::string number(double value) { return format_fixed(value, 1); }

std::string escaped(const std::string& text) {
  std::string safe;
  for (const char c : printable(text, true)) {
    switch (c) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '"':
        safe += "&quot;";
        break;
      default:
        safe += c;
    }
  }
  return safe;
}

std::string text_at(double x, double y, const char* attributes, const std::string& text) {
  return "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" " + attributes + ">" +
         escaped(text) + "</text>\n";
}

/// Places in the drawing for ranks and speedups.
struct Frame {
  ScalingAxis axis;
  [[nodiscard]] double x(double ranks) const {
    return kLeft + axis.x(ranks) * (kWidth - kLeft - kRight);
  }
  [[nodiscard]] double y(double speedup) const {
    return kHeight - kBottom - axis.y(speedup) * (kHeight - kTop - kBottom);
  }
};

std::string grid(const Frame& frame, const std::vector<ScalingRow>& rows) {
  std::string svg;
  for (const double tick : frame.axis.y_ticks(5)) {
    const std::string y = number(frame.y(tick));
    svg += "<path class=\"grid\" d=\"M" + number(kLeft) + " " + y + "H" + number(kWidth - kRight) +
           "\"/>\n";
    svg += text_at(kLeft - 10, frame.y(tick) + 4,
                   R"(class="faint" font-size="12" text-anchor="end")", tick_text(tick));
  }
  for (const ScalingRow& row : rows) {
    svg +=
        text_at(frame.x(row.ranks), kHeight - kBottom + 20,
                R"(class="faint" font-size="12" text-anchor="middle")", std::to_string(row.ranks));
  }
  return svg;
}

std::string lines(const Frame& frame, const std::vector<ScalingRow>& rows) {
  const auto at = [&](double ranks, double speedup) {
    return number(frame.x(ranks)) + " " + number(frame.y(speedup));
  };
  std::string measured;
  for (const ScalingRow& row : rows) {
    measured += (measured.empty() ? "M" : "L") + at(row.ranks, row.speedup);
  }
  const double first = rows.front().ranks;
  const double last = rows.back().ranks;
  return "<path class=\"ideal\" d=\"M" + at(first, first) + "L" + at(last, last) + "\"/>\n" +
         "<path class=\"line\" d=\"" + measured + "\"/>\n";
}

std::string points(const Frame& frame, const std::vector<ScalingRow>& rows) {
  std::string svg;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const ScalingRow& row = rows[i];
    const double x = frame.x(row.ranks);
    const double y = frame.y(row.speedup);
    svg += "<circle class=\"point" + std::string(row.oversubscribed ? " over" : "") + "\" cx=\"" +
           number(x) + "\" cy=\"" + number(y) + "\" r=\"5\"/>\n";
    // The label stands to the right, on the side of the point that the line does not go to.
    const bool falls = i + 1 < rows.size() && rows[i + 1].speedup < row.speedup;
    svg += text_at(x + 8, falls ? y - 10 : y + 20, R"(class="label text" font-size="13")",
                   format_fixed(row.speedup, 2) + "x, " + format_percent(row.efficiency, 0));
  }
  return svg;
}

std::string labels(const std::vector<ScalingRow>& rows, const std::string& title, Scaling scaling) {
  const bool is_over = rows.back().oversubscribed;
  const std::string note = std::string(scaling == Scaling::weak ? "weak" : "strong") +
                           " scaling, dashed: ideal" +
                           (is_over ? ", hollow: more ranks than cores" : "");
  std::string svg = text_at(kLeft, 26, R"(class="text" font-size="16" font-weight="600")", title);
  svg += text_at(kLeft, 44, R"(class="faint" font-size="12")", note);
  svg += text_at((kLeft + kWidth - kRight) / 2, kHeight - 14,
                 R"(class="text" font-size="13" text-anchor="middle")", "ranks");
  const double middle = (kTop + kHeight - kBottom) / 2;
  return svg +
         "<text class=\"text\" font-size=\"13\" text-anchor=\"middle\" transform=\"translate(20 " +
         number(middle) + ") rotate(-90)\">speedup</text>\n";
}

}  // namespace

std::string scaling_svg(const std::vector<ScalingRow>& rows, const std::string& title,
                        Scaling scaling) {
  const Frame frame{ScalingAxis(rows)};
  return kHead + ("<title>" + escaped(title) + "</title>\n") + labels(rows, title, scaling) +
         grid(frame, rows) + lines(frame, rows) + points(frame, rows) + "</svg>\n";
}

}  // namespace lockstep::metrics
