#include "lockstep/comm/checked_work.h"

#include "lockstep/base/error.h"
#include "lockstep/comm/gloo_mesh.h"
#include "lockstep/comm/records/disagreement.h"

namespace lockstep::comm {

c10d::ReduceOp to_c10d(ReduceOp op) {
  switch (op) {
    case ReduceOp::min:
      return c10d::ReduceOp::MIN;
    case ReduceOp::max:
      return c10d::ReduceOp::MAX;
    case ReduceOp::sum:
      break;
  }
  return c10d::ReduceOp::SUM;
}

Ticket CheckedContext::record(const shm::CollectiveKind& kind, const at::Tensor& payload) {
  std::string op(shm::name(kind.collective));
  if (kind.collective == shm::Collective::barrier) return flight.begin(op, "", 0, 0);
  if (kind.ordered) op = "tree " + op;
  return flight.begin(op, shm::name(kind.type), payload.numel(),
                      static_cast<std::int64_t>(payload.nbytes()));
}

void CheckedContext::fail(Ticket ticket, const control::End& end) {
  flight.ended(ticket, false);
  if (end.disagreement) throw Disagreement(end.reason);
  throw PeerLost({"LS-4002", where_of(options),
                  compared == Compared::declared
                      ? end.reason
                      : flight.failure_text(ticket, to_text(options.deadline), end.reason),
                  "a peer ended or hangs: look for the first rank that failed, this one only "
                  "noticed"});
}

/// Also where what moves the data has noticed first that the time is up: who is missing is said.
void CheckedContext::fail_here(Ticket ticket, std::uint64_t sequence, const std::string& cause) {
  if (const auto end = control->over(kWordOfThePeer)) fail(ticket, *end);
  give_up(ticket, sequence, cause + ": " + control->missing(sequence));
}

void CheckedContext::time_out(Ticket ticket, std::uint64_t sequence) {
  give_up(ticket, sequence,
          "timed out after " + to_text(options.deadline) + ": " + control->missing(sequence));
}

void CheckedContext::give_up(Ticket ticket, std::uint64_t sequence, const std::string& cause) {
  control->abort({false, "rank " + std::to_string(options.rank) + " gave up collective #" +
                             std::to_string(sequence) + ": " + cause});
  fail(ticket,
       compared == Compared::declared ? control->over().value() : control::End{false, cause});
}

void on_end(const c10::intrusive_ptr<c10d::Work>& work, OnData listener) {
  work->getFuture()->addCallback(
      [listener = std::move(listener)](c10::ivalue::Future& done) { listener(!done.hasError()); });
}

void on_end(const std::shared_ptr<ScatterWork>& work, OnData listener) {
  on_end(work->exchange(), std::move(listener));
}

void on_end(const std::shared_ptr<TreeWork>& work, OnData listener) {
  work->on_end(std::move(listener));
}

std::string cause_of(const std::function<void()>& rethrows) {
  try {
    rethrows();
  } catch (const std::exception& error) {
    return cause_text(error);
  }
  return "its data did not come";
}

}  // namespace lockstep::comm
