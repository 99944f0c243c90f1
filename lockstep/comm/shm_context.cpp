#include "lockstep/comm/shm_context.h"

#include <thread>
#include <utility>

#include "lockstep/comm/join.h"

namespace lockstep::comm {
namespace {

constexpr std::chrono::microseconds kLook{200};

}  // namespace

Problem ShmContext::told(const PeerLost& lost, Ticket ticket,
                         std::chrono::milliseconds deadline) const {
  Problem problem = lost.problems().front();
  problem.where = where_of(options);
  problem.what = flight.failure_text(ticket, to_text(deadline), problem.what);
  return problem;
}

void ShmContext::find_symmetric(shm::Request& request, std::size_t bytes) const {
  SymmetricArrays::Found found = symmetric.find(request.input, bytes);
  request.symmetric = std::move(found.memory);
  request.symmetric_number = found.number;
}

void ShmContext::close(std::chrono::milliseconds patience) {
  std::call_once(closed_, [&] {
    const auto end = std::chrono::steady_clock::now() + patience;
    while (link->engine().busy() && !link->segment().aborted() &&
           std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(kLook);
    }
    link->leave();
  });
}

}  // namespace lockstep::comm
