// What `--dry-run` prints of a launch: every host with its command, its ranks and their variables.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "lockstep/cli/command.h"
#include "lockstep/launch/local_job.h"

namespace lockstep::cli {

struct ShownHost {
  std::string host;
  // Of the launcher there, where it is started from here.
  std::vector<std::string> command{};
  std::string folder{};
  std::vector<std::string> environment{};  // "KEY=value"

  std::vector<launch::RankStart> ranks{};  // those that are known
};

/// As text, or with --json as one document. Of a rank's variables those that this process has not,
/// or has with another value.
void show_hosts(const std::vector<ShownHost>& hosts, const Context& context);

}  // namespace lockstep::cli
