#include "lockstep/comm/records/flight_verdict.h"

#include <algorithm>
#include <array>

#include "lockstep/comm/records/flight_words.h"
#include "lockstep/comm/records/stuck_collective.h"
#include "lockstep/comm/records/stuck_message.h"

namespace lockstep::comm {
namespace {

constexpr double kSilentS = 10;   // the heart beats every half second
constexpr double kComputing = 6;  // times the patience while nobody needs the result yet
constexpr std::size_t kTold = 4;  // ranks that are told of one by one

bool is_gone(const Member& member) { return member.view->process.state == ProcessState::gone; }
bool is_stopped(const Member& member) {
  return member.view->process.state == ProcessState::stopped;
}

std::vector<int> ranks_of(const std::vector<const Member*>& members) {
  std::vector<int> ranks;
  for (const Member* member : members) ranks.push_back(member->rank());
  return ranks;
}

template <typename Condition>
std::vector<const Member*> those(const std::vector<const Member*>& members, Condition condition) {
  std::vector<const Member*> out;
  std::copy_if(members.begin(), members.end(), std::back_inserter(out),
               [&](const Member* member) { return condition(*member); });
  return out;
}

std::string have(const std::vector<int>& ranks) { return ranks.size() == 1 ? " has" : " have"; }

/// What `view` may be waiting for itself: an open collective of another group than `group`, or a
/// message.
const CollectiveRecord* open_elsewhere(const RankView& view, const std::string& group) {
  for (const CollectiveRecord& record : view.flight.records) {
    if (!record.in_flight()) continue;
    if (record.message || view.flight.groups[record.group].name != group) return &record;
  }
  return nullptr;
}

double phase_s(const RankView& view) {
  return static_cast<double>(last_seen_ns(view) - view.flight.phase_since_ns) * 1e-9;
}

/// What a rank that others wait for does instead: "has been in data wait for 14.8 s".
std::string occupation(const RankView& view, const std::string& group) {
  const std::string phase = phase_text(view.flight.phase);
  const double silent_s = static_cast<double>(view.now_ns - view.flight.heartbeat_ns) * 1e-9;
  if (view.process.state == ProcessState::gone) return process_text(view) + ", last in " + phase;
  if (view.process.state == ProcessState::stopped) {
    return process_text(view) + ", in " + phase + " for " + duration_text(phase_s(view));
  }
  std::string busy = "has been in " + phase + " for " + duration_text(phase_s(view));
  if (const CollectiveRecord* other = open_elsewhere(view, group)) {
    busy += ", with " + collective_text(*other, view.flight.groups[other->group].name) +
            " open for " + duration_text(waited_s(view, *other));
  }
  if (view.process.state != ProcessState::unknown || silent_s < kSilentS) return busy;
  return busy + ", without a sign of life from " + view.flight.process.host + " for " +
         duration_text(silent_s);
}

/// "ranks 0, 2, 3 have waited for 14.6 s; rank 4 gave up after 120 s"
std::string waiters_text(const StuckCollective& stuck) {
  std::string text;
  for (const bool failed : {false, true}) {
    std::vector<int> ranks;
    double longest_s = 0;
    for (const Member* member : stuck.waiting) {
      const CollectiveRecord& record = *member->find(stuck.record->sequence);
      if ((record.state == CollectiveState::failed) != failed) continue;
      if (!failed && (is_gone(*member) || is_stopped(*member))) continue;  // it does not wait
      ranks.push_back(member->rank());
      longest_s = std::max(longest_s, waited_s(*member->view, record));
    }
    if (ranks.empty()) continue;
    text += "; " + rank_list(ranks) + (failed ? " gave up after " : have(ranks) + " waited for ") +
            duration_text(longest_s);
  }
  return text;
}

Verdict about(const StuckCollective& stuck) {
  Verdict verdict;
  verdict.group = stuck.group->name;
  verdict.op = stuck.record->op;
  verdict.sequence = stuck.record->sequence;
  verdict.site = stuck.record->site;
  return verdict;
}

std::string call_text(const CollectiveRecord& record) {
  std::string text = record.op;
  if (!record.dtype.empty()) text += " of " + std::to_string(record.count) + " " + record.dtype;
  return record.site.empty() ? text : text + " (" + record.site + ")";
}

/// Ranks that entered the same are told together.
Verdict mismatch(const StuckCollective& stuck) {
  Verdict verdict = about(stuck);
  verdict.kind = VerdictKind::mismatch;
  std::vector<std::pair<std::string, std::vector<int>>> calls;
  for (const Member& member : stuck.group->members) {
    const CollectiveRecord* record = member.find(verdict.sequence);
    if (record == nullptr) continue;
    verdict.ranks.push_back(member.rank());
    const std::string call = call_text(*record);
    const auto same =
        std::find_if(calls.begin(), calls.end(), [&](const auto& c) { return c.first == call; });
    if (same == calls.end()) {
      calls.push_back({call, {member.rank()}});
    } else {
      same->second.push_back(member.rank());
    }
  }
  verdict.text = "ranks entered different collectives as #" + std::to_string(verdict.sequence) +
                 " of group " + verdict.group + ": ";
  for (std::size_t i = 0; i < calls.size(); ++i) {
    verdict.text += (i == 0 ? "" : "; ") + rank_list(calls[i].second) + " " + calls[i].first;
  }
  return verdict;
}

/// Ranks have not entered: whom to blame, and what they do instead.
Verdict missing(const StuckCollective& stuck) {
  Verdict verdict = about(stuck);
  const auto gone = those(stuck.missing, is_gone);
  const auto stopped = those(stuck.missing, is_stopped);
  std::vector<int> late = ranks_of(stuck.missing);
  late.insert(late.end(), stuck.group->absent.begin(), stuck.group->absent.end());
  std::sort(late.begin(), late.end());
  verdict.kind = !gone.empty()            ? VerdictKind::ended
                 : !stopped.empty()       ? VerdictKind::stopped
                 : !stuck.missing.empty() ? VerdictKind::missing
                                          : VerdictKind::absent;
  verdict.ranks = !gone.empty() ? ranks_of(gone) : !stopped.empty() ? ranks_of(stopped) : late;
  verdict.text = late.empty() ? std::to_string(stuck.group->unknown) + " ranks without a record"
                              : rank_list(late);
  verdict.text += (late.empty() ? " have" : have(late)) + " not entered " +
                  collective_text(*stuck.record, verdict.group);
  for (std::size_t i = 0; i < std::min(stuck.missing.size(), kTold); ++i) {
    const Member& member = *stuck.missing[i];
    verdict.text += late.size() == 1 ? "; it " : "; " + rank_list({member.rank()}) + " ";
    verdict.text += occupation(*member.view, verdict.group);
  }
  const std::vector<int>& absent = stuck.group->absent;
  if (!absent.empty())
    verdict.text += "; " + rank_list(absent) + have(absent) + " no flight record";
  verdict.text += waiters_text(stuck);
  return verdict;
}

/// All have entered, and still it does not end.
Verdict inside(const StuckCollective& stuck) {
  Verdict verdict = about(stuck);
  std::vector<const Member*> members;
  for (const Member& member : stuck.group->members) members.push_back(&member);
  const std::string where = collective_text(*stuck.record, verdict.group);
  for (const bool gone : {true, false}) {
    auto dead = those(members, gone ? is_gone : is_stopped);
    if (dead.empty()) continue;
    // Who gave up ended afterwards, as a consequence.
    const auto causes = those(dead, [&](const Member& member) {
      const CollectiveRecord* own = member.find(verdict.sequence);
      return own == nullptr || own->state != CollectiveState::failed;
    });
    if (!causes.empty()) dead = causes;
    verdict.kind = gone ? VerdictKind::ended : VerdictKind::stopped;
    verdict.ranks = ranks_of(dead);
    for (std::size_t i = 0; i < std::min(dead.size(), kTold); ++i) {
      verdict.text +=
          (i == 0 ? "" : "; ") + rank_list({dead[i]->rank()}) + " " + process_text(*dead[i]->view);
    }
    verdict.text += " while the group is inside " + where + waiters_text(stuck);
    return verdict;
  }
  verdict.kind = VerdictKind::inside;
  verdict.ranks = ranks_of(stuck.waiting);
  const bool all = verdict.ranks.size() == members.size();
  verdict.text = (all ? "all " + std::to_string(members.size()) + " ranks are"
                      : rank_list(verdict.ranks) + (verdict.ranks.size() == 1 ? " is" : " are")) +
                 " inside " + where + ", which every rank entered and which does not end" +
                 waiters_text(stuck) + "; look at the network between them";
  return verdict;
}

Verdict verdict_on(const StuckCollective& stuck) {
  if (stuck.differs) return mismatch(stuck);
  return stuck.all_entered() ? inside(stuck) : missing(stuck);
}

/// A message with its ends as ranks of the job.
std::string message_text(const StuckMessage& stuck) {
  CollectiveRecord record = *stuck.record;
  if (stuck.peer != nullptr) record.message->peer = stuck.peer->flight.rank;
  return collective_text(record, stuck.group());
}

Verdict verdict_on(const StuckMessage& stuck) {
  const CollectiveRecord& record = *stuck.record;
  Verdict verdict;
  verdict.group = stuck.group();
  verdict.op = record.op;
  verdict.site = record.site;
  verdict.text = rank_list({stuck.waiter->flight.rank}) +
                 (record.in_flight() ? " has waited for " : " gave up after ") +
                 duration_text(stuck.wait_s()) + " in " + message_text(stuck);
  if (stuck.peer == nullptr) {
    const bool any = record.message->peer < 0;
    verdict.kind = any ? VerdictKind::missing : VerdictKind::absent;
    verdict.text += any ? ", which no rank has sent" : "; that rank has no flight record";
    return verdict;
  }
  verdict.ranks = {stuck.peer->flight.rank};
  const ProcessState process = stuck.peer->process.state;
  const std::string peer = "; " + rank_list(verdict.ranks) + " ";
  if (process != ProcessState::gone && process != ProcessState::stopped && stuck.other != nullptr) {
    verdict.kind = VerdictKind::inside;
    verdict.ranks.push_back(stuck.waiter->flight.rank);
    std::sort(verdict.ranks.begin(), verdict.ranks.end());
    verdict.text += peer + "has been in its " + stuck.other->op + " for " +
                    duration_text(waited_s(*stuck.peer, *stuck.other)) + ", and they do not end";
    return verdict;
  }
  verdict.kind = process == ProcessState::gone      ? VerdictKind::ended
                 : process == ProcessState::stopped ? VerdictKind::stopped
                                                    : VerdictKind::missing;
  verdict.text += peer + occupation(*stuck.peer, "");
  return verdict;
}

/// One of the two.
struct Stuck {
  const StuckCollective* collective = nullptr;
  const StuckMessage* message = nullptr;

  friend bool operator==(const Stuck&, const Stuck&) = default;
};

Verdict verdict_on(const Stuck& stuck) {
  return stuck.collective != nullptr ? verdict_on(*stuck.collective) : verdict_on(*stuck.message);
}

bool waits_in(const Stuck& stuck, const RankView& view) {
  if (stuck.message != nullptr) return stuck.message->waiter == &view;
  const auto& waiting = stuck.collective->waiting;
  return std::any_of(waiting.begin(), waiting.end(),
                     [&](const Member* member) { return member->view == &view; });
}

/// Those it lacks, as long as each of them may wait for something itself.
std::vector<const RankView*> late_in(const Stuck& stuck) {
  std::vector<const RankView*> late;
  if (stuck.message != nullptr) {
    if (stuck.message->peer != nullptr && stuck.message->other == nullptr) {
      late.push_back(stuck.message->peer);
    }
  } else if (!stuck.collective->differs && stuck.collective->group->absent.empty()) {
    for (const Member* member : stuck.collective->missing) late.push_back(member->view);
  }
  const bool runs = std::all_of(late.begin(), late.end(), [](const RankView* view) {
    return view->process.state != ProcessState::gone &&
           view->process.state != ProcessState::stopped;
  });
  return runs ? late : std::vector<const RankView*>{};
}

/// From who is missing to what that rank waits for itself, again and again, up to the cause. Ranks
/// that wait for each other end the way where it would close.
Stuck cause_of(const Stuck& first, const std::vector<Stuck>& all) {
  std::vector<Stuck> way{first};
  const auto go_on = [&] {
    for (const RankView* late : late_in(way.back())) {
      for (const Stuck& other : all) {
        const bool is_new = std::find(way.begin(), way.end(), other) == way.end();
        if (!is_new || !waits_in(other, *late)) continue;
        way.push_back(other);
        return true;
      }
    }
    return false;
  };
  while (go_on()) {
  }
  return way.back();
}

bool computes(const RankView& view) {
  return view.flight.phase == Phase::forward || view.flight.phase == Phase::backward;
}

/// Whether those that entered it go on with their own work meanwhile, as far as one can see.
bool only_computes(const Stuck& stuck) {
  if (stuck.message != nullptr) return computes(*stuck.message->waiter);
  const auto& waiting = stuck.collective->waiting;
  return std::all_of(waiting.begin(), waiting.end(),
                     [](const Member* member) { return computes(*member->view); });
}

bool gave_up(const Stuck& stuck) {
  return stuck.message != nullptr ? !stuck.message->record->in_flight() : stuck.collective->gave_up;
}

double waited_in(const Stuck& stuck) {
  if (stuck.message != nullptr) return stuck.message->wait_s();
  const StuckCollective& collective = *stuck.collective;
  return collective.all_entered() ? collective.shortest_wait_s() : collective.longest_wait_s();
}

bool is_overdue(const Stuck& stuck, double patience_s) {
  const VerdictKind kind = verdict_on(stuck).kind;
  const bool at_once =
      kind == VerdictKind::mismatch || kind == VerdictKind::ended || kind == VerdictKind::stopped;
  if (at_once || gave_up(stuck)) return true;
  return waited_in(stuck) >= patience_s * (only_computes(stuck) ? kComputing : 1);
}

/// Collectives first, and what lasts longest.
std::vector<Stuck> by_weight(const std::vector<StuckCollective>& collectives,
                             const std::vector<StuckMessage>& messages) {
  std::vector<Stuck> order;
  for (const StuckCollective& one : collectives) order.push_back({&one, nullptr});
  for (const StuckMessage& one : messages) order.push_back({nullptr, &one});
  std::stable_sort(order.begin(), order.end(), [](const Stuck& a, const Stuck& b) {
    if ((a.message == nullptr) != (b.message == nullptr)) return a.message == nullptr;
    if (a.message != nullptr) return a.message->wait_s() > b.message->wait_s();
    if (a.collective->differs != b.collective->differs) return a.collective->differs;
    return a.collective->longest_wait_s() > b.collective->longest_wait_s();
  });
  return order;
}

/// Processes that stopped or ended, whether or not somebody waits for them yet.
Verdict processes(const std::vector<RankView>& views, ProcessState state) {
  Verdict verdict;
  for (const RankView& view : views) {
    if (view.process.state != state || view.flight.finished) continue;
    if (verdict.ranks.size() < kTold) {
      verdict.text += (verdict.text.empty() ? "" : "; ") + rank_list({view.flight.rank}) + " " +
                      occupation(view, "");
    }
    verdict.ranks.push_back(view.flight.rank);
  }
  if (verdict.ranks.empty()) return verdict;
  verdict.kind = state == ProcessState::gone ? VerdictKind::ended : VerdictKind::stopped;
  std::sort(verdict.ranks.begin(), verdict.ranks.end());
  return verdict;
}

std::string ranks_count(std::size_t count) {
  return count == 1 ? "the only rank" : "all " + std::to_string(count) + " ranks";
}

Verdict all_well(const std::vector<RankView>& views, double patience_s) {
  Verdict verdict;
  const RankView* slowest = nullptr;
  const CollectiveRecord* last = nullptr;
  const RankView* of_last = nullptr;
  bool finished = !views.empty();
  for (const RankView& view : views) {
    finished = finished && view.flight.finished;
    if (slowest == nullptr || phase_s(view) > phase_s(*slowest)) slowest = &view;
    if (view.flight.records.empty()) continue;
    const CollectiveRecord& own = view.flight.records.back();
    if (last == nullptr || own.entered_ns > last->entered_ns) {
      last = &own;
      of_last = &view;
    }
  }
  if (finished) {
    verdict.kind = VerdictKind::finished;
    verdict.text = "the job has ended: " + ranks_count(views.size()) + " finished";
    return verdict;
  }
  if (slowest != nullptr && phase_s(*slowest) > patience_s) {
    verdict.text = "no rank keeps others waiting; " + rank_list({slowest->flight.rank}) + " " +
                   occupation(*slowest, "");
    return verdict;
  }
  verdict.text = ranks_count(views.size()) + (views.size() == 1 ? " moves" : " move");
  if (last != nullptr) {
    verdict.text += "; the last collective is " +
                    collective_text(*last, of_last->flight.groups[last->group].name);
  }
  return verdict;
}

}  // namespace

std::string_view name(VerdictKind kind) {
  static constexpr std::array<std::string_view, 8> kNames{
      "healthy", "finished", "missing", "ended", "stopped", "mismatch", "inside", "absent"};
  return kNames.at(static_cast<std::size_t>(kind));
}

Verdict judge(const std::vector<RankView>& views, const VerdictOptions& options) {
  const std::vector<GroupView> groups = groups_of(views);
  const std::vector<StuckCollective> collectives = stuck_collectives(groups);
  const std::vector<StuckMessage> messages = stuck_messages(views);
  const std::vector<Stuck> stuck = by_weight(collectives, messages);
  for (const Stuck& one : stuck) {
    if (is_overdue(one, options.patience_s)) return verdict_on(cause_of(one, stuck));
  }
  for (const ProcessState state : {ProcessState::stopped, ProcessState::gone}) {
    Verdict verdict = processes(views, state);
    if (!verdict.ranks.empty()) return verdict;
  }
  return all_well(views, options.patience_s);
}

}  // namespace lockstep::comm
