// The agent that leads: reads all records, says which round runs, who takes part, and how the job
// ended.
#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/rendezvous/holds.h"
#include "lockstep/rendezvous/node_values.h"

namespace lockstep::rendezvous {

/// What an agent that comes to lead has to do with the job so far.
enum class Part : std::uint8_t {
  none,     // it knows nothing of it
  follows,  // it has followed its states
  seated,   // it has had ranks in it
};

class Coordinator {
 public:
  using Outputs = std::vector<NodeOutput>;

  /// \param last what was announced before this agent led; null = nothing. \param part what it had
  /// to do with that job. \param own its record.
  Coordinator(const NodeSettings& settings, const std::shared_ptr<const JobState>& last, Part part,
              std::shared_ptr<const Record> own, double now_s);

  /// What it has already is not news.
  void take(const std::shared_ptr<const Record>& record, double now_s);
  void refuse_unreadable(const RecordUnreadable& unreadable, double now_s);
  void host_gone(const AgentGone& gone);
  void all_listed();
  /// Another agent may have led until then: until its members have surely killed their ranks no
  /// round starts.
  void outwait(double led_until_s, double now_s, Outputs& out);
  /// Does what is due. \param answered_s when the newest record of its own was published that was
  /// answered: a leader that is cut off itself calls nobody silent.
  void settle(double now_s, std::optional<double> answered_s, Outputs& out);

  [[nodiscard]] double wake_at_s() const { return wake_at_s_; }
  /// This agent may not lead, nor take part: the job that it came to lead is of other hosts.
  [[nodiscard]] const std::optional<Problem>& own_refusal() const { return own_refusal_; }
  /// The job has ended, and the others know how or have had time to.
  [[nodiscard]] bool may_finish() const { return may_finish_; }

 private:
  /// What the leader knows of an agent.
  struct Host {
    std::shared_ptr<const Record> record;  // null = has a seat, but this leader never heard of it
    std::string name;
    double heard_s = 0;
    double joined_s = 0;
    double held_until_s = 0;
    std::uint64_t order = 0;       // in which they joined
    std::uint64_t first_beat = 0;  // that this leader saw: what came later is a sign of life
    bool is_admitted = false;
    bool is_seated = false;  // in the newest round
    bool is_refused = false;
    bool is_gone = false;
    bool is_proven = false;            // to have no ranks any more
    std::string contested_id{};        // of who has the place that this one claims,
    std::uint64_t contested_beat = 0;  // and its sign of life then
  };
  using Hosts = std::map<std::string, Host>;
  /// How the seats fare in the round that runs.
  struct RoundView {
    std::size_t succeeded = 0;
    bool has_cause = false;  // among the failures
    std::vector<Failure> failures{};
    std::string lost{};     // the first host that was, and how
    std::string leaving{};  // the first host that is
    std::string stopped{};  // the first host whose ranks left by themselves with their state saved
  };

  struct RoundResult {
    Verdict verdict;  // if the job ends with the round
    std::size_t succeeded = 0;
    std::size_t saved = 0;  // nothing of them is lost
    std::size_t away = 0;   // given up
    std::int64_t step = -1;
  };

  // coordinator.cpp: who is there
  void continue_from(const JobState& last, Part part, double now_s);
  void be_patient(double now_s);
  [[nodiscard]] bool is_in_doubt(double now_s, Outputs& out);
  void catch_up(double now_s, Outputs& out);
  void admit(double now_s, Outputs& out);
  void admit(Host& host, double now_s, Outputs& out);
  [[nodiscard]] std::optional<Agent> holder_of_place(const Host& host) const;
  void refuse(Host& host, Exit exit, Problem problem, Outputs& out);
  void drop_hosts(double now_s);
  [[nodiscard]] bool is_live_round() const;
  [[nodiscard]] bool is_fresh(const Host& host, double now_s) const;
  [[nodiscard]] bool is_silent(const Host& host, double now_s, double limit_s);
  void announce_if_changed(double now_s, Outputs& out);
  [[nodiscard]] std::shared_ptr<const JobState> state(double now_s);

  // coordinator_gather.cpp: before a round
  void gather(double now_s, Outputs& out);
  [[nodiscard]] bool is_ready(const Host& host, double now_s) const;
  [[nodiscard]] std::vector<const Host*> ready_hosts(double now_s);
  [[nodiscard]] bool awaits_others(double now_s) const;
  [[nodiscard]] bool has_older_ranks() const;
  [[nodiscard]] bool is_time_to_start(std::size_t ready, double now_s);
  void start(const std::vector<const Host*>& ready, double now_s, Outputs& out);
  void describe_waiting(const std::vector<const Host*>& ready, double now_s);
  [[nodiscard]] std::string missing_text(const std::vector<const Host*>& ready) const;
  [[nodiscard]] std::string leaver_who_ends_the_job() const;

  // coordinator_round.cpp: a round and its end
  void watch(double now_s, Outputs& out);
  [[nodiscard]] RoundView view(double now_s);
  [[nodiscard]] std::string fence_text(const Host& host, double now_s) const;
  void view_seat(const Host& host, double now_s, RoundView& view);
  [[nodiscard]] std::string loss_of(const Host& host, double now_s);
  [[nodiscard]] const Host* newcomer(double now_s);
  void stop(StopCause cause, const std::string& because, Outputs& out);
  void await_cleared(double now_s, Outputs& out);
  [[nodiscard]] bool is_cleared(const std::string& id, const Host& host, double now_s);
  void conclude(double now_s, Outputs& out);
  [[nodiscard]] RoundResult result_of_round(double now_s);
  [[nodiscard]] std::string why_no_restart(std::int64_t step);
  void gather_again(double now_s);
  void begin_anew(double now_s, Outputs& out);
  void end(Verdict verdict, double now_s, Outputs& out);
  void linger(double now_s);

  void go_to(JobState::Phase phase) {
    phase_ = phase;
    has_changed_ = true;
  }
  void wake_by(double time_s) { wake_at_s_ = std::min(wake_at_s_, time_s); }

  NodeSettings settings_;
  std::shared_ptr<const Record> own_;
  std::string own_id_;
  Hosts hosts_;
  Holds holds_;
  std::uint64_t next_order_ = 0;

  // What is announced:
  JobState::Phase phase_ = JobState::Phase::gathering;
  std::uint64_t version_ = 0;
  int generation_ = 0;
  int first_generation_ = 1;
  int restart_count_ = 0;
  std::vector<Seat> seats_;
  StopCause cause_ = StopCause::none;
  std::string because_;
  std::string waiting_for_;
  std::string last_end_;
  std::vector<std::string> lost_;
  std::vector<Refusal> refused_;
  std::int64_t best_step_ = -1;
  int rounds_at_best_ = 0;
  std::optional<Verdict> verdict_;

  int newest_generation_ = 0;  // that any agent has seen
  std::uint64_t newest_version_ = 0;
  bool is_listed_ = false;    // of a board that outlives the leader: it has heard of all agents
  bool is_newcomer_ = false;  // it leads a job that it took no part in before
  bool may_finish_ = false;
  bool has_changed_ = true;    // what must be announced at once
  bool has_new_text_ = false;  // what may wait a little
  bool is_dirty_ = true;       // something came that settle() has not seen
  bool is_short_ = false;      // there were fewer hosts than the job needs
  std::optional<Problem> own_refusal_;
  std::optional<double> doubts_until_s_;  // whether the job it came to lead lives: it is another
  std::map<std::string, std::string> equal_of_job_;  // then
  std::string name_of_job_;
  std::optional<double> enough_since_s_;
  std::optional<double> suspects_since_s_;
  double gathers_since_s_;
  double not_before_s_ = 0;  // a round that this leader knows nothing of may still run
  double round_began_s_ = 0;
  double ended_s_ = 0;
  double announced_s_ = 0;
  double hears_until_s_ = 0;  // this leader surely does
  double settled_s_;
  double stood_still_s_ = 0;  // how long this process was stopped last
  double stood_still_until_s_ = -std::numeric_limits<double>::infinity();
  double wake_at_s_ = 0;
};

}  // namespace lockstep::rendezvous
