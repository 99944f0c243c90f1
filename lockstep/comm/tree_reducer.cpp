// n ranks; count elements of the tensor; piece = tree_piece(count, n).
#include "lockstep/comm/tree_reducer.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/comm/gloo_mesh.h"
#include "lockstep/comm/tree_sum.h"
#include "lockstep/memory/category.h"

namespace lockstep::comm {

void TreeWork::set_last(c10::intrusive_ptr<c10d::Work> work) {
  const std::lock_guard lock(mutex_);
  last_ = std::move(work);
  if (listener_) follow(last_, std::exchange(listener_, nullptr));
}

void TreeWork::fail(std::exception_ptr error) {
  const std::lock_guard lock(mutex_);
  error_ = std::move(error);
  if (listener_) std::exchange(listener_, nullptr)(false);
}

void TreeWork::on_end(std::function<void(bool ok)> listener) {
  const std::lock_guard lock(mutex_);
  if (error_ != nullptr) return listener(false);
  if (last_ != nullptr) return follow(last_, std::move(listener));
  listener_ = std::move(listener);
}

void TreeWork::follow(const c10::intrusive_ptr<c10d::Work>& last,
                      std::function<void(bool ok)> listener) {
  const auto future = last->getFuture();
  LOCKSTEP_CHECK(future != nullptr, "a collective of Gloo without a future");
  future->addCallback(
      [listener = std::move(listener)](c10::ivalue::Future& done) { listener(!done.hasError()); });
}

void TreeWork::finish() {
  const at::NoGradGuard no_autograd;
  if (gathered_whole_) {
    tensor_.copy_(tree_sum_rows(terms_));
  } else if (!outgoing_.is_alias_of(tensor_)) {
    tensor_.copy_(outgoing_.view(-1).narrow(0, 0, tensor_.numel()));
  }
}

void TreeWork::rethrow() {
  const std::lock_guard lock(mutex_);
  if (error_ != nullptr) std::rethrow_exception(error_);
  last_->wait();
}

TreeReducer::TreeReducer(c10::intrusive_ptr<c10d::Backend> exchange,
                         c10::intrusive_ptr<c10d::Backend> gather,
                         std::chrono::milliseconds deadline)
    : exchange_(std::move(exchange)), gather_(std::move(gather)), deadline_(deadline) {
  thread_ = std::thread([this] { run(); });
}

TreeReducer::~TreeReducer() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

std::shared_ptr<TreeWork> TreeReducer::start(const at::Tensor& flat, std::uint32_t tag) {
  const memory::Scope staging(memory::Category::communication);
  const at::NoGradGuard no_autograd;
  auto work = std::make_shared<TreeWork>(flat, tag);
  if (static_cast<std::int64_t>(flat.nbytes()) <= kTreeSmallBytes) {
    start_small(*work);
    return work;
  }
  start_large(*work);
  const std::lock_guard lock(mutex_);
  queue_.push_back(work);
  changed_.notify_all();
  return work;
}

void TreeReducer::start_small(TreeWork& work) {
  work.gathered_whole_ = true;
  work.terms_ = at::empty({exchange_->getSize(), work.tensor_.numel()}, work.tensor_.options());
  auto gathered = work.terms_.view(-1);
  tag_next(*exchange_, work.tag_);
  work.set_last(exchange_->_allgather_base(gathered, work.tensor_));
}

void TreeReducer::start_large(TreeWork& work) {
  const std::int64_t n = exchange_->getSize();
  const std::int64_t count = work.tensor_.numel();
  const std::int64_t piece = tree_piece(count, n);
  if (piece * n == count) {
    work.outgoing_ = work.tensor_.view({n, piece});
  } else {
    work.outgoing_ = at::empty({n, piece}, work.tensor_.options());
    const auto flat = work.outgoing_.view(-1);
    flat.narrow(0, 0, count).copy_(work.tensor_);
    flat.narrow(0, count, n * piece - count).zero_();
  }
  work.terms_ = at::empty({n, piece}, work.tensor_.options());
  std::vector<std::int64_t> even;
  tag_next(*exchange_, work.tag_);
  work.exchange_ = exchange_->alltoall_base(work.terms_, work.outgoing_, even, even);
}

void TreeReducer::run() {
  const memory::Scope staging(memory::Category::communication);
  for (;;) {
    std::shared_ptr<TreeWork> work;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stop_ || !queue_.empty(); });
      if (queue_.empty()) return;
      work = std::move(queue_.front());
      queue_.pop_front();
    }
    try {
      add_and_gather(*work);
    } catch (...) {
      work->fail(std::current_exception());
    }
  }
}

void TreeReducer::add_and_gather(TreeWork& work) {
  work.exchange_->wait(deadline_);
  at::Tensor sum = tree_sum_rows(work.terms_);
  auto gathered = work.outgoing_.view(-1);
  tag_next(*gather_, work.tag_);
  work.set_last(gather_->_allgather_base(gathered, sum));
}

}  // namespace lockstep::comm
