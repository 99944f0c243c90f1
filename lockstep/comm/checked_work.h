// Collectives in flight whose ranks compare what they entered by control connections: Gloo, NCCL.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <utility>

#include "lockstep/comm/control/channel.h"
#include "lockstep/comm/gloo_part.h"
#include "lockstep/comm/gloo_scatter.h"
#include "lockstep/comm/records/group_flight.h"
#include "lockstep/comm/shm/fingerprint.h"
#include "lockstep/comm/tree_reducer.h"

namespace lockstep::comm {

/// What moves the data may notice the end of a peer before the peer's control connection does.
inline constexpr std::chrono::milliseconds kWordOfThePeer{500};

[[nodiscard]] c10d::ReduceOp to_c10d(ReduceOp op);

/// What one group's collectives share with the group; lives as long as the last of them.
struct CheckedContext {
  CheckedContext(const GroupOptions& given, Compared compares,
                 std::unique_ptr<control::Channel> channel)
      : options(given),
        compared(compares),
        flight(given.flight, given.name, given.rank, given.size),
        control(std::move(channel)) {}

  const GroupOptions options;
  const Compared compared;
  GroupFlight flight;
  const std::unique_ptr<control::Channel> control;

  /// Enters the collective in the flight record. \param payload not looked at for a barrier.
  [[nodiscard]] Ticket record(const shm::CollectiveKind& kind, const at::Tensor& payload);
  /// Throws what all ranks throw, once the group is over.
  [[noreturn]] void fail(Ticket ticket, const control::End& end);
  /// Ends the group for a fault that only this rank knows of, unless another reason comes first.
  /// \param sequence of the collective among those that the ranks compare.
  [[noreturn]] void fail_here(Ticket ticket, std::uint64_t sequence, const std::string& cause);
  [[noreturn]] void time_out(Ticket ticket, std::uint64_t sequence);

 private:
  [[noreturn]] void give_up(Ticket ticket, std::uint64_t sequence, const std::string& cause);
};

// How the backends' ways of being in flight end, and what is left to do then.
inline void finish(const c10::intrusive_ptr<c10d::Work>& /*work*/) {}
inline void finish(const std::shared_ptr<ScatterWork>& work) { work->finish(); }
inline void finish(const std::shared_ptr<TreeWork>& work) { work->finish(); }

inline void rethrow(const c10::intrusive_ptr<c10d::Work>& work) { work->wait(); }
inline void rethrow(const std::shared_ptr<ScatterWork>& work) { work->exchange()->wait(); }
inline void rethrow(const std::shared_ptr<TreeWork>& work) { work->rethrow(); }

using OnData = std::function<void(bool ok)>;
void on_end(const c10::intrusive_ptr<c10d::Work>& work, OnData listener);
void on_end(const std::shared_ptr<ScatterWork>& work, OnData listener);
void on_end(const std::shared_ptr<TreeWork>& work, OnData listener);

/// Waits for the data and for proof that every rank entered the same.
template <class Pending>
class CheckedWork : public Work {
 public:
  /// \param sequence of what the ranks compare.
  CheckedWork(std::shared_ptr<CheckedContext> context, Ticket ticket, std::uint64_t sequence,
              control::Proof proof, Pending pending)
      : context_(std::move(context)),
        ticket_(ticket),
        sequence_(sequence),
        pending_(std::move(pending)),
        transfer_(std::make_shared<control::Transfer>(control::DataState::moving, proof)) {
    // The end of a collective is recorded when it comes, not when somebody waits for it: a verdict
    // must not take what nobody has looked at yet for stuck.
    on_end(pending_, [context = context_, transfer = transfer_, ticket](bool ok) {
      context->flight.ended(ticket, ok);
      context->control->data_ended(*transfer, ok);
    });
  }

  void wait() override {
    switch (context_->control->wait(sequence_, *transfer_, context_->options.deadline)) {
      case control::Outcome::done:
        return finish(pending_);
      case control::Outcome::over:
        context_->fail(ticket_, context_->control->over().value());
      case control::Outcome::data_failed:
        context_->fail_here(ticket_, sequence_, cause());
      case control::Outcome::timed_out:
        context_->time_out(ticket_, sequence_);
    }
  }

  [[nodiscard]] bool done() override { return context_->control->poll(sequence_, *transfer_); }
  [[nodiscard]] std::int64_t ended_ns() const override {
    return context_->flight.ended_ns(ticket_);
  }

 private:
  [[nodiscard]] std::string cause() const;

  const std::shared_ptr<CheckedContext> context_;
  const Ticket ticket_;
  const std::uint64_t sequence_;
  const Pending pending_;
  const std::shared_ptr<control::Transfer> transfer_;
};

/// What an exception of Gloo says, else that nothing came.
[[nodiscard]] std::string cause_of(const std::function<void()>& rethrows);

template <class Pending>
std::string CheckedWork<Pending>::cause() const {
  return cause_of([this] { rethrow(pending_); });
}

}  // namespace lockstep::comm
