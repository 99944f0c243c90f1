#include "lockstep/rendezvous/records.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "lockstep/base/json_fields.h"

namespace lockstep::rendezvous {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kNameBytes = 256;
constexpr std::size_t kLineBytes = 1024;
constexpr std::size_t kFirstTextBytes = std::size_t{16} << 10;  // of the first failure
constexpr std::size_t kOtherTextBytes = 1024;
constexpr std::size_t kMostFields = 64;  // of Agent::equal
constexpr std::int64_t kMostRanks = 1 << 20;
constexpr std::int64_t kMostCount = 1 << 30;
constexpr std::int64_t kMostExact = std::int64_t{1} << 53;  // in JSON

constexpr auto kKinds = std::to_array<const char*>(
    {"none", "running", "failing", "failed", "succeeded", "stopped", "fenced"});
constexpr auto kPhases = std::to_array<const char*>({"gathering", "running", "stopping", "ended"});
constexpr auto kCauses =
    std::to_array<const char*>({"none", "failure", "lost", "left", "joined", "asked"});
constexpr auto kExits =
    std::to_array<Exit>({Exit::ok, Exit::failed, Exit::usage, Exit::environment, Exit::bad_data,
                         Exit::peer_lost, Exit::bug, Exit::requeue});

// ---- writing ----

/// Between two characters.
std::string cut(const std::string& text, std::size_t most) {
  if (text.size() <= most) return text;
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xC0U) == 0x80U) --most;
  return text.substr(0, most);
}

template <class Name, std::size_t count>
const char* name_in(const std::array<const char*, count>& names, Name value) {
  return names.at(static_cast<std::size_t>(value));
}

ordered_json to_json(const Agent& agent) {
  return {{"id", cut(agent.id, kNameBytes)},
          {"host", cut(agent.host, kNameBytes)},
          {"address", cut(agent.address, kNameBytes)},
          {"pid", agent.pid},
          {"node_rank", agent.node_rank},
          {"ranks", agent.ranks},
          {"role", cut(agent.role, kNameBytes)},
          {"store_port", agent.store_port}};
}

ordered_json to_json(const Failure& failure, std::size_t text_bytes) {
  return {{"host", cut(failure.host, kNameBytes)},
          {"rank", failure.rank},
          {"local_rank", failure.local_rank},
          {"pid", failure.pid},
          {"exit_code", failure.exit_code},
          {"signal", failure.signal},
          {"seconds", failure.seconds},
          {"consequence", failure.consequence},
          {"because", cut(failure.because, kLineBytes)},
          {"text", cut(failure.text, text_bytes)}};
}

template <class Items, class Convert>
ordered_json to_array(const Items& items, std::size_t most, Convert convert) {
  ordered_json array = ordered_json::array();
  for (const auto& item : items) {
    if (array.size() == most) break;
    array.push_back(convert(item, array.size()));
  }
  return array;
}

ordered_json to_json(const std::vector<Failure>& failures, bool has_first) {
  return to_array(failures, kMostFailures, [&](const Failure& failure, std::size_t index) {
    return to_json(failure, has_first && index == 0 ? kFirstTextBytes : kOtherTextBytes);
  });
}

ordered_json to_json(const std::map<std::string, std::string>& equal) {
  return to_array(equal, kMostFields, [](const auto& item, std::size_t) {
    return ordered_json{{"field", cut(item.first, kNameBytes)},
                        {"value", cut(item.second, kLineBytes)}};
  });
}

ordered_json to_json(const RanksReport& ranks) {
  return {{"generation", ranks.generation},
          {"kind", name_in(kKinds, ranks.kind)},
          {"failures", to_json(ranks.failures, true)},
          {"saved", ranks.saved},
          {"step", ranks.step}};
}

ordered_json to_json(const Refusal& refusal) {
  return {{"id", cut(refusal.id, kNameBytes)},
          {"exit", static_cast<int>(refusal.exit)},
          {"code", refusal.problem.code},
          {"where", cut(refusal.problem.where, kNameBytes)},
          {"what", cut(refusal.problem.what, kLineBytes)},
          {"fix", cut(refusal.problem.fix, kLineBytes)}};
}

ordered_json to_json(const Verdict& verdict) {
  ordered_json json{{"exit", static_cast<int>(verdict.exit)},
                    {"because", cut(verdict.because, kLineBytes)},
                    {"consequences", to_json(verdict.consequences, false)}};
  if (verdict.first) json["first"] = to_json(*verdict.first, kFirstTextBytes);
  return json;
}

// ---- reading ----

/// \param most bytes when it was written; what was not UTF-8 has grown threefold since.
std::string text_of(const JsonFields& fields, const char* key, std::size_t most) {
  std::string text = fields.text(key);
  if (text.size() > 3 * most) fields.fail(std::string("field '") + key + "' is too long");
  return text;
}

std::int64_t number_of(const JsonFields& fields, const char* key, std::int64_t least,
                       std::int64_t most) {
  const std::int64_t number = fields.integer(key);
  if (number < least || number > most) {
    fields.fail(std::string("field '") + key + "' is out of range");
  }
  return number;
}

int count_of(const JsonFields& fields, const char* key) {
  return static_cast<int>(number_of(fields, key, 0, kMostCount));
}

double seconds_of(const JsonFields& fields, const char* key) {
  const double seconds = fields.number(key);
  if (!std::isfinite(seconds)) fields.fail(std::string("field '") + key + "' is not finite");
  return seconds;
}

template <class Name, std::size_t count>
Name one_of(const JsonFields& fields, const char* key,
            const std::array<const char*, count>& names) {
  const std::string text = fields.text(key);
  const auto found = std::find(names.begin(), names.end(), text);
  if (found == names.end()) fields.fail(std::string("field '") + key + "' is unknown");
  return static_cast<Name>(found - names.begin());
}

Exit exit_of(const JsonFields& fields) {
  const auto exit = static_cast<Exit>(number_of(fields, "exit", 0, 255));
  if (std::find(kExits.begin(), kExits.end(), exit) == kExits.end()) {
    fields.fail("field 'exit' is unknown");
  }
  return exit;
}

std::vector<JsonFields> list_of(const JsonFields& fields, const char* key, std::size_t most) {
  std::vector<JsonFields> items = fields.objects(key);
  if (items.size() > most) fields.fail(std::string("field '") + key + "' is too long");
  return items;
}

Agent agent_from(const JsonFields& fields) {
  Agent agent;
  agent.id = text_of(fields, "id", kNameBytes);
  agent.host = text_of(fields, "host", kNameBytes);
  agent.address = text_of(fields, "address", kNameBytes);
  agent.pid = count_of(fields, "pid");
  agent.node_rank = static_cast<int>(number_of(fields, "node_rank", -1, kMostRanks));
  agent.ranks = static_cast<int>(number_of(fields, "ranks", 1, kMostRanks));
  agent.role = text_of(fields, "role", kNameBytes);
  agent.store_port = static_cast<int>(number_of(fields, "store_port", 0, 65535));
  if (agent.id.empty()) fields.fail("field 'id' is empty");
  return agent;
}

Failure failure_from(const JsonFields& fields) {
  Failure failure;
  failure.host = text_of(fields, "host", kNameBytes);
  failure.rank = count_of(fields, "rank");
  failure.local_rank = count_of(fields, "local_rank");
  failure.pid = count_of(fields, "pid");
  failure.exit_code = static_cast<int>(number_of(fields, "exit_code", -kMostCount, kMostCount));
  failure.signal = static_cast<int>(number_of(fields, "signal", 0, 128));
  failure.seconds = seconds_of(fields, "seconds");
  failure.consequence = fields.flag_or("consequence", false);
  failure.because = text_of(fields, "because", kLineBytes);
  failure.text = text_of(fields, "text", kFirstTextBytes);
  return failure;
}

std::vector<Failure> failures_from(const JsonFields& fields, const char* key) {
  std::vector<Failure> failures;
  for (const JsonFields& item : list_of(fields, key, kMostFailures)) {
    failures.push_back(failure_from(item));
  }
  return failures;
}

RanksReport ranks_from(const JsonFields& fields) {
  RanksReport ranks;
  ranks.generation = count_of(fields, "generation");
  ranks.kind = one_of<RanksReport::Kind>(fields, "kind", kKinds);
  ranks.failures = failures_from(fields, "failures");
  ranks.saved = fields.flag_or("saved", false);
  ranks.step = fields.integer("step");
  return ranks;
}

Refusal refusal_from(const JsonFields& fields) {
  return {text_of(fields, "id", kNameBytes),
          exit_of(fields),
          {text_of(fields, "code", kNameBytes), text_of(fields, "where", kNameBytes),
           text_of(fields, "what", kLineBytes), text_of(fields, "fix", kLineBytes)}};
}

Verdict verdict_from(const JsonFields& fields) {
  Verdict verdict;
  verdict.exit = exit_of(fields);
  verdict.because = text_of(fields, "because", kLineBytes);
  verdict.consequences = failures_from(fields, "consequences");
  if (fields.has("first")) verdict.first = failure_from(fields.object("first"));
  return verdict;
}

JsonFields parse(std::string_view bytes, std::size_t most, const char* where) {
  const JsonSource source{"LS-3021", where};
  if (bytes.size() > most) {
    throw BadData({source.code, source.where, "has " + std::to_string(bytes.size()) + " bytes",
                   "the agents of a job must be of one version of lockstep"});
  }
  return {bytes, source};
}

std::map<std::string, std::string> equal_from(const JsonFields& fields) {
  std::map<std::string, std::string> equal;
  for (const JsonFields& item : list_of(fields, "equal", kMostFields)) {
    equal[text_of(item, "field", kNameBytes)] = text_of(item, "value", kLineBytes);
  }
  return equal;
}

std::uint64_t beat_from(const JsonFields& fields) {
  return static_cast<std::uint64_t>(number_of(fields, "beat", 0, kMostExact));
}

void read_lists(const JsonFields& fields, JobState& state) {
  for (const JsonFields& item : list_of(fields, "seats", kMostSeats)) {
    const auto base = static_cast<int>(number_of(item, "base_rank", 0, kMostCount));
    state.seats.push_back({agent_from(item), base, beat_from(item)});
  }
  for (const std::string& host : fields.texts("lost")) {
    if (host.size() > 3 * kNameBytes || state.lost.size() == kMostListed) {
      fields.fail("field 'lost' is too long");
    }
    state.lost.push_back(host);
  }
  for (const JsonFields& item : list_of(fields, "refused", kMostListed)) {
    state.refused.push_back(refusal_from(item));
  }
  for (const JsonFields& item : list_of(fields, "strikes", kMostListed)) {
    state.strikes.push_back({text_of(item, "machine", kNameBytes), count_of(item, "count"),
                             seconds_of(item, "held_s")});
  }
}

ordered_json seats_json(const std::vector<Seat>& seats) {
  return to_array(seats, kMostSeats, [](const Seat& seat, std::size_t) {
    ordered_json json = to_json(seat.agent);
    json["base_rank"] = seat.base_rank;
    json["beat"] = seat.beat;
    return json;
  });
}

}  // namespace

const Seat* JobState::seat_of(const std::string& agent_id) const {
  const auto found = std::find_if(seats.begin(), seats.end(),
                                  [&](const Seat& seat) { return seat.agent.id == agent_id; });
  return found == seats.end() ? nullptr : &*found;
}

const Refusal* JobState::refusal_of(const std::string& agent_id) const {
  const auto found = std::find_if(refused.begin(), refused.end(),
                                  [&](const Refusal& refusal) { return refusal.id == agent_id; });
  return found == refused.end() ? nullptr : &*found;
}

std::string name_of(const Agent& agent) {
  return agent.host + " (pid " + std::to_string(agent.pid) + ")";
}

namespace {

/// Without what is only for people.
std::vector<Failure> brief(std::vector<Failure> failures) {
  if (failures.size() > 1) failures.resize(1);
  for (Failure& failure : failures) failure.text.clear();
  return failures;
}

ordered_json to_json(const Record& record) {
  ordered_json json = to_json(record.agent);
  json["machine"] = cut(record.agent.machine, kNameBytes);
  json["equal"] = to_json(record.agent.equal);
  json["beat"] = record.beat;
  json["version"] = record.version;
  json["generation"] = record.generation;
  json["cleared"] = record.cleared;
  json["state_of_ranks"] = to_json(record.ranks);
  json["leaving"] = record.leaving;
  json["finished"] = record.finished;
  return json;
}

}  // namespace

std::string to_bytes(const Record& record) {
  std::string bytes = to_line(to_json(record));
  if (bytes.size() <= kMostRecordBytes) return bytes;
  Record shorter = record;
  shorter.ranks.failures = brief(record.ranks.failures);
  return to_line(to_json(shorter));
}

Record record_from(std::string_view bytes) {
  const JsonFields fields = parse(bytes, kMostRecordBytes, "an agent's record");
  Record record;
  record.agent = agent_from(fields);
  record.agent.machine = text_of(fields, "machine", kNameBytes);
  record.agent.equal = equal_from(fields);
  record.beat = beat_from(fields);
  record.version = static_cast<std::uint64_t>(number_of(fields, "version", 0, kMostExact));
  record.generation = count_of(fields, "generation");
  record.cleared = count_of(fields, "cleared");
  record.ranks = ranks_from(fields.object("state_of_ranks"));
  record.leaving = fields.flag_or("leaving", false);
  record.finished = fields.flag_or("finished", false);
  return record;
}

namespace {

ordered_json to_json(const JobState& state) {
  ordered_json json{{"run_id", cut(state.run_id, kNameBytes)},
                    {"leader", cut(state.leader, kNameBytes)},
                    {"leader_name", cut(state.leader_name, kLineBytes)},
                    {"version", state.version},
                    {"phase", name_in(kPhases, state.phase)},
                    {"generation", state.generation},
                    {"first_generation", state.first_generation},
                    {"restart_count", state.restart_count},
                    {"max_restarts", state.max_restarts},
                    {"cause", name_in(kCauses, state.cause)},
                    {"because", cut(state.because, kLineBytes)},
                    {"waiting_for", cut(state.waiting_for, kLineBytes)},
                    {"last_end", cut(state.last_end, kLineBytes)},
                    {"best_step", state.best_step},
                    {"rounds_at_best", state.rounds_at_best}};
  json["seats"] = seats_json(state.seats);
  json["equal"] = to_json(state.equal);
  json["lost"] = to_array(state.lost, kMostListed, [](const std::string& host, std::size_t) {
    return cut(host, kNameBytes);
  });
  json["refused"] = to_array(state.refused, kMostListed,
                             [](const Refusal& item, std::size_t) { return to_json(item); });
  json["strikes"] = to_array(state.strikes, kMostListed, [](const Strikes& item, std::size_t) {
    return ordered_json{
        {"machine", cut(item.machine, kNameBytes)}, {"count", item.count}, {"held_s", item.held_s}};
  });
  if (state.verdict) json["verdict"] = to_json(*state.verdict);
  return json;
}

}  // namespace

std::string to_bytes(const JobState& state) {
  std::string bytes = to_line(to_json(state));
  if (bytes.size() <= kMostStateBytes || !state.verdict) return bytes;
  JobState shorter = state;
  if (shorter.verdict->first) shorter.verdict->first->text.clear();
  shorter.verdict->consequences = brief(state.verdict->consequences);
  return to_line(to_json(shorter));
}

JobState state_from(std::string_view bytes) {
  const JsonFields fields = parse(bytes, kMostStateBytes, "the state of the job");
  JobState state;
  state.run_id = text_of(fields, "run_id", kNameBytes);
  state.leader = text_of(fields, "leader", kNameBytes);
  state.leader_name = text_of(fields, "leader_name", kLineBytes);
  state.version = static_cast<std::uint64_t>(number_of(fields, "version", 0, kMostExact));
  state.phase = one_of<JobState::Phase>(fields, "phase", kPhases);
  state.generation = count_of(fields, "generation");
  state.first_generation = count_of(fields, "first_generation");
  state.restart_count = count_of(fields, "restart_count");
  state.max_restarts = count_of(fields, "max_restarts");
  state.cause = one_of<StopCause>(fields, "cause", kCauses);
  state.because = text_of(fields, "because", kLineBytes);
  state.waiting_for = text_of(fields, "waiting_for", kLineBytes);
  state.last_end = text_of(fields, "last_end", kLineBytes);
  state.best_step = fields.integer("best_step");
  state.rounds_at_best = count_of(fields, "rounds_at_best");
  state.equal = equal_from(fields);
  read_lists(fields, state);
  if (fields.has("verdict")) state.verdict = verdict_from(fields.object("verdict"));
  if (state.phase == JobState::Phase::ended && !state.verdict) {
    fields.fail("has ended without a verdict");
  }
  return state;
}

}  // namespace lockstep::rendezvous
