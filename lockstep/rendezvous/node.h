// The rules of membership as one object per agent: what happens goes in, what is to be done comes
// out. It has no clock, network or randomness, so the launcher and the simulator drive the same.
#pragma once
#include <optional>
#include <vector>

#include "lockstep/rendezvous/coordinator.h"
#include "lockstep/rendezvous/member.h"
#include "lockstep/rendezvous/node_values.h"

namespace lockstep::rendezvous {

/// One agent of a job.
class Node {
 public:
  /// \param agent `equal` is what must be the same on all hosts; the node adds its settings.
  Node(Agent agent, const NodeSettings& settings, double now_s);

  /// What is to be done, in this order. \param now_s monotonic, never less than before.
  [[nodiscard]] std::vector<NodeOutput> step(double now_s, const NodeInput& input);

  /// When step(TimePassed) is due at the latest.
  [[nodiscard]] double wake_at_s() const;
  /// When this host's ranks must be dead unless this has moved on by then.
  [[nodiscard]] double fence_at_s() const { return member_.fence_at_s(); }
  [[nodiscard]] bool is_leading() const { return coordinator_.has_value(); }
  [[nodiscard]] bool is_finished() const { return member_.is_finished(); }

 private:
  using Outputs = std::vector<NodeOutput>;

  void take(double now_s, const RecordCame& came, Outputs& out);
  void take(double now_s, const RecordUnreadable& unreadable, Outputs& out);
  void take(double now_s, const AgentGone& gone, Outputs& out);
  void take(double now_s, const AllListed& listed, Outputs& out);
  void take(double now_s, const StateCame& came, Outputs& out);
  void take(double now_s, const Leading& leading, Outputs& out);
  void take(double now_s, const NotLeading& not_leading, Outputs& out);
  void take(double now_s, const Heard& heard, Outputs& out);
  void take(double now_s, const RankFailing& failing, Outputs& out);
  void take(double now_s, const RanksEnded& ended, Outputs& out);
  void take(double now_s, const StopAsked& asked, Outputs& out);
  void take(double now_s, const TimePassed& passed, Outputs& out);

  NodeSettings settings_;
  Member member_;
  std::optional<Coordinator> coordinator_;  // while this agent leads
};

}  // namespace lockstep::rendezvous
