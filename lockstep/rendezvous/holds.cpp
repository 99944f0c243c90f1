#include "lockstep/rendezvous/holds.h"

#include <algorithm>
#include <cmath>

namespace lockstep::rendezvous {

const std::string& Holds::key_of(const Agent& agent) {
  return agent.machine.empty() ? agent.host : agent.machine;
}

void Holds::host_has_gone(const Agent& agent, double now_s) {
  Row& row = rows_[key_of(agent)];
  if (row.count > 0 && now_s - row.last_s > times_.forgive_s) row.count = 0;
  ++row.count;
  row.last_s = now_s;
  const double hold_s = times_.hold_s * std::pow(2.0, std::min(row.count - 1, 16));
  row.until_s = now_s + std::min(hold_s, times_.longest_hold_s);
}

double Holds::held_until_s(const Agent& agent) const {
  const auto found = rows_.find(key_of(agent));
  return found == rows_.end() ? 0 : found->second.until_s;
}

int Holds::times_gone(const Agent& agent) const {
  const auto found = rows_.find(key_of(agent));
  return found == rows_.end() ? 0 : found->second.count;
}

std::vector<Strikes> Holds::to_strikes(double now_s) const {
  std::vector<Strikes> strikes;
  for (const auto& [machine, row] : rows_) {
    if (now_s - row.last_s > times_.forgive_s) continue;
    if (strikes.size() == kMostListed) break;
    strikes.push_back({machine, row.count, std::max(0.0, row.until_s - now_s)});
  }
  return strikes;
}

void Holds::continue_from(const std::vector<Strikes>& strikes, double now_s) {
  for (const Strikes& strike : strikes) {
    rows_[strike.machine] = {strike.count, now_s,
                             now_s + std::min(strike.held_s, times_.longest_hold_s)};
  }
}

}  // namespace lockstep::rendezvous
