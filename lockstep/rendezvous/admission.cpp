#include "lockstep/rendezvous/admission.h"

#include <set>
#include <utility>

namespace lockstep::rendezvous {
namespace {

constexpr const char* kRunId = "run id";

using Values = std::map<std::string, std::string>;

std::string value_of(const Values& values, const std::string& field) {
  const auto found = values.find(field);
  return found == values.end() ? "nothing" : "'" + found->second + "'";
}

std::string range_text(const NodeSettings& settings) {
  const std::string least = std::to_string(settings.min_nodes);
  return settings.min_nodes == settings.max_nodes
             ? least
             : least + ":" + std::to_string(settings.max_nodes);
}

std::string times_text(const NodeTimes& times) {
  return std::to_string(times.heartbeat_s) + " " + std::to_string(times.fence_s) + " " +
         std::to_string(times.lost_s);
}

std::set<std::string> differing_fields(const Values& one, const Values& other,
                                       const std::set<std::string>& may_differ) {
  std::set<std::string> fields;
  for (const Values* values : {&one, &other}) {
    for (const auto& [field, value] : *values) {
      if (!may_differ.contains(field) && value_of(one, field) != value_of(other, field)) {
        fields.insert(field);
      }
    }
  }
  return fields;
}

}  // namespace

Agent with_settings(Agent agent, const NodeSettings& settings) {
  agent.equal[kRunId] = settings.run_id;
  agent.equal["nnodes"] = range_text(settings);
  agent.equal["max_restarts"] = std::to_string(settings.max_restarts);
  agent.equal["heartbeat, fence and loss in seconds"] = times_text(settings.times);
  return agent;
}

bool are_equal(const Values& one, const Values& other, const NodeSettings& settings) {
  return differing_fields(one, other, settings.may_differ).empty();
}

std::optional<Problem> mismatch_of(const Agent& newcomer, const std::string& leader,
                                   const Values& equal, const NodeSettings& settings) {
  const std::string where = name_of(newcomer);
  if (newcomer.node_rank >= settings.max_nodes) {
    return Problem{"LS-3022", where,
                   name_of(newcomer) + " asks for node rank " + std::to_string(newcomer.node_rank) +
                       " of " + range_text(settings) + " hosts; the highest is " +
                       std::to_string(settings.max_nodes - 1),
                   "give each host its own --node-rank, from 0 up"};
  }
  const std::set<std::string> fields = differing_fields(newcomer.equal, equal, settings.may_differ);
  if (fields.empty()) return std::nullopt;
  std::string what;
  for (const std::string& field : fields) {
    what += what.empty() ? "hosts differ: " : "; ";
    what += field + " is " + value_of(newcomer.equal, field) + " on " + where + " and " +
            value_of(equal, field) + " on " + leader;
  }
  if (fields.contains(kRunId)) {
    return Problem{"LS-3023", where, what,
                   "another job has this endpoint: give one of them "
                   "another --rdzv-endpoint, or both the same --rdzv-id"};
  }
  return Problem{"LS-3023", where, what,
                 "make them equal on all hosts, or name what may differ with --may-differ"};
}

std::optional<Problem> mismatch_of(const Agent& newcomer, const Agent& leader,
                                   const NodeSettings& settings) {
  return mismatch_of(newcomer, name_of(leader), leader.equal, settings);
}

bool claim_one_place(const Agent& one, const Agent& other, const NodeSettings& settings) {
  if (one.node_rank >= 0 && one.node_rank == other.node_rank) return true;
  return settings.one_agent_a_machine && !one.machine.empty() && one.machine == other.machine;
}

Problem duplicate_of(const Agent& newcomer, const Agent& holder) {
  const bool is_one_machine = !newcomer.machine.empty() && newcomer.machine == holder.machine;
  const std::string node =
      newcomer.node_rank >= 0 ? "node " + std::to_string(newcomer.node_rank) : newcomer.host;
  const std::string what = node + " already joined by pid " + std::to_string(holder.pid) + " on " +
                           holder.host + "; refused: pid " + std::to_string(newcomer.pid) + " on " +
                           newcomer.host;
  if (is_one_machine) {
    return {"LS-3022", name_of(newcomer), what + "; with Slurm use --ntasks-per-node=1",
            "start one launcher on each host: it starts all ranks of the host"};
  }
  return {"LS-3022", name_of(newcomer), what, "give each host its own --node-rank, from 0 up"};
}

}  // namespace lockstep::rendezvous
