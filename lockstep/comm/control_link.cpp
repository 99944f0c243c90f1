#include "lockstep/comm/control_link.h"

#include <chrono>
#include <utility>
#include <vector>

#include "lockstep/comm/control/door.h"
#include "lockstep/comm/join.h"

namespace lockstep::comm {

std::unique_ptr<control::Channel> connect_control(c10d::Store& store, const GroupOptions& options,
                                                  const std::string& address,
                                                  control::OnEnd on_end) {
  control::Door door(address);
  const auto until = std::chrono::steady_clock::now() + options.join_deadline;
  std::vector<control::Card> cards;
  for (const auto& text : exchange_texts(store, options, "control", to_text(door.card()),
                                         "where its control connections go")) {
    cards.push_back(control::card_from_text(text));
  }
  auto peers = door.meet(options.rank, cards, where_of(options), until);
  return std::make_unique<control::Channel>(options.rank, std::move(peers), std::move(cards),
                                            control::Limits{}, std::move(on_end));
}

}  // namespace lockstep::comm
