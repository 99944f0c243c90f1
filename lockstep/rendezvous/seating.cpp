#include "lockstep/rendezvous/seating.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace lockstep::rendezvous {
namespace {

std::vector<const Agent*> chosen(const std::vector<Agent>& ready, const std::vector<Seat>& before,
                                 std::size_t most) {
  std::map<std::string, std::size_t> places;
  for (const Seat& seat : before) places.emplace(seat.agent.id, places.size());
  const auto place_of = [&](const Agent* agent) {
    const auto found = places.find(agent->id);
    return found == places.end() ? places.size() : found->second;
  };
  std::vector<const Agent*> agents;
  for (const Agent& agent : ready) agents.push_back(&agent);
  std::stable_sort(agents.begin(), agents.end(), [&](const Agent* one, const Agent* other) {
    return place_of(one) < place_of(other);
  });
  if (agents.size() > most) agents.resize(most);
  return agents;
}

}  // namespace

std::vector<Seat> assign_seats(const std::vector<Agent>& ready, const std::vector<Seat>& before,
                               std::size_t most) {
  const std::vector<const Agent*> agents = chosen(ready, before, most);
  std::vector<const Agent*> order(agents.size());
  std::vector<const Agent*> asked;
  std::vector<const Agent*> others;
  for (const Agent* agent : agents) (agent->node_rank >= 0 ? asked : others).push_back(agent);
  std::stable_sort(asked.begin(), asked.end(), [](const Agent* one, const Agent* other) {
    return one->node_rank < other->node_rank;
  });
  std::vector<const Agent*> rest;
  for (const Agent* agent : asked) {
    const auto place = static_cast<std::size_t>(agent->node_rank);
    if (place < order.size() && order[place] == nullptr) {
      order[place] = agent;
    } else {
      rest.push_back(agent);
    }
  }
  rest.insert(rest.end(), others.begin(), others.end());
  auto next = rest.begin();
  std::vector<Seat> seats;
  int base_rank = 0;
  for (const Agent*& agent : order) {
    if (agent == nullptr) agent = *next++;
    seats.push_back({*agent, base_rank});
    seats.back().agent.machine.clear();
    seats.back().agent.equal.clear();
    base_rank += agent->ranks;
  }
  return seats;
}

}  // namespace lockstep::rendezvous
