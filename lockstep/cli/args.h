// The flags and words one call was given, checked against the command's table.
#pragma once
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::cli {

enum class ValueType : std::uint8_t { text, integer, number };
inline constexpr double kAnyNumber = std::numeric_limits<double>::infinity();

/// Flags are named as in the table ("--nproc-per-node"). Asking for a flag that the table lacks is
/// a bug.
class Args {
 public:
  using Values = std::map<std::string, std::vector<std::string>, std::less<>>;

  Args() = default;
  /// \param values every flag of the table with its values in order; a switch that was given has
  /// one
  ///        empty value.
  Args(Values values, std::vector<std::string> words)
      : values_(std::move(values)), words_(std::move(words)) {}

  [[nodiscard]] bool has(std::string_view flag) const { return !all(flag).empty(); }
  [[nodiscard]] const std::vector<std::string>& all(std::string_view flag) const;
  [[nodiscard]] std::string text(std::string_view flag, std::string_view otherwise = "") const;
  [[nodiscard]] std::optional<std::int64_t> integer(std::string_view flag) const;
  [[nodiscard]] std::optional<double> number(std::string_view flag) const;
  /// What stood without a flag name, in order.
  [[nodiscard]] const std::vector<std::string>& words() const { return words_; }

 private:
  Values values_;
  std::vector<std::string> words_;
};

}  // namespace lockstep::cli
