// An agent of a static job without ranks of its own, for tests/oracles/static_session_test.py:
//   static_agent NODE NODES PORT RANKS MAX_RESTARTS
// prints each round and the job's end as a line of JSON; a line of standard input tells how the
// ranks of the round ended: "ok" or "failed".
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <variant>

#include "lockstep/base/error.h"
#include "lockstep/rendezvous/static_session.h"

namespace {

namespace rendezvous = lockstep::rendezvous;

std::string line_of(const rendezvous::Round& round) {
  auto seats = nlohmann::ordered_json::array();
  for (const auto& seat : round.seats) {
    seats.push_back({seat.base_rank, seat.agent.ranks, seat.agent.role});
  }
  const nlohmann::ordered_json line{{"own_seat", round.own_seat},
                                    {"restart_count", round.restart_count},
                                    {"world_size", round.world_size()},
                                    {"seats", seats},
                                    {"master", round.master_port}};
  return line.dump();
}

int run(rendezvous::StaticSession& session) {
  while (true) {
    const auto next = session.next(-1);
    if (const auto* verdict = std::get_if<rendezvous::Verdict>(&next)) {
      std::cout << R"({"exit": )" << static_cast<int>(verdict->exit) << "}" << std::endl;
      return static_cast<int>(verdict->exit);
    }
    std::cout << line_of(std::get<rendezvous::Round>(next)) << std::endl;
    std::string word;
    std::cin >> word;
    rendezvous::RoundEnd end;
    if (word != "ok") {
      end.kind = rendezvous::RoundEnd::Kind::failed;
      end.failure.exit_code = 1;
    }
    session.report(end);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) return 2;
  rendezvous::StaticSettings settings;
  settings.agent.id = "agent of the test";
  settings.agent.host = "here";
  settings.agent.node_rank = std::atoi(argv[1]);
  settings.agent.ranks = std::atoi(argv[4]);
  settings.agent.role = "trainer";
  settings.job.run_id = "mixed";
  settings.job.min_nodes = settings.job.max_nodes = std::atoi(argv[2]);
  settings.job.max_restarts = std::atoi(argv[5]);
  settings.job.join_timeout_s = 60;
  settings.endpoint = {"127.0.0.1", std::atoi(argv[3])};
  try {
    rendezvous::StaticSession session(settings);
    return run(session);
  } catch (const lockstep::Error& error) {
    std::cerr << error.what();
    return static_cast<int>(error.exit());
  }
}
