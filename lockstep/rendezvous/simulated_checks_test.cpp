// What must hold in a simulated job at every moment.
#include <algorithm>

#include "lockstep/rendezvous/simulated_job_testing.h"

namespace lockstep::rendezvous::testing {
namespace {

/// After a fault has ended what it did may still show: silence is noticed, connections are made
/// anew.
constexpr double kAftermathS = 12;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

void SimulatedJob::check_start(int agent, const Round& round) {
  Process& own = process(agent);
  result_.rounds = std::max(result_.rounds, round.generation);
  result_.restarts = std::max(result_.restarts, round.restart_count);
  if (round.generation <= own.newest_generation) violate("a generation does not grow");
  own.newest_generation = round.generation;
  if (round.restart_count > setup_.settings.max_restarts) violate("more restarts than allowed");
  for (const Seat& seat : round.seats) {
    const int other = std::stoi(seat.agent.id.substr(5));
    if (process(other).is_stranger != own.is_stranger) violate("two versions in one round");
  }
  if (round.seats.at(round.own_seat).agent.id != own.id) violate("the seat of another agent");
  if (own.is_asked && host(own.host).touched_s < simulation_.now_s() - kAftermathS) {
    violate("an agent that was asked to stop starts ranks");
  }
  std::string seats;
  int base_rank = 0;
  for (const Seat& seat : round.seats) {
    if (seat.base_rank != base_rank) violate("ranks are not numbered through");
    base_rank += seat.agent.ranks;
    seats += seat.agent.id + " ";
  }
  const auto count = static_cast<int>(round.seats.size());
  if (count < setup_.settings.min_nodes || count > setup_.settings.max_nodes) {
    violate("a round of too few or too many hosts");
  }
  Group& group = groups_[key_of(agent)];
  if (group.count == 0) {
    group.count = round.seats.size();
    group.seats = seats;
  } else if (group.seats != seats) {
    violate("two rounds of one generation");
  }
  check_alone(agent);
}

/// Ranks of two rounds never live at the same time.
void SimulatedJob::check_alone(int agent) {
  const GroupKey key = key_of(agent);
  for (std::size_t other = 0; other < processes_.size(); ++other) {
    const Process& one = *processes_[other];
    if (!one.ranks.are_live || host(one.host).is_frozen || !host(one.host).is_up) continue;
    const GroupKey its = key_of(static_cast<int>(other));
    const bool is_double = setup_.has_node_ranks && one.host == process(agent).host &&
                           static_cast<int>(other) != agent && its.first == key.first;
    if (is_double) violate("two agents have one node rank");
    if (its != key) {
      violate("two live groups: " + name(agent) + " has ranks of round " +
              std::to_string(key.second) + " and " + name(static_cast<int>(other)) + " of " +
              std::to_string(its.second) +
              (its.first == key.first ? "" : ", of another start of the job"));
    }
  }
}

/// Who is refused is not who was there first.
void SimulatedJob::check_refusal(int agent, const Finish& finish) {
  if (!finish.refusal || finish.verdict.exit == Exit::environment) return;
  ++result_.seen["refused " + finish.refusal->code];
  const Process& own = process(agent);
  const bool is_outside = setup_.has_node_ranks && own.host >= setup_.settings.max_nodes;
  if (finish.refusal->code == "LS-3023" || is_outside) {
    const bool was_led_by_stranger = std::any_of(processes_.begin(), processes_.end(),
                                                 [](const auto& one) { return one->is_stranger; });
    if (!is_outside && !was_led_by_stranger) violate(name(agent) + " is refused for nothing");
    return;
  }
  bool has_predecessor = false;
  for (std::size_t other = 0; other < processes_.size(); ++other) {
    has_predecessor = has_predecessor ||
                      (static_cast<int>(other) != agent && processes_[other]->host == own.host);
  }
  if (!has_predecessor || !setup_.has_node_ranks) {
    violate(name(agent) + " is refused for another that was never there");
  }
}

void SimulatedJob::check_announced(int agent, const JobState& state) {
  if (!checks_words_) return;
  if (state.phase == JobState::Phase::stopping) {
    static constexpr std::array<const char*, 6> kCauses{"none", "failure", "lost",
                                                        "left", "joined",  "asked"};
    ++result_.seen[std::string("stop: ") + kCauses.at(static_cast<std::size_t>(state.cause))];
  }
  const GroupKey key{board_->lineage(agent), state.generation};
  const bool is_stop = state.phase == JobState::Phase::stopping;
  const double since_s = simulation_.now_s() - kAftermathS;
  // A new leader says again what the one before found out.
  if (is_stop && state.cause == StopCause::lost && accused_.insert(key).second) {
    bool is_fault = service_touched_s_ >= since_s || host(process(agent).host).touched_s >= since_s;
    bool names_one = false;
    bool befell_any = false;
    for (std::size_t index = 0; index < hosts_.size(); ++index) {
      const bool is_named = contains(state.because, "host" + std::to_string(index) + " ");
      const bool is_touched = hosts_[index].touched_s >= since_s;
      is_fault = is_fault || (is_named && is_touched);
      names_one = names_one || is_named;
      befell_any = befell_any || is_touched;
    }
    // "The agent that led before had begun another round": who comes back tells, not who is lost.
    is_fault = is_fault || (!names_one && befell_any);
    if (!is_fault) violate("a host is called lost that nothing befell: " + state.because);
  }
  if (is_stop && state.cause == StopCause::failure && state.because.empty()) {
    violate("a failure without a name");
  }
  if (state.phase == JobState::Phase::ended) check_named(state, key);
}

void SimulatedJob::check_named(const JobState& state, const GroupKey& key) {
  const Verdict& verdict = *state.verdict;
  const auto found = groups_.find(key);
  if (verdict.exit == Exit::ok) {
    if (found == groups_.end() || found->second.succeeded != found->second.count) {
      violate("the job is called a success and is none");
    }
    return;
  }
  if (!verdict.first && verdict.because.empty()) violate("a verdict without a cause");
  if (found == groups_.end() || state.cause != StopCause::failure) return;
  std::string named = verdict.because + " ";
  if (verdict.first) named += verdict.first->host + " ";
  for (const Failure& failure : verdict.consequences) named += failure.host + " ";
  for (const auto& [where, time_s] : found->second.causes) {
    const bool is_late = time_s > simulation_.now_s() - 3;
    const auto index = static_cast<std::size_t>(std::stoi(where.substr(4)));
    const bool was_hit =
        hosts_[index].touched_s > time_s - kAftermathS || service_touched_s_ > time_s - kAftermathS;
    if (!is_late && !was_hit && !contains(named, where + " ")) {
      violate("the verdict does not name the failure on " + where + ": " + named);
    }
  }
}

void SimulatedJob::check_bytes(const Record& record) {
  if (record_from(to_bytes(record)) != record) violate("a record changes on its way");
}

void SimulatedJob::check_bytes(const JobState& state) {
  if (state_from(to_bytes(state)) != state) violate("a state changes on its way");
}

void SimulatedJob::check_end() {
  const bool are_all_gone = std::all_of(processes_.begin(), processes_.end(),
                                        [](const auto& one) { return !one->is_alive; });
  if (!are_all_gone) violate("nothing more happens, and the job has not ended");
  for (std::size_t agent = 0; agent < processes_.size(); ++agent) {
    const Process& own = *processes_[agent];
    if (!own.finish) continue;  // it was killed
    const Verdict& verdict = own.finish->verdict;
    if (verdict.exit != Exit::ok && !verdict.first && verdict.because.empty()) {
      violate(name(static_cast<int>(agent)) + " was not told why it ended");
    }
    if (own.ranks.are_live) violate(name(static_cast<int>(agent)) + " left ranks behind");
  }
  if (checks_words_ && result_.faults.empty() && setup_.late_hosts == 0 && !result_.has_succeeded) {
    violate("a job without faults did not succeed");
  }
}

}  // namespace lockstep::rendezvous::testing
