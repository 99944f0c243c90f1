#include "lockstep/rendezvous/static_store.h"

#include <algorithm>
#include <map>
#include <utility>

#include "lockstep/base/json_fields.h"

namespace lockstep::rendezvous {
namespace {

using store::Bytes;
constexpr std::chrono::milliseconds kConnectDeadline{10'000};
constexpr std::int64_t kMostRanks = 1 << 20;
const std::string kRole = "torchelastic/role_info/";
const std::string kAssigned = "torchelastic/assigned_ranks/";
const std::string kFinished = "torchelastic/agent/terminal_state/num_members";
const std::string kLastFinished = "torchelastic/agent/terminal_state/last_member";
const std::string kNode = "lockstep/node/";
const std::string kBeat = "lockstep/beat/";
const std::string kFailed = "lockstep/failed/";
const std::string kLost = "lockstep/lost/";
const std::string kLeaving = "lockstep/leaving";
const std::string kSucceeded = "lockstep/succeeded/";
const std::string kEndKnown = "lockstep/end_known";

Bytes bytes_of(std::string_view text) { return {text.begin(), text.end()}; }

std::string_view text_of(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::optional<Record> record_in(const Bytes& bytes) {
  if (bytes.empty()) return std::nullopt;
  return record_from(text_of(bytes));
}

}  // namespace

std::string to_json_text(const RoleInfo& info, int node) {
  // ASCII only, as Python's json writes it.
  return R"({"role": )" + nlohmann::json(info.role).dump(-1, ' ', true) + R"(, "rank": )" +
         std::to_string(node) + R"(, "local_world_size": )" + std::to_string(info.ranks) + "}";
}

RoleInfo role_info_from(std::string_view text, int node) {
  const JsonFields fields(text, {"LS-3067", "role_info of node " + std::to_string(node)});
  RoleInfo info{fields.text("role"), 0};
  const std::int64_t ranks = fields.integer("local_world_size");
  if (ranks < 1 || ranks > kMostRanks) fields.fail("local_world_size is out of range");
  if (fields.integer("rank") != node) fields.fail("it is of another node");
  info.ranks = static_cast<int>(ranks);
  return info;
}

std::vector<std::string> assigned_ranks(const std::vector<RoleInfo>& roles) {
  std::map<std::string, int> role_sizes;
  int world = 0;
  for (const RoleInfo& info : roles) {
    role_sizes[info.role] += info.ranks;
    world += info.ranks;
  }
  std::vector<std::string> texts;
  std::map<std::string, int> role_begins;
  int begin = 0;
  for (const RoleInfo& info : roles) {
    texts.push_back("[" + std::to_string(begin) + ", " + std::to_string(world) + ", " +
                    std::to_string(role_begins[info.role]) + ", " +
                    std::to_string(role_sizes[info.role]) + "]");
    begin += info.ranks;
    role_begins[info.role] += info.ranks;
  }
  return texts;
}

StaticStore::StaticStore(const Endpoint& endpoint, std::string run_id,
                         std::chrono::milliseconds answer_deadline)
    : client_(endpoint.host, endpoint.port, std::min(kConnectDeadline, answer_deadline)),
      run_id_(std::move(run_id)) {
  client_.set_answer_deadline(answer_deadline);
}

StaticStore::Members StaticStore::members(int nodes, int own_node) {
  std::vector<std::string> keys{key(kAssigned + std::to_string(own_node))};
  for (int node = 0; node < nodes; ++node) {
    keys.push_back(key(kRole + std::to_string(node)));
    keys.push_back(key(kNode + std::to_string(node)));
  }
  const std::vector<Bytes> values = client_.multi_get(keys);
  Members members;
  members.assigned = !values[0].empty();
  for (int node = 0; node < nodes; ++node) {
    const Bytes& role = values[1 + 2 * static_cast<std::size_t>(node)];
    const auto record = record_in(values[2 + 2 * static_cast<std::size_t>(node)]);
    members.roles.push_back(role.empty() ? std::nullopt
                                         : std::optional(role_info_from(text_of(role), node)));
    members.agents.push_back(record ? std::optional(record->agent) : std::nullopt);
  }
  return members;
}

void StaticStore::set_role(int node, const RoleInfo& info) {
  client_.set(key(kRole + std::to_string(node)), bytes_of(to_json_text(info, node)));
}

void StaticStore::assign(const std::vector<RoleInfo>& roles) {
  std::vector<std::string> keys;
  std::vector<Bytes> values;
  for (const std::string& text : assigned_ranks(roles)) {
    keys.push_back(key(kAssigned + std::to_string(keys.size())));
    values.push_back(bytes_of(text));
  }
  client_.multi_set(keys, values);
}

Record StaticStore::tell(const std::string& name, const Record& record) {
  const Bytes standing = client_.compare_set(key(name), {}, bytes_of(to_bytes(record)));
  return record_from(text_of(standing));
}

std::optional<Agent> StaticStore::claim(int node, const Agent& agent) {
  Record own;
  own.agent = agent;
  const Agent holder = tell(kNode + std::to_string(node), own).agent;
  return holder.id == agent.id ? std::nullopt : std::optional(holder);
}

void StaticStore::finish(int nodes) {
  if (client_.add(key(kFinished), 1) == nodes) client_.set(key(kLastFinished), bytes_of("done"));
}

bool StaticStore::all_have_finished() { return client_.check({key(kLastFinished)}); }

void StaticStore::beat(int node) { (void)client_.add(key(kBeat + std::to_string(node)), 1); }

StaticStore::News StaticStore::news(int restart, const std::vector<int>& nodes) {
  std::vector<std::string> keys{key(kFailed + std::to_string(restart)),
                                key(kLost + std::to_string(restart)), key(kLeaving)};
  for (const int node : nodes) keys.push_back(key(kBeat + std::to_string(node)));
  const std::vector<Bytes> values = client_.multi_get(keys);
  News news{record_in(values[0]), record_in(values[1]), record_in(values[2]), {}};
  for (std::size_t i = 3; i < values.size(); ++i) news.beats.emplace_back(text_of(values[i]));
  return news;
}

Record StaticStore::tell_failed(int restart, const Record& record) {
  return tell(kFailed + std::to_string(restart), record);
}

void StaticStore::tell_lost(int restart, const Record& record) {
  (void)tell(kLost + std::to_string(restart), record);
}

void StaticStore::tell_leaving(const Record& record) { (void)tell(kLeaving, record); }

std::int64_t StaticStore::succeed(int restart, int more) {
  return client_.add(key(kSucceeded + std::to_string(restart)), more);
}

std::int64_t StaticStore::know_end(int more) { return client_.add(key(kEndKnown), more); }

}  // namespace lockstep::rendezvous
