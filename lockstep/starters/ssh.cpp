#include "lockstep/starters/ssh.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "lockstep/base/shell_word.h"
#include "lockstep/starters/hostfile.h"
#include "lockstep/starters/remote_agent.h"

namespace lockstep::starters {
namespace {

bool is_variable_name(std::string_view text) {
  return !text.empty() && std::isdigit(static_cast<unsigned char>(text.front())) == 0 &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) {
           return (c < 0x80 && std::isalnum(c) != 0) || c == '_';
         });
}

}  // namespace

std::vector<std::string> ssh_argv(const SshOptions& options, const std::string& host,
                                  const std::string& program) {
  LOCKSTEP_CHECK(is_host_name(host), "ssh to something that is no host");
  std::vector<std::string> argv{
      options.ssh, "-T",
      "-o",        "BatchMode=yes",
      "-o",        "ConnectTimeout=" + std::to_string(options.connect_timeout_s),
      "-o",        "ServerAliveInterval=5",
      "-o",        "ServerAliveCountMax=3",
      "-o",        "LogLevel=ERROR"};
  if (!options.config_file.empty()) argv.insert(argv.end(), {"-F", options.config_file});
  if (options.port > 0) argv.insert(argv.end(), {"-p", std::to_string(options.port)});
  if (!options.identity.empty()) argv.insert(argv.end(), {"-i", options.identity});
  // What follows the host is one command line for the login shell over there.
  argv.insert(argv.end(), {"--", host, "exec " + shell_line({program, kRemoteAgentFlag})});
  return argv;
}

std::vector<std::string> passed_on(const std::vector<std::string>& environment) {
  constexpr auto kBeginnings =
      std::to_array<std::string_view>({"PYTHON", "NCCL_", "GLOO_", "UCX_", "MV2_", "MLFLOW_",
                                       "OMP_", "MKL_", "KMP_", "GOMP_", "TORCH_", "LOCKSTEP_"});
  constexpr auto kOfHereAlone = std::to_array<std::string_view>(
      {"LOCKSTEP_ADDRESS", "LOCKSTEP_HOST_ID", "LOCKSTEP_REPORT_FD"});
  std::vector<std::string> passed;
  for (const std::string& variable : environment) {
    const std::string_view name = std::string_view(variable).substr(0, variable.find('='));
    const bool wanted = std::any_of(kBeginnings.begin(), kBeginnings.end(),
                                    [&](auto beginning) { return name.starts_with(beginning); });
    const bool here_alone =
        std::find(kOfHereAlone.begin(), kOfHereAlone.end(), name) != kOfHereAlone.end();
    if (wanted && !here_alone && is_variable_name(name)) passed.push_back(variable);
  }
  return passed;
}

VariableLines parse_variable_lines(std::string_view text, const std::string& file) {
  VariableLines lines;
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.find_first_not_of(" \t") == std::string_view::npos || line.starts_with('#')) continue;
    const std::size_t equals = line.find('=');
    if (equals != std::string_view::npos && is_variable_name(line.substr(0, equals)) &&
        line.find('\0') == std::string_view::npos) {
      lines.variables.emplace_back(line);
    } else {
      lines.problems.push_back({"LS-1045", file + ":" + std::to_string(number) + ":1",
                                "the line is not KEY=value",
                                "a name of letters, digits and '_', then '=' and the value as it "
                                "is, without quotes"});
    }
  }
  return lines;
}

}  // namespace lockstep::starters
