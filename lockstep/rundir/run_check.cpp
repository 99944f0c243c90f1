#include "lockstep/rundir/run_check.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "lockstep/data/formats/check_data.h"
#include "lockstep/planner/planner.h"

namespace lockstep::rundir {
namespace {

/// Sections whose values a check of the key looks at together.
std::vector<std::string_view> looked_at(std::string_view section) {
  if (section == "batch" || section == "parallel" || section == "run") {
    return {"batch", "parallel", "run"};
  }
  if (section == "data" || section == "model") return {"data", "model"};
  if (section == "precision") return {"precision", "parallel"};
  return {section};
}

/// 2 wins: a wrong configuration is to be put right before the data are looked for.
Exit worse(Exit so_far, Exit now) {
  return so_far == Exit::ok || now == Exit::usage ? now : so_far;
}

}  // namespace

RunCheck::RunCheck(config::ParsedConfig parsed)
    : parsed_(std::move(parsed)), data_size_(data::data_size(parsed_.config.data)) {
  problems_ = std::exchange(parsed_.problems, {});
  if (!problems_.empty()) exit_ = Exit::usage;
}

bool RunCheck::is_consequence(const Problem& problem) const {
  const std::string_view key = problem.where;
  const auto sections = looked_at(key.substr(0, key.find_first_of(". ")));
  return std::any_of(sections.begin(), sections.end(), [&](std::string_view section) {
    const auto& faulty = parsed_.faulty_sections;
    return std::find(faulty.begin(), faulty.end(), section) != faulty.end();
  });
}

void RunCheck::add(const Error& error, const std::string& where) {
  for (Problem problem : error.problems()) {
    if (is_consequence(problem)) continue;
    problem.where += where;
    problems_.push_back(std::move(problem));
    exit_ = worse(exit_, error.exit());
  }
}

std::optional<parallel::ParallelPlan> RunCheck::plan(const config::RunConfig& config,
                                                     const Host& host, int ranks,
                                                     const std::string& where) {
  try {
    return planner::make_plan(config, host, ranks, data_size_.resident_bytes);
  } catch (const UsageError& error) {
    add(error, where);
    return std::nullopt;
  }
}

void RunCheck::check_data() {
  for (const data::DataFault& fault : data::check_data(config())) {
    add(Error(fault.exit, {fault.problem}));
  }
}

void RunCheck::require_none() const {
  if (!problems_.empty()) throw Error(exit_, problems_);
}

CheckedRun RunCheck::checked(std::optional<parallel::ParallelPlan> plan) const {
  require_none();
  LOCKSTEP_CHECK(plan.has_value(), "a run without a fault has no plan");
  return {config(), std::move(*plan), data_size_, notes()};
}

}  // namespace lockstep::rundir
