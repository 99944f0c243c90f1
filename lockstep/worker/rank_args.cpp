#include "lockstep/worker/rank_args.h"

#include <optional>

#include "lockstep/base/error.h"

namespace lockstep::worker {
namespace {

/// The list that `name` adds to, or null.
std::vector<std::string>* list_field(RankArgs& args, const std::string& name) {
  if (name == "--set") return &args.sets;
  if (name == "--allow-change") return &args.allow_change;
  return nullptr;
}

/// The text field that `name` fills, or null.
std::string* text_field(RankArgs& args, const std::string& name) {
  if (name == "--job") return &args.job_file;
  if (name == "--run-dir") return &args.run_dir;
  if (name == "--resume") return &args.resume;
  return nullptr;
}

bool set_switch(RankArgs& args, const std::string& name) {
  if (name == "--json") return args.json = true;
  if (name == "--quiet") return args.quiet = true;
  if (name == "--no-color") return !(args.color = false);
  return false;
}

}  // namespace

RankArgs parse_rank_args(const std::vector<std::string>& args) {
  RankArgs parsed;
  std::vector<Problem> problems;
  for (std::size_t i = 0; i < args.size(); ++i) {
    const std::string& arg = args[i];
    std::vector<std::string>* list = list_field(parsed, arg);
    const bool wants_value = list != nullptr || text_field(parsed, arg) != nullptr;
    if (wants_value && i + 1 == args.size()) {
      problems.push_back({"LS-7201", arg, "has no value", "give one"});
    } else if (list != nullptr) {
      list->push_back(args[++i]);
    } else if (wants_value) {
      *text_field(parsed, arg) = args[++i];
    } else if (arg.starts_with("--")) {
      if (!set_switch(parsed, arg)) {
        problems.push_back({"LS-7201", arg, "unknown flag of lockstep-worker",
                            "start ranks with `lockstep train`, which knows all flags"});
      }
    } else if (parsed.job_name.empty()) {
      parsed.job_name = arg;
    } else if (parsed.config_file.empty()) {
      parsed.config_file = arg;
    } else {
      problems.push_back({"LS-7201", arg, "one argument too many", "leave it out"});
    }
  }
  if (parsed.job_name.empty()) {
    problems.push_back(
        {"LS-7201", "lockstep-worker", "no job named",
         "use `lockstep-worker train RUN.toml`, or better `lockstep train RUN.toml`"});
  } else if (parsed.job_file.empty() == parsed.config_file.empty()) {
    problems.push_back({"LS-7201", "lockstep-worker " + parsed.job_name,
                        "needs either RUN.toml or --job FILE", "give one of them"});
  }
  if (!problems.empty()) throw UsageError(std::move(problems));
  return parsed;
}

}  // namespace lockstep::worker
