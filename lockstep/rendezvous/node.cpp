#include "lockstep/rendezvous/node.h"

#include <algorithm>
#include <utility>

#include "lockstep/rendezvous/admission.h"

namespace lockstep::rendezvous {

Node::Node(Agent agent, const NodeSettings& settings, double now_s)
    : settings_(settings), member_(with_settings(std::move(agent), settings), settings, now_s) {}

std::vector<NodeOutput> Node::step(double now_s, const NodeInput& input) {
  Outputs out;
  if (is_finished()) return out;
  std::visit([&](const auto& what) { take(now_s, what, out); }, input);
  member_.settle(now_s, coordinator_.has_value(), false, out);
  if (!coordinator_) return out;
  coordinator_->take(member_.record(), now_s);
  coordinator_->settle(now_s, member_.answered_s(), out);
  if (const auto refusal = coordinator_->own_refusal()) {
    coordinator_.reset();
    member_.refuse(*refusal);
    member_.settle(now_s, false, false, out);
    return out;
  }
  if (coordinator_->may_finish()) member_.settle(now_s, true, true, out);
  return out;
}

double Node::wake_at_s() const {
  const double member_s = member_.wake_at_s();
  return coordinator_ ? std::min(member_s, coordinator_->wake_at_s()) : member_s;
}

void Node::take(double now_s, const RecordCame& came, Outputs& /*out*/) {
  const bool is_own = came.record->agent.id == member_.record()->agent.id;
  if (coordinator_ && !is_own) coordinator_->take(came.record, now_s);
}

void Node::take(double now_s, const RecordUnreadable& unreadable, Outputs& /*out*/) {
  if (coordinator_) coordinator_->refuse_unreadable(unreadable, now_s);
}

void Node::take(double /*now_s*/, const AgentGone& gone, Outputs& /*out*/) {
  if (coordinator_) coordinator_->host_gone(gone);
}

void Node::take(double /*now_s*/, const AllListed& /*listed*/, Outputs& /*out*/) {
  if (coordinator_) coordinator_->all_listed();
}

void Node::take(double /*now_s*/, const StateCame& came, Outputs& out) {
  member_.follow(came.state, out);
}

void Node::take(double now_s, const Leading& leading, Outputs& out) {
  if (coordinator_) return;
  // It was stopped while another led: the job may have gone on, or ended.
  if (settings_.ends_with_leader && !member_.may_take_over(now_s)) {
    return member_.give_up_leader(now_s);
  }
  if (!leading.last && member_.knows_of_a_round()) return member_.board_has_forgotten();
  const bool had_seat = member_.record()->ranks.kind != RanksReport::Kind::none;
  const Part part = had_seat ? Part::seated : member_.state() ? Part::follows : Part::none;
  if (leading.last) member_.follow(leading.last, out);
  coordinator_.emplace(settings_, leading.last, part, member_.record(), now_s);
  if (leading.led_until_s + settings_.times.lost_s > now_s) {
    coordinator_->outwait(leading.led_until_s, now_s, out);
  }
}

void Node::take(double /*now_s*/, const NotLeading& /*not_leading*/, Outputs& /*out*/) {
  coordinator_.reset();
}

void Node::take(double /*now_s*/, const Heard& heard, Outputs& /*out*/) {
  member_.heard(heard.published_s);
}

void Node::take(double /*now_s*/, const RankFailing& failing, Outputs& /*out*/) {
  member_.rank_failing(failing.failure);
}

void Node::take(double now_s, const RanksEnded& ended, Outputs& /*out*/) {
  member_.ranks_ended(ended.end, now_s);
}

void Node::take(double /*now_s*/, const StopAsked& /*asked*/, Outputs& /*out*/) {
  member_.ask_to_stop();
}

void Node::take(double /*now_s*/, const TimePassed& /*passed*/, Outputs& /*out*/) {}

}  // namespace lockstep::rendezvous
