#include "lockstep/comm/shm_context.h"

#include <thread>

#include "lockstep/comm/join.h"

namespace lockstep::comm {
namespace {

// Scripts drop the handles of their last asynchronous collectives; a rank that left with them in
// flight would take the others' results along.
constexpr std::chrono::seconds kLastCollectives{2};

}  // namespace

Problem ShmContext::told(const PeerLost& lost, Ticket ticket,
                         std::chrono::milliseconds deadline) const {
  Problem problem = lost.problems().front();
  problem.where = where_of(options);
  problem.what = flight.failure_text(ticket, to_text(deadline), problem.what);
  return problem;
}

void ShmContext::close() {
  std::call_once(closed_, [this] {
    const auto end = std::chrono::steady_clock::now() + kLastCollectives;
    while (link->engine().busy() && !link->segment().aborted() &&
           std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    link->leave();
  });
}

}  // namespace lockstep::comm
