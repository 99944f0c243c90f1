// The keys by which fixed hosts find each other in the store of node 0: those of torchrun's static
// rendezvous, so that its agents can take part, and ours beside them.
#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/rendezvous/endpoint.h"
#include "lockstep/rendezvous/records.h"
#include "lockstep/store/client.h"

namespace lockstep::rendezvous {

/// What an agent tells about its ranks (_RoleInstanceInfo of torch 2.11, elastic/agent/server).
struct RoleInfo {
  std::string role;
  int ranks = 0;

  friend bool operator==(const RoleInfo&, const RoleInfo&) = default;
};

/// {"role": "default", "rank": 0, "local_world_size": 2}, as Python's json writes it.
[[nodiscard]] std::string to_json_text(const RoleInfo& info, int node);
/// \throws BadData (LS-3067) for what is none, or of another node.
[[nodiscard]] RoleInfo role_info_from(std::string_view text, int node);
/// For each node "[first rank, all ranks, first rank of its role, all of its role]".
[[nodiscard]] std::vector<std::string> assigned_ranks(const std::vector<RoleInfo>& roles);

/// Every call is one request, or two. \throws EnvironmentFault when the store is lost.
class StaticStore {
 public:
  /// \param answer_deadline of a request.
  StaticStore(const Endpoint& endpoint, std::string run_id,
              std::chrono::milliseconds answer_deadline);

  /// A node 0 of torchrun's waits until as many as there are nodes have counted themselves in.
  void count_in() { client_.count_in(); }

  struct Members {
    std::vector<std::optional<RoleInfo>> roles;  // by node; none = has not come
    std::vector<std::optional<Agent>> agents;    // ours
    bool assigned = false;                       // own ranks
  };
  [[nodiscard]] Members members(int nodes, int own_node);
  void set_role(int node, const RoleInfo& info);
  void assign(const std::vector<RoleInfo>& roles);

  /// Takes a node for this agent. \returns who has it already.
  [[nodiscard]] std::optional<Agent> claim(int node, const Agent& agent);

  /// torchrun's barrier at the end: counts this node in, and tells all when it is the last.
  void finish(int nodes);
  [[nodiscard]] bool all_have_finished();

  void beat(int node);
  /// What was told about a round, by restart count.
  struct News {
    std::optional<Record> failed;    // its ranks, the first who told
    std::optional<Record> lost;      // its host says nothing any more
    std::optional<Record> leaving;   // it was asked to stop
    std::vector<std::string> beats;  // of the nodes asked for
  };
  [[nodiscard]] News news(int restart, const std::vector<int>& nodes);
  /// Tell all. The first who tells stands. \returns who that is.
  Record tell_failed(int restart, const Record& record);
  void tell_lost(int restart, const Record& record);
  void tell_leaving(const Record& record);
  /// Adds to the hosts whose ranks succeeded in a round, and to those that know how the job ended.
  std::int64_t succeed(int restart, int more);
  std::int64_t know_end(int more);

 private:
  [[nodiscard]] std::string key(const std::string& name) const { return run_id_ + "/" + name; }
  Record tell(const std::string& name, const Record& record);

  store::Client client_;
  std::string run_id_;
};

}  // namespace lockstep::rendezvous
