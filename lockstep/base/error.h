// Errors a command can end with, and the problems a check can report.
#pragma once
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep {

/// Exit status of the programs; the numbers are part of docs/cli.md.
enum class Exit : int {
  ok = 0,
  failed = 1,
  usage = 2,
  environment = 3,
  bad_data = 4,
  peer_lost = 5,
  bug = 70,
  requeue = 75,
};

/// One fault found by a check: a stable code, where it is, what is wrong, what to do next.
struct Problem {
  std::string code;   // "LS-1003": a row of base/problem_codes_*.cpp
  std::string where;  // "run.toml:3:7", "--nproc-per-node", "rank 3", "ckpt/step-200/manifest.json"
  std::string what;
  std::string fix;

  friend bool operator==(const Problem&, const Problem&) = default;
};

/// "where: error LS-1003: what\n  fix: ...\n" for each problem, the form every command prints. What
/// would steer a terminal, as names out of files can, is a "?".
[[nodiscard]] std::string to_text(const std::vector<Problem>& problems);

/// {"errors":[{"code","where","what","fix"}]} on one line, as every command prints with --json.
[[nodiscard]] std::string to_json_text(const std::vector<Problem>& problems);

/// Base of every exception this library throws on purpose. Carries all problems, not the first.
class Error : public std::runtime_error {
 public:
  Error(Exit exit, std::vector<Problem> problems);
  [[nodiscard]] Exit exit() const noexcept { return exit_; }
  [[nodiscard]] const std::vector<Problem>& problems() const noexcept { return problems_; }

 private:
  Exit exit_;
  std::vector<Problem> problems_;
};

/// The user can fix it: flags, configuration, a file named on the command line.
class UsageError : public Error {
 public:
  explicit UsageError(std::vector<Problem> problems) : Error(Exit::usage, std::move(problems)) {}
};

/// The machine is at fault: network, disk, missing package, data set or device.
class EnvironmentFault : public Error {
 public:
  explicit EnvironmentFault(Problem problem) : Error(Exit::environment, {std::move(problem)}) {}
};

/// Input data is corrupt: file, offset and the expected size stand in `what`.
class BadData : public Error {
 public:
  explicit BadData(Problem problem) : Error(Exit::bad_data, {std::move(problem)}) {}
};

/// A peer stopped answering: what a surviving rank ends with, never the cause.
class PeerLost : public Error {
 public:
  explicit PeerLost(Problem problem) : Error(Exit::peer_lost, {std::move(problem)}) {}
};

/// A broken assumption of ours; thrown by LOCKSTEP_CHECK.
class Bug : public Error {
 public:
  Bug(const char* file, int line, const std::string& what);
};

}  // namespace lockstep

/// Checks an invariant in every build. \throws lockstep::Bug (exit 70).
#define LOCKSTEP_CHECK(condition, message)                                  \
  do {                                                                      \
    if (!(condition)) throw ::lockstep::Bug(__FILE__, __LINE__, (message)); \
  } while (false)
