#include "lockstep/cli/run_flags.h"

#include <algorithm>

#include "lockstep/config/parse.h"

namespace lockstep::cli {

config::RunConfig read_run(const Args& args) {
  const std::vector<std::string>& sets = args.all(kSetFlag.name);
  if (!args.words().empty()) return config::load_run_config(args.words().front(), sets);
  config::ParsedConfig parsed = config::parse_run_config("", "", sets);
  if (!parsed.problems.empty()) throw UsageError(std::move(parsed.problems));
  return std::move(parsed.config);
}

int ranks_of(const Args& args, const config::RunConfig& config, const Host& host) {
  const std::string given = args.text(kNprocFlag.name);
  if (given.empty()) return config.parallel.data.value_or(1);
  if (given == "auto" || given == "cpu") return std::max(1, host.cores / config.run.threads);
  return static_cast<int>(*args.integer(kNprocFlag.name));
}

}  // namespace lockstep::cli
