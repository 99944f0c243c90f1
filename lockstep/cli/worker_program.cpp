#include "lockstep/cli/worker_program.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>

#include "lockstep/cli/launch_flags.h"
#include "lockstep/cli/parser.h"

namespace lockstep::cli {
namespace {

[[noreturn]] void not_startable(const std::string& worker, const std::string& what) {
  throw EnvironmentFault({"LS-3004", worker, what,
                          "lockstep-worker stands beside lockstep; `make build` builds both (it "
                          "needs LibTorch, which tools/setup.sh fetches)"});
}

std::string text_or_empty(const nlohmann::json& object, const char* key) {
  const auto field = object.find(key);
  return field != object.end() && field->is_string() ? field->get<std::string>() : "";
}

std::vector<Problem> read_problems(const std::string& line) {
  const auto document = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!document.is_object() || !document.contains("errors")) return {};
  std::vector<Problem> problems;
  for (const auto& error : document["errors"]) {
    if (!error.is_object()) return {};
    problems.push_back({text_or_empty(error, "code"), text_or_empty(error, "where"),
                        text_or_empty(error, "what"), text_or_empty(error, "fix")});
  }
  return problems;
}

}  // namespace

std::string find_worker(const Context& context) {
  const auto worker =
      std::filesystem::path(context.program_path).replace_filename("lockstep-worker");
  if (::access(worker.c_str(), X_OK) != 0) {
    not_startable(worker.string(), std::generic_category().message(errno));
  }
  return worker.string();
}

std::vector<std::string> rank_arguments(const std::string& worker, const Args& args) {
  std::vector<std::string_view> of_the_front{"--as", "--help"};
  for (const Flag& flag : kLaunchFlags) of_the_front.push_back(flag.name);
  std::vector<std::string> argv = words_of(*find_command("train"), args, of_the_front);
  argv.insert(argv.begin(), {worker, "train"});
  return argv;
}

void become_worker(const std::vector<std::string>& argv) {
  std::vector<char*> pointers;
  for (const auto& text : argv) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  ::execv(pointers[0], pointers.data());
  not_startable(argv[0], std::generic_category().message(errno));
}

std::vector<Problem> problems_of_worker(const std::string& printed) {
  constexpr const char* kStart = "{\"errors\":";
  const auto start = printed.rfind(kStart);
  if (start == std::string::npos) return {};
  return read_problems(printed.substr(start, printed.find('\n', start) - start));
}

}  // namespace lockstep::cli
