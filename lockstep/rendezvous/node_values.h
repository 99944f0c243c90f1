// What goes into the rules of membership (rendezvous/node.h) and what comes out.
#pragma once
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "lockstep/rendezvous/records.h"
#include "lockstep/rendezvous/session.h"

namespace lockstep::rendezvous {

/// Times of membership. All agents of a job must have the same.
struct NodeTimes {
  double heartbeat_s = 0.5;  // between records, at most
  double fence_s = 2.5;      // an agent not answered for so long kills its ranks
  double lost_s = 4;         // and the leader gives it up
  double suspect_s = 0.5;    // when all that failed lost a peer: for the cause to show
  double settle_s = 1;       // hosts that come close together come into one round
  double linger_s = 3;       // of a leader, for others to read the verdict
  double tell_s = 5;         // between notes on what is waited for
  double hold_s = 10;        // a host that came and went is held off; doubled each time
  double longest_hold_s = 100;
  double forgive_s = 600;  // in the job without going: earlier times are forgotten
};

struct NodeSettings {
  std::string run_id;
  int min_nodes = 1;
  int max_nodes = 1;
  int max_restarts = 0;
  double join_timeout_s = 600;
  double last_call_s = 30;                  // before the first round, once min_nodes are there
  bool ends_with_leader = false;            // the board goes with the leader's host
  bool one_agent_a_machine = false;         // as under Slurm
  bool ours = false;                        // ranks keep the exit codes of docs/cli.md
  std::set<std::string> may_differ;         // fields of Agent::equal
  std::vector<std::string> expected_hosts;  // for people, when they are known
  NodeTimes times;
};

// What goes in.
struct RecordCame {
  std::shared_ptr<const Record> record;
};
struct RecordUnreadable {
  std::string agent;  // id
  std::string because;
};
struct AgentGone {
  std::string agent;    // id
  bool proven = false;  // its ranks have surely ended
};
struct StateCame {
  std::shared_ptr<const JobState> state;
};
struct Leading {
  std::shared_ptr<const JobState> last;  // null = none was ever announced, or the board forgot it
  double led_until_s = -std::numeric_limits<double>::infinity();  // another agent, perhaps
};
struct AllListed {};  // all records that there are have been told: of other agents no ranks run
struct NotLeading {};
struct Heard {
  double published_s = 0;  // when the record was published that is answered, by this agent's clock
};
struct RankFailing {
  Failure failure;
};
struct RanksEnded {
  RoundEnd end;
};
struct StopAsked {};
struct TimePassed {};

using NodeInput =
    std::variant<TimePassed, RecordCame, RecordUnreadable, AgentGone, AllListed, StateCame, Leading,
                 NotLeading, Heard, RankFailing, RanksEnded, StopAsked>;

// What comes out, to be done in this order.
struct Publish {
  std::shared_ptr<const Record> record;
};
struct Announce {
  std::shared_ptr<const JobState> state;
};
struct StartRanks {
  Round round;
};
struct StopRanks {
  bool at_once = false;  // kill them: this host may no longer be part of the job
  std::string because;
  bool may_save = false;  // nothing has failed: they have their whole time to save
};
struct Finish {
  Verdict verdict;
  std::optional<Problem> refusal;  // this agent may not take part
};
struct Note {
  std::string text;  // for people
};

using NodeOutput = std::variant<Publish, Announce, StartRanks, StopRanks, Finish, Note>;

}  // namespace lockstep::rendezvous
