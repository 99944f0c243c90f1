#include "lockstep/checkpoint/agree.h"

#include <ATen/ATen.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/comm/records/purpose.h"

namespace lockstep::checkpoint {
namespace {

using nlohmann::json;

struct Failure {
  Exit exit = Exit::environment;
  Problem problem;
};

std::optional<Failure> attempt(const std::function<void()>& work) {
  try {
    work();
    return std::nullopt;
  } catch (const Error& error) {
    return Failure{error.exit(), error.problems().front()};
  } catch (const std::exception& error) {
    return Failure{Exit::environment,
                   {"LS-5002", "checkpoint", error.what(), "see the message of the system"}};
  }
}

/// The lowest rank that failed; the group's size when none did.
int first_failed(comm::Group& group, bool failed) {
  at::Tensor rank = at::full({1}, failed ? group.rank() : group.size(), at::kLong);
  const comm::Purpose purpose("whether the checkpoint is good on all ranks");
  group.all_reduce(rank, comm::ReduceOp::min)->wait();
  return static_cast<int>(rank.item<std::int64_t>());
}

std::string encode(const Failure& failure) {
  const Problem& p = failure.problem;
  return json({static_cast<int>(failure.exit), p.code, p.where, p.what, p.fix})
      .dump(-1, ' ', false, json::error_handler_t::replace);
}

[[noreturn]] void rethrow(const std::string& text) {
  const json fields = json::parse(text);
  Problem problem{fields.at(1), fields.at(2), fields.at(3), fields.at(4)};
  switch (static_cast<Exit>(fields.at(0).get<int>())) {
    case Exit::bad_data:
      throw BadData(std::move(problem));
    case Exit::environment:
      throw EnvironmentFault(std::move(problem));
    default:
      throw Error(static_cast<Exit>(fields.at(0).get<int>()), {std::move(problem)});
  }
}

}  // namespace

void run_on_all(comm::Group& group, const std::function<void()>& work) {
  std::optional<Failure> failure = attempt(work);
  const int failed = first_failed(group, failure.has_value());
  if (failed == group.size()) return;
  if (failure && group.size() > 1) {
    failure->problem.where = "rank " + std::to_string(group.rank()) + ": " + failure->problem.where;
  }
  rethrow(comm::broadcast_text(group, failure ? encode(*failure) : "", failed));
}

}  // namespace lockstep::checkpoint
