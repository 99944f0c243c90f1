#include "lockstep/cli/args.h"

#include "lockstep/base/error.h"
#include "lockstep/config/convert.h"

namespace lockstep::cli {

const std::vector<std::string>& Args::all(std::string_view flag) const {
  const auto found = values_.find(flag);
  LOCKSTEP_CHECK(found != values_.end(),
                 "no flag " + std::string(flag) + " in this command's table");
  return found->second;
}

std::string Args::text(std::string_view flag, std::string_view otherwise) const {
  const auto& values = all(flag);
  return values.empty() ? std::string(otherwise) : values.back();
}

std::optional<std::int64_t> Args::integer(std::string_view flag) const {
  const auto& values = all(flag);
  std::int64_t number = 0;
  if (values.empty()) return std::nullopt;
  LOCKSTEP_CHECK(config::read_integer(values.back(), number),
                 std::string(flag) + " is not an integer flag");
  return number;
}

std::optional<double> Args::number(std::string_view flag) const {
  const auto& values = all(flag);
  double number = 0;
  if (values.empty()) return std::nullopt;
  LOCKSTEP_CHECK(config::read_number(values.back(), number),
                 std::string(flag) + " is not a number flag");
  return number;
}

}  // namespace lockstep::cli
