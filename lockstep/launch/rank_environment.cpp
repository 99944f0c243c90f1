#include "lockstep/launch/rank_environment.h"

#include <map>
#include <string_view>
#include <utility>

namespace lockstep::launch {
namespace {

using Variables = std::map<std::string, std::string, std::less<>>;

void assign(Variables& variables, std::string_view entry) {
  const auto equals = entry.find('=');
  if (equals == std::string_view::npos) return;
  variables[std::string(entry.substr(0, equals))] = entry.substr(equals + 1);
}

}  // namespace

std::vector<std::string> rank_environment(const LocalJobOptions& options, const RankPlace& place,
                                          const std::vector<std::string>& inherited) {
  Variables variables;
  for (const auto& entry : inherited) assign(variables, entry);
  for (const char* stale : {"LOCKSTEP_REPORT_FD", "TORCHELASTIC_ERROR_FILE"})
    variables.erase(stale);
  const std::string rank = std::to_string(place.rank);
  const std::string size = std::to_string(options.nproc_per_node);
  for (const char* key : {"RANK", "LOCAL_RANK", "ROLE_RANK"}) variables[key] = rank;
  for (const char* key : {"WORLD_SIZE", "LOCAL_WORLD_SIZE", "ROLE_WORLD_SIZE"})
    variables[key] = size;
  variables["GROUP_RANK"] = "0";
  variables["GROUP_WORLD_SIZE"] = "1";
  variables["ROLE_NAME"] = "default";
  variables["MASTER_ADDR"] = options.master_addr;
  variables["MASTER_PORT"] = std::to_string(place.store_port);
  variables["TORCHELASTIC_RESTART_COUNT"] = "0";
  variables["TORCHELASTIC_MAX_RESTARTS"] = "0";
  variables["TORCHELASTIC_RUN_ID"] = place.run_id;
  variables["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  variables.try_emplace("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1");
  variables["OMP_NUM_THREADS"] = std::to_string(options.threads_per_rank);
  if (!place.error_file.empty()) variables["TORCHELASTIC_ERROR_FILE"] = place.error_file;
  if (place.report_fd >= 0) variables["LOCKSTEP_REPORT_FD"] = std::to_string(place.report_fd);
  for (const auto& entry : options.extra_env) assign(variables, entry);
  std::vector<std::string> environment;
  for (const auto& [key, value] : variables) environment.push_back(key + "=" + value);
  return environment;
}

}  // namespace lockstep::launch
