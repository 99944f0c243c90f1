#include "lockstep/parallel/cost/check_layout.h"

#include <algorithm>
#include <array>

#include "lockstep/base/nearest.h"

namespace lockstep::parallel {
namespace {

constexpr int kFarthest = 4096;  // above a wrong degree; those below are all tried

struct Degree {
  std::string_view flag;
  int Layout::*value;
};
constexpr auto kDegrees = std::to_array<Degree>({{"--tensor", &Layout::tensor},
                                                 {"--pipeline", &Layout::pipeline},
                                                 {"--context", &Layout::context},
                                                 {"--expert", &Layout::expert},
                                                 {"--shard", &Layout::shard},
                                                 {"--secondary-shard", &Layout::secondary_shard},
                                                 {"--chunks", &Layout::chunks},
                                                 {"--tables", &Layout::tables}});

/// Whether a degree goes with the model and the other degrees, and with the devices if asked.
bool would_do(const LayoutQuestion& question, const Degree& degree, int value, bool on_devices) {
  Layout layout = question.layout;
  layout.*degree.value = value;
  if (question.data_follows) {
    const std::int64_t others = std::int64_t{1} * layout.tensor * layout.pipeline * layout.context;
    layout.data = static_cast<int>(std::max<std::int64_t>(1, question.devices / others));
  }
  LayoutQuestion other{layout};
  other.model = question.model;
  other.architecture = question.architecture;
  other.devices = question.devices;
  other.data_follows = question.data_follows;
  const std::vector<Problem> problems = check_layout(other);
  return std::none_of(problems.begin(), problems.end(), [&](const Problem& problem) {
    return problem.where == degree.flag || (on_devices && problem.code == "LS-6104");
  });
}

/// "use 4 or 8": the nearest degrees that would do; empty where none does.
std::string nearest_degrees(const LayoutQuestion& question, const Degree& degree, bool on_devices) {
  const int wanted = question.layout.*degree.value;
  std::string found;
  for (int value = wanted - 1; value >= 1 && found.empty(); --value) {
    if (would_do(question, degree, value, on_devices)) found = "use " + std::to_string(value);
  }
  for (int value = wanted + 1; value <= wanted + kFarthest; ++value) {
    if (!would_do(question, degree, value, on_devices)) continue;
    return (found.empty() ? "use " : found + " or ") + std::to_string(value);
  }
  return found;
}

}  // namespace

std::vector<Problem> check_layout(const LayoutQuestion& question) {
  std::vector<Problem> problems;
  for (const LayoutPart& part : layout_parts()) {
    if (part.check != nullptr) part.check(question, problems);
  }
  return problems;
}

/// What divides one number may not divide another.
std::vector<Problem> explain_layout(const LayoutQuestion& question) {
  std::vector<Problem> problems = check_layout(question);
  for (const Degree& degree : kDegrees) {
    const auto is_its = [&](const Problem& one) {
      return one.where == degree.flag && one.code == "LS-6103";
    };
    if (std::none_of(problems.begin(), problems.end(), is_its)) continue;
    std::string nearest = nearest_degrees(question, degree, /*on_devices=*/true);
    if (nearest.empty()) nearest = nearest_degrees(question, degree, /*on_devices=*/false);
    if (nearest.empty()) continue;
    for (Problem& problem : problems) {
      if (is_its(problem)) problem.fix = nearest;
    }
  }
  return problems;
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
