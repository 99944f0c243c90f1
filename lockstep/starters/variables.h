// Environment variables read as text or as numbers; an empty one counts as unset.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/config/convert.h"
#include "lockstep/config/starter.h"

namespace lockstep::starters {

class Variables {
 public:
  Variables(const config::GetEnv& get_env, std::vector<Problem>& problems)
      : get_env_(get_env), problems_(problems) {}

  [[nodiscard]] std::string text(const std::string& name) const {
    const char* value = get_env_ ? get_env_(name.c_str()) : nullptr;
    return value == nullptr ? "" : value;
  }
  [[nodiscard]] bool has(const std::string& name) const { return !text(name).empty(); }

  /// Of a variable that is set. One that holds no number between the bounds is a problem.
  [[nodiscard]] std::optional<int> number(const std::string& name, int minimum, int maximum) const {
    if (!has(name)) return std::nullopt;
    std::int64_t value = 0;
    if (config::read_integer(text(name), value) && value >= minimum && value <= maximum) {
      return static_cast<int>(value);
    }
    std::string shown = text(name).substr(0, 64);
    for (char& c : shown) c = c < 0x20 || c == 0x7f ? '?' : c;
    refuse(
        name, name + " is \"" + shown + "\"",
        "it is a whole number from " + std::to_string(minimum) + " to " + std::to_string(maximum));
    return std::nullopt;
  }

  void refuse(const std::string& where, std::string what, std::string fix) const {
    problems_.push_back({"LS-1015", where, std::move(what), std::move(fix)});
  }

 private:
  const config::GetEnv& get_env_;
  std::vector<Problem>& problems_;
};

/// Nodes and ranks that any job is believed to have.
inline constexpr int kMostNodes = 1'000'000;
inline constexpr int kLastPort = 65535;

}  // namespace lockstep::starters
