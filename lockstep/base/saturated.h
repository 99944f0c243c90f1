// Counts and byte numbers from 0 up that stop at the largest number instead of overflowing: a plan
// of any configuration is then still a number, and one that fits nowhere.
#pragma once
#include <cstdint>
#include <limits>

namespace lockstep {

/// A value >= 0. Sums and products of huge ones stay at kMost; a negative operand counts as 0.
class Saturated {
 public:
  static constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

  constexpr Saturated() = default;
  /// Implicit, so that formulas read as they stand in the documents.
  constexpr Saturated(std::int64_t value) : value_(value > 0 ? value : 0) {}
  /// The whole part of `number`; NaN is 0.
  [[nodiscard]] static constexpr Saturated of(double number) {
    if (!(number > 0)) return 0;
    // The largest double below 2^63 still converts.
    return number >= 9.2e18 ? kMost : static_cast<std::int64_t>(number);
  }

  [[nodiscard]] constexpr std::int64_t value() const { return value_; }

  friend constexpr Saturated operator+(Saturated a, Saturated b) {
    return a.value_ > kMost - b.value_ ? kMost : a.value_ + b.value_;
  }
  friend constexpr Saturated operator*(Saturated a, Saturated b) {
    if (a.value_ != 0 && b.value_ > kMost / a.value_) return kMost;
    return a.value_ * b.value_;
  }
  /// Rounded down; by 0 it stays as it is.
  friend constexpr Saturated operator/(Saturated a, Saturated b) {
    return b.value_ == 0 ? a.value_ : a.value_ / b.value_;
  }
  constexpr Saturated& operator+=(Saturated b) { return *this = *this + b; }

 private:
  std::int64_t value_ = 0;
};

}  // namespace lockstep
