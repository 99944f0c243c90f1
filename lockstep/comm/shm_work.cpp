#include "lockstep/comm/shm_work.h"

#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/comm/records/purpose.h"

namespace lockstep::comm {
namespace {

std::exception_ptr as_c10(const std::string& text) {
  try {
    TORCH_CHECK_WITH(DistBackendError, false, text);
  } catch (...) {
    return std::current_exception();
  }
}

/// What this rank knows about the collective or message goes along.
std::exception_ptr as_c10(const ShmContext& context, const std::exception_ptr& error, Ticket ticket,
                          std::chrono::milliseconds deadline) {
  try {
    std::rethrow_exception(error);
  } catch (const PeerLost& lost) {
    return as_c10(to_text(std::vector<Problem>{context.told(lost, ticket, deadline)}));
  } catch (const Error& other) {
    return as_c10(other.what());
  } catch (...) {
    return std::current_exception();
  }
}

}  // namespace

void ShmTask::set_outputs(std::vector<std::vector<at::Tensor>> outputs, bool nested) {
  outputs_ = std::move(outputs);
  nested_ = nested;
}

std::vector<at::Tensor> ShmTask::result() const {
  TORCH_CHECK(outputs_.size() < 2, "lockstep: several lists of results; use get_future().value()");
  return outputs_.empty() ? std::vector<at::Tensor>{} : outputs_.front();
}

void ShmTask::finish() {
  std::call_once(finished_, [this] { tensors.copy_back(); });
}

void ShmTask::end(const std::exception_ptr& error) {
  if (!error) finish();
  c10::intrusive_ptr<c10::ivalue::Future> future;
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    error_ = error;
    future = future_;
  }
  if (future) mark(*future);
}

c10::intrusive_ptr<c10::ivalue::Future> ShmTask::future() {
  const std::lock_guard lock(mutex_);
  if (future_) return future_;
  const auto tensors_type = c10::ListType::create(c10::TensorType::get());
  future_ = c10::make_intrusive<c10::ivalue::Future>(
      nested_ ? c10::TypePtr(c10::ListType::create(tensors_type)) : c10::TypePtr(tensors_type));
  if (ended_) mark(*future_);  // nobody else has it yet: no callback runs here
  return future_;
}

void ShmTask::mark(c10::ivalue::Future& future) const {
  if (error_) {
    future.setError(error_);
  } else if (nested_) {
    future.markCompleted(c10::IValue(outputs_));
  } else {
    future.markCompleted(
        c10::IValue(outputs_.empty() ? std::vector<at::Tensor>{} : outputs_.front()));
  }
}

ShmWork::ShmWork(std::shared_ptr<ShmContext> context, c10d::OpType type, std::uint64_t sequence,
                 std::chrono::milliseconds deadline)
    : c10d::Work(context->options.rank, type),
      context_(std::move(context)),
      task_(std::make_shared<ShmTask>()),
      sequence_(sequence),
      deadline_(deadline) {}

void ShmWork::enter(shm::Request request) {
  const bool moves = request.kind.collective != shm::Collective::barrier;
  const auto count = static_cast<std::int64_t>(request.count);
  const auto element_bytes = static_cast<std::int64_t>(shm::bytes_of(request.kind.type));
  request.site = Purpose::current();
  request.deadline = deadline_;
  request.owner = task_;
  request.ticket =
      context_->flight.begin(name(request.kind.collective), moves ? name(request.kind.type) : "",
                             count, count * element_bytes, request.site);
  const Ticket ticket = request.ticket;
  try {
    operations_.push_back(context_->link->engine().issue(std::move(request)));
  } catch (const Error&) {
    context_->flight.ended(ticket, false);
    std::rethrow_exception(translated(std::current_exception(), ticket));
  }
}

void ShmWork::transfer(shm::TransferRequest request) {
  const auto bytes = static_cast<std::int64_t>(request.bytes);
  request.owner = task_;
  request.deadline = deadline_;
  request.ticket = context_->flight.begin_message(
      {.sends = request.sends, .peer = request.peer, .tag = request.tag}, name(request.type),
      bytes / static_cast<std::int64_t>(shm::bytes_of(request.type)), bytes);
  const Ticket ticket = request.ticket;
  try {
    transfer_ = context_->link->engine().transfer(std::move(request));
  } catch (const Error&) {
    context_->flight.ended(ticket, false);
    std::rethrow_exception(translated(std::current_exception(), ticket));
  }
}

void ShmWork::issued() {
  if (task_->tensors.has_copies()) tell_task();  // whoever holds this work may let it go
}

std::shared_ptr<shm::Completion> ShmWork::last() const {
  if (transfer_) return transfer_;
  return operations_.back();
}

Ticket ShmWork::ticket() const {
  return transfer_ ? transfer_->request().ticket : operations_.back()->request().ticket;
}

std::exception_ptr ShmWork::translated(const std::exception_ptr& error, Ticket ticket) const {
  return as_c10(*context_, error, ticket, deadline_);
}

void ShmWork::tell_task() {
  std::call_once(told_, [this] {
    const auto last = this->last();
    last->when_done([context = context_, task = task_, last, ticket = ticket(), limit = deadline_] {
      const auto error = last->error();
      task->end(error ? as_c10(*context, error, ticket, limit) : nullptr);
    });
  });
}

bool ShmWork::isCompleted() {
  if (!context_->link->engine().poll(*last())) return false;
  if (!last()->error()) task_->finish();
  return true;
}

bool ShmWork::isSuccess() const { return last()->done() && !last()->error(); }

std::exception_ptr ShmWork::exception() const {
  if (!last()->done() || !last()->error()) return nullptr;
  return translated(last()->error(), ticket());
}

int ShmWork::sourceRank() const {
  TORCH_CHECK(transfer_ && !transfer_->request().sends, "lockstep: only a receive has a source");
  return transfer_->peer();
}

bool ShmWork::wait(std::chrono::milliseconds timeout) {
  const auto deadline = timeout > kNoTimeout ? timeout : deadline_;
  shm::Engine& engine = context_->link->engine();
  Ticket waiting = ticket();
  try {
    if (transfer_) engine.wait(*transfer_, deadline);
    for (const auto& operation : operations_) {
      waiting = operation->request().ticket;
      engine.wait(*operation, deadline);
    }
  } catch (const Error&) {
    std::rethrow_exception(translated(std::current_exception(), waiting));
  }
  task_->finish();
  return true;
}

void ShmWork::abort() {
  context_->link->segment().abort("rank " + std::to_string(context_->options.rank) +
                                  " aborted its work in this group");
}

c10::intrusive_ptr<c10::ivalue::Future> ShmWork::getFuture() {
  auto future = task_->future();
  tell_task();
  if (!last()->done()) context_->link->engine().nudge();
  return future;
}

}  // namespace lockstep::comm
