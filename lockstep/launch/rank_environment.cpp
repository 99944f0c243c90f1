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
  const JobPlace& job = options.place;
  const auto set = [&](const char* key, int number) { variables[key] = std::to_string(number); };
  set("RANK", job.base_rank + place.local_rank);
  set("LOCAL_RANK", place.local_rank);
  set("ROLE_RANK", job.base_role_rank + place.local_rank);
  set("LOCAL_WORLD_SIZE", options.nproc_per_node);
  set("WORLD_SIZE", job.world_size > 0 ? job.world_size : options.nproc_per_node);
  set("ROLE_WORLD_SIZE", job.role_world_size > 0 ? job.role_world_size : options.nproc_per_node);
  set("GROUP_RANK", job.group_rank);
  set("GROUP_WORLD_SIZE", job.group_world_size);
  variables["ROLE_NAME"] = job.role;
  variables["MASTER_ADDR"] = options.master_addr;
  variables["MASTER_PORT"] = std::to_string(place.store_port);
  set("TORCHELASTIC_RESTART_COUNT", job.restart_count);
  set("TORCHELASTIC_MAX_RESTARTS", job.max_restarts);
  variables["TORCHELASTIC_RUN_ID"] = job.run_id;
  variables["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  variables.try_emplace("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1");
  if (options.threads_per_rank > 0) set("OMP_NUM_THREADS", options.threads_per_rank);
  if (!place.error_file.empty()) variables["TORCHELASTIC_ERROR_FILE"] = place.error_file;
  if (place.report_fd >= 0) variables["LOCKSTEP_REPORT_FD"] = std::to_string(place.report_fd);
  for (const auto& entry : options.extra_env) assign(variables, entry);
  for (const auto& entry : place.variables) assign(variables, entry);
  std::vector<std::string> environment;
  for (const auto& [key, value] : variables) environment.push_back(key + "=" + value);
  return environment;
}

}  // namespace lockstep::launch
