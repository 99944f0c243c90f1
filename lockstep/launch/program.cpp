#include "lockstep/launch/program.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <system_error>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/launch/child_process.h"
#include "lockstep/launch/start_trouble.h"

namespace lockstep::launch {
namespace {

namespace fs = std::filesystem;

// What torchrun does inside its own interpreter (torch/distributed/run.py, run_script_path).
constexpr const char* kRunPath =
    "import runpy, sys; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')";

constexpr const char* kUsualPath = "/usr/local/bin:/usr/bin:/bin";

std::string variable(const std::function<const char*(const char*)>& get_env, const char* name,
                     const char* otherwise) {
  const char* value = get_env ? get_env(name) : nullptr;
  return value == nullptr || *value == '\0' ? otherwise : value;
}

bool is_file(const std::string& path) {
  std::error_code unknown;
  return fs::is_regular_file(path, unknown);
}

/// A file of the working directory that may be executed is named without "./" as well.
std::string as_path(const std::string& name) {
  return name.find('/') == std::string::npos && is_file(name) ? "./" + name : name;
}

/// A missing program was named by the caller: a usage error, not a fault of the machine.
void check_program(const std::string& name, const std::string& search_path) {
  try {
    const auto trouble = trouble_of_script(find_program(name, search_path));
    if (trouble) throw UsageError({*trouble});
  } catch (const EnvironmentFault& fault) {
    throw UsageError(fault.problems());
  }
}

bool runs_itself(const std::string& name) {
  std::error_code unknown;
  if (name.ends_with(".py") || fs::is_directory(name, unknown)) return false;
  if (!is_file(name)) return true;  // a program of PATH; whether it is there shows later
  return ::access(name.c_str(), X_OK) == 0;
}

void check_script(const std::string& script) {
  if (is_file(script)) return;
  std::error_code unknown;
  const bool is_folder = fs::is_directory(script, unknown);
  if (is_folder && is_file((fs::path(script) / "__main__.py").string())) return;
  throw UsageError({{"LS-1001", script,
                     is_folder ? "is a folder without __main__.py" : "there is no such script",
                     "name a Python file or a program; relative paths are taken from " +
                         fs::current_path(unknown).string()}});
}

bool is_name_start(char c) { return c == '_' || std::isalpha(static_cast<unsigned char>(c)) != 0; }
bool is_name_part(char c) { return c == '_' || std::isalnum(static_cast<unsigned char>(c)) != 0; }

}  // namespace

RankProgram make_program(const LaunchOptions& options,
                         const std::function<const char*(const char*)>& get_env) {
  LOCKSTEP_CHECK(!options.program.empty(), "a launch without a program");
  const std::string& script = options.program.front();
  if (script.empty()) {
    throw UsageError({{"LS-1014", "lockstep launch", "PROGRAM is empty",
                       "a variable may be unset; name a script or a program"}});
  }
  const std::string python = variable(get_env, "PYTHON_EXEC", "python3");
  RankProgram program;
  program.name = fs::path(script).filename().string();
  if (options.run_path) {
    check_script(script);
    program.argv = {python, "-u", "-c", kRunPath, script};
  } else if (options.module && !options.no_python) {
    program.argv = {python, "-u", "-m", script};
  } else if (options.no_python || runs_itself(script)) {
    program.argv = {options.no_python ? script : as_path(script)};
    check_program(program.argv[0], variable(get_env, "PATH", kUsualPath));
    program.is_ours = program.name == "lockstep" || program.name == "lockstep-worker";
  } else {
    check_script(script);
    program.argv = {python, "-u", script};
  }
  program.first_argument = program.argv.size();
  program.argv.insert(program.argv.end(), options.program.begin() + 1, options.program.end());
  return program;
}

std::vector<std::string> local_rank_argv(const RankProgram& program, RankFlag pass_local_rank,
                                         int local_rank) {
  const std::string number = std::to_string(local_rank);
  std::vector<std::string> argv = program.argv;
  const auto arguments = argv.begin() + static_cast<std::ptrdiff_t>(program.first_argument);
  std::transform(arguments, argv.end(), arguments, [&](const std::string& word) {
    return substituted(word, {{"local_rank", number}});
  });
  if (pass_local_rank != RankFlag::none) {
    const bool has_dash = pass_local_rank == RankFlag::dash;
    argv.insert(arguments, (has_dash ? "--local-rank=" : "--local_rank=") + number);
  }
  return argv;
}

std::string substituted(const std::string& pattern,
                        const std::vector<std::pair<std::string, std::string>>& values) {
  std::string text;
  std::size_t at = 0;
  while (at < pattern.size()) {
    if (pattern[at] != '$' || at + 1 == pattern.size()) {
      text += pattern[at++];
      continue;
    }
    if (pattern[at + 1] == '$') {
      text += '$';
      at += 2;
      continue;
    }
    const bool in_braces = pattern[at + 1] == '{';
    const std::size_t start = at + (in_braces ? 2 : 1);
    std::size_t end = start;
    if (end < pattern.size() && is_name_start(pattern[end])) {
      while (end < pattern.size() && is_name_part(pattern[end])) ++end;
    }
    const std::string name = pattern.substr(start, end - start);
    const bool is_closed = !in_braces || (end < pattern.size() && pattern[end] == '}');
    const auto value = std::find_if(values.begin(), values.end(),
                                    [&](const auto& one) { return one.first == name; });
    if (value == values.end() || !is_closed) {
      text += pattern[at++];
      continue;
    }
    text += value->second;
    at = end + (in_braces ? 1 : 0);
  }
  return text;
}

}  // namespace lockstep::launch
