#include "lockstep/parallel/cost/check_layout.h"

#include <algorithm>

namespace lockstep::parallel {

std::vector<Problem> check_layout(const LayoutQuestion& question) {
  std::vector<Problem> problems;
  for (const LayoutPart& part : layout_parts()) {
    if (part.check != nullptr) part.check(question, problems);
  }
  return problems;
}

std::string nearest_divisors(std::int64_t number, std::int64_t wanted) {
  std::int64_t below = 1;
  std::int64_t above = number;
  for (std::int64_t d = 1; d * d <= number; ++d) {
    if (number % d != 0) continue;
    for (const std::int64_t divisor : {d, number / d}) {
      if (divisor <= wanted) below = std::max(below, divisor);
      if (divisor >= wanted) above = std::min(above, divisor);
    }
  }
  // Beyond the number itself there is nothing above.
  if (wanted > number || below == above) return std::to_string(below);
  return std::to_string(below) + " or " + std::to_string(above);
}

void require_least(std::string_view flag, std::int64_t value, std::int64_t least,
                   std::vector<Problem>& problems) {
  if (value >= least) return;
  problems.push_back({"LS-6102", std::string(flag), "is " + std::to_string(value),
                      "use " + std::to_string(least) + " or more"});
}

void require_divides(std::string_view flag, std::int64_t divisor, std::string_view what,
                     std::int64_t number, std::vector<Problem>& problems) {
  if (divisor < 1 || number < 1 || number % divisor == 0) return;
  problems.push_back({"LS-6103", std::string(flag),
                      std::to_string(divisor) + " does not divide " + std::to_string(number) + " " +
                          std::string(what),
                      "use " + nearest_divisors(number, divisor)});
}

}  // namespace lockstep::parallel
