// Lines of a plan for people: labels, values, bars.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "lockstep/metrics/text_style.h"

namespace lockstep::cli {

class PlanTable {
 public:
  PlanTable(std::size_t width, const metrics::TextStyle& style) : width_(width), style_(style) {}

  /// A label, then a value that is wrapped below itself.
  void row(std::string_view label, const std::string& value);
  /// A number of bytes, with a bar of its share of the `whole`.
  void amount(std::string_view label, std::int64_t bytes, std::int64_t whole);
  void title(const std::string& text);
  void blank() { text_ += "\n"; }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  [[nodiscard]] std::string label_text(std::string_view label) const;

  std::size_t width_;
  const metrics::TextStyle& style_;
  std::string text_;
};

/// "12.3 % of it", "40 times as much".
[[nodiscard]] std::string share_text(double share);

}  // namespace lockstep::cli
