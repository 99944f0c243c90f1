#include "lockstep/cli/plan_table.h"

#include <algorithm>
#include <cmath>

#include "lockstep/base/units.h"
#include "lockstep/cli/wrap.h"
#include "lockstep/metrics/bars.h"

namespace lockstep::cli {
namespace {

using metrics::Tone;

constexpr std::size_t kLabelColumns = 14;
constexpr std::size_t kAmountColumns = 10;

}  // namespace

void PlanTable::row(std::string_view label, const std::string& value) {
  text_ += "  " + label_text(label) + wrapped(value, 2 + kLabelColumns, 2 + kLabelColumns, width_) +
           "\n";
}

void PlanTable::amount(std::string_view label, std::int64_t bytes, std::int64_t whole) {
  const std::string value = metrics::pad_left(format_bytes(bytes), kAmountColumns);
  const std::size_t used = 2 + kLabelColumns + kAmountColumns + 2;
  const std::size_t bar = width_ > used + 10 ? std::min<std::size_t>(width_ - used, 40) : 10;
  const double share =
      static_cast<double>(bytes) / static_cast<double>(std::max<std::int64_t>(whole, 1));
  text_ +=
      "  " + label_text(label) + value + "  " + metrics::progress_bar(share, bar, style_) + "\n";
}

void PlanTable::title(const std::string& text) { text_ += style_.paint(Tone::strong, text) + "\n"; }

std::string PlanTable::label_text(std::string_view label) const {
  return style_.paint(Tone::faint, metrics::pad_right(std::string(label), kLabelColumns));
}

std::string share_text(double share) {
  constexpr double kMany = 10;
  constexpr double kMostCounted = 1e15;
  if (share >= kMany) {
    return format_count(std::llround(std::min(share, kMostCounted))) + " times as much";
  }
  return (share < 0.001 ? "less than 0.1 %" : format_percent(share)) + " of it";
}

}  // namespace lockstep::cli
