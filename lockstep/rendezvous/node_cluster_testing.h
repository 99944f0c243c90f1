// Nodes that hear each other at once and whose clock a test moves: for single rules.
#pragma once
#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/rendezvous/node.h"

namespace lockstep::rendezvous::testing {

class Cluster {
 public:
  /// What one agent was told to do.
  struct Seen {
    std::vector<Round> rounds{};
    std::vector<double> round_at_s{};
    std::optional<StopRanks> stop{};  // of the ranks that run
    double stop_at_s = 0;
    std::optional<Finish> finish{};
    double finish_at_s = 0;
    std::vector<std::string> notes{};
    std::vector<double> note_at_s{};
  };

  explicit Cluster(NodeSettings settings) : settings_(std::move(settings)) {
    settings_.run_id = "job";
  }

  /// Nobody leads until lead() says so.
  void wait_for_leader() { is_leader_chosen_ = true; }
  /// \returns its number. The first agent leads.
  int add(const std::string& host, int node_rank = -1, const std::string& machine = "",
          const std::map<std::string, std::string>& equal = {}) {
    const int number = static_cast<int>(members_.size());
    Agent agent;
    agent.id = "agent" + std::to_string(number);
    agent.host = host;
    agent.address = "10.0.0." + std::to_string(number);
    agent.pid = 100 + number;
    agent.machine = machine.empty() ? host : machine;
    agent.node_rank = node_rank;
    agent.equal = equal;
    auto fresh = std::make_unique<Member>();
    fresh->node = std::make_unique<Node>(agent, settings_, now_s_);
    fresh->id = agent.id;
    members_.push_back(std::move(fresh));
    if (leader_ < 0 && !is_leader_chosen_) lead(number, nullptr);
    if (state_) give(number, StateCame{state_});
    give(number, TimePassed{});
    return number;
  }

  void lead(int number, const std::shared_ptr<const JobState>& last,
            double led_until_s = -std::numeric_limits<double>::infinity()) {
    leader_ = number;
    give(number, Leading{last, led_until_s});
    for (const auto& member : members_) {
      if (member->record && !member->is_dead) give(number, RecordCame{member->record});
    }
    if (!settings_.ends_with_leader) give(number, AllListed{});
  }

  /// The board does: an agent that comes later is told of no state.
  void forget() { state_.reset(); }

  void give(int number, const NodeInput& input) {
    Member& own = *members_.at(static_cast<std::size_t>(number));
    if (own.is_dead || own.is_stopped) return;
    for (const NodeOutput& output : own.node->step(now_s_, input)) {
      std::visit([&](const auto& wanted) { act(number, wanted); }, output);
    }
  }

  void run_for(double seconds) {
    for (const double end_s = now_s_ + seconds; now_s_ < end_s;) {
      now_s_ += 0.01;
      for (std::size_t number = 0; number < members_.size(); ++number) {
        if (now_s_ >= members_[number]->node->wake_at_s()) {
          give(static_cast<int>(number), TimePassed{});
        }
      }
    }
  }

  /// The process is gone; the leader is told only by told_gone().
  void kill(int number) { members_.at(std::size_t(number))->is_dead = true; }
  /// It only stood still.
  void revive(int number) { members_.at(std::size_t(number))->is_dead = false; }
  void tell_gone(int number, bool proven = false) {
    give(leader_, AgentGone{members_.at(std::size_t(number))->id, proven});
  }
  void stop_process(int number, bool value) {
    members_.at(std::size_t(number))->is_stopped = value;
  }
  /// What it says does not arrive, and is not answered.
  void mute(int number, bool value) { members_.at(std::size_t(number))->is_mute = value; }

  void end_ranks(int number, RoundEnd::Kind kind, std::int64_t step = -1, bool saved = false) {
    RoundEnd end;
    end.kind = kind;
    end.step = step;
    end.saved = saved;
    seen(number).stop.reset();
    give(number, RanksEnded{end});
  }
  void fail_ranks(int number, double after_s, bool is_consequence = false, std::int64_t step = -1,
                  int exit_code = 1) {
    RoundEnd end;
    end.kind = RoundEnd::Kind::failed;
    end.step = step;
    end.failure.host = "h" + std::to_string(number);
    end.failure.seconds = after_s;
    end.failure.exit_code = exit_code;
    end.failure.consequence = is_consequence;
    seen(number).stop.reset();
    give(number, RanksEnded{end});
  }
  /// As launchers do that were told to stop.
  void stop_all_told() {
    for (std::size_t number = 0; number < members_.size(); ++number) {
      if (members_[number]->seen.stop) {
        end_ranks(static_cast<int>(number), RoundEnd::Kind::interrupted);
      }
    }
  }

  [[nodiscard]] Seen& seen(int number) { return members_.at(std::size_t(number))->seen; }
  [[nodiscard]] const JobState& state() const { return *state_; }
  [[nodiscard]] const std::shared_ptr<const JobState>& state_pointer() const { return state_; }
  [[nodiscard]] Node& node(int number) { return *members_.at(std::size_t(number))->node; }
  [[nodiscard]] double now_s() const { return now_s_; }
  [[nodiscard]] int rounds(int number) { return static_cast<int>(seen(number).rounds.size()); }

 private:
  struct Member {
    std::unique_ptr<Node> node;
    std::string id;
    std::shared_ptr<const Record> record;
    bool is_dead = false;
    bool is_stopped = false;
    bool is_mute = false;
    Seen seen;
  };

  void act(int number, const Publish& publish) {
    Member& own = *members_.at(static_cast<std::size_t>(number));
    if (own.is_mute || leader_ < 0) return;
    own.record = publish.record;
    const Member& leader = *members_.at(static_cast<std::size_t>(leader_));
    if (leader.is_dead) return;
    if (number != leader_) give(leader_, RecordCame{publish.record});
    give(number, Heard{now_s_});
  }
  void act(int number, const Announce& announce) {
    if (number != leader_) return;
    state_ = announce.state;
    for (std::size_t other = 0; other < members_.size(); ++other) {
      give(static_cast<int>(other), StateCame{announce.state});
    }
  }
  void act(int number, const StartRanks& start) {
    seen(number).rounds.push_back(start.round);
    seen(number).round_at_s.push_back(now_s_);
    seen(number).stop.reset();
  }
  void act(int number, const StopRanks& stop) {
    seen(number).stop = stop;
    seen(number).stop_at_s = now_s_;
  }
  void act(int number, const Finish& finish) {
    seen(number).finish = finish;
    seen(number).finish_at_s = now_s_;
    kill(number);
    if (number != leader_) tell_gone(number);
  }
  void act(int number, const Note& note) {
    seen(number).notes.push_back(note.text);
    seen(number).note_at_s.push_back(now_s_);
  }

  NodeSettings settings_;
  std::vector<std::unique_ptr<Member>> members_;
  std::shared_ptr<const JobState> state_;
  int leader_ = -1;
  bool is_leader_chosen_ = false;  // by the test
  double now_s_ = 1000;
};

}  // namespace lockstep::rendezvous::testing
