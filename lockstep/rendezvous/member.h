// An agent as a member of its job: writes its record, does what the state says, and kills its ranks
// when it can no longer know what the state is.
#pragma once
#include <algorithm>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/rendezvous/node_values.h"

namespace lockstep::rendezvous {

class Member {
 public:
  Member(Agent agent, const NodeSettings& settings, double now_s);

  using Outputs = std::vector<NodeOutput>;

  void follow(const std::shared_ptr<const JobState>& state, Outputs& out);
  void heard(double published_s);
  void rank_failing(const Failure& failure);
  void ranks_ended(const RoundEnd& end, double now_s);
  void ask_to_stop();
  /// Whether what it knows is new enough to go on from when its board goes with the leader.
  [[nodiscard]] bool may_take_over(double now_s) const;
  void give_up_leader(double now_s);
  [[nodiscard]] bool knows_of_a_round() const { return state_ && state_->generation > 0; }
  /// There is no leader, and the state that this agent followed is not on the board any more.
  void board_has_forgotten();
  /// This agent may not take part.
  void refuse(const Problem& problem) { end_with({Exit::usage, {}, {}, problem.what}, problem); }
  /// Does what is due. \param leads this agent, so that it ends only when the others know how.
  /// \param may_finish of a leader.
  void settle(double now_s, bool leads, bool may_finish, Outputs& out);

  [[nodiscard]] double wake_at_s() const { return wake_at_s_; }
  [[nodiscard]] double fence_at_s() const;
  [[nodiscard]] std::optional<double> answered_s() const { return answered_s_; }
  [[nodiscard]] bool is_finished() const { return is_finished_; }
  [[nodiscard]] const std::shared_ptr<const Record>& record() const { return record_; }
  [[nodiscard]] const std::shared_ptr<const JobState>& state() const { return state_; }

 private:
  [[nodiscard]] bool has_live_ranks() const;
  [[nodiscard]] bool is_answered(double now_s) const;
  [[nodiscard]] bool has_seat_to_take() const;
  [[nodiscard]] bool is_seat_old(double now_s) const;
  void obey(double now_s, Outputs& out);
  void take_seat(double now_s, Outputs& out);
  void stop_ranks(bool at_once, const std::string& because, Outputs& out);
  /// \param gap_s since the last step: a long one is of a process that was stopped.
  void fence_if_due(double now_s, double gap_s, Outputs& out);
  void judge_leader(double now_s, bool leads);
  void leave_if_possible(double now_s, bool leads);
  void end_as(const Verdict& verdict);
  void end_for(const char* code, const std::string& what, const std::string& fix);
  void end_with(Verdict verdict, std::optional<Problem> refusal = std::nullopt);
  void finish_if_possible(bool leads, bool may_finish, Outputs& out);
  void tell_what_is_waited_for(double now_s, bool leads, Outputs& out);
  void publish_if_due(double now_s, Outputs& out);
  void wake_by(double time_s) { wake_at_s_ = std::min(wake_at_s_, time_s); }

  enum class Told : std::uint8_t { nothing, stop, kill };
  struct Said {
    std::uint64_t beat = 0;
    double at_s = 0;
  };

  NodeSettings settings_;
  Record own_;
  std::shared_ptr<const Record> record_;  // as last published
  std::shared_ptr<const JobState> state_;
  Told told_ = Told::nothing;  // the ranks that run
  bool has_news_ = true;       // in own_, since record_
  bool is_fenced_ = false;     // the ranks that run were killed for that
  bool is_unsaved_ = false;    // what the ranks that ran last had done
  bool is_finished_ = false;
  std::optional<Finish> finish_;      // once no ranks run
  std::optional<double> answered_s_;  // when the newest answered record was published
  std::optional<double> left_s_;      // when leaving stood on the record and no ranks ran
  double waits_since_s_;
  double patient_from_s_;  // silence of the leader counts from here
  double next_note_s_;
  double last_step_s_;
  std::deque<Said> recent_;  // records that this agent published
  double published_s_ = -std::numeric_limits<double>::infinity();
  double wake_at_s_ = 0;
};

}  // namespace lockstep::rendezvous
