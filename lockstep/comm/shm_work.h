// One call of the shm backend in flight, as c10d sees it.
#pragma once
#include <ATen/core/ivalue.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

#include "lockstep/comm/shm_context.h"
#include "lockstep/comm/shm_tensors.h"

namespace lockstep::comm {

/// The results of a call, and its future.
class ShmTask {
 public:
  StagedTensors tensors;

  /// \param nested results are lists by input (allgather, gather): how c10d wants its future.
  void set_outputs(std::vector<std::vector<at::Tensor>> outputs, bool nested);
  [[nodiscard]] std::vector<at::Tensor> result() const;

  /// Puts results where they belong; called when all has come, by any thread, any number of times.
  void finish();
  /// Called once, by the engine's completion.
  void end(const std::exception_ptr& error);
  [[nodiscard]] c10::intrusive_ptr<c10::ivalue::Future> future();

 private:
  void mark(c10::ivalue::Future& future) const;

  std::vector<std::vector<at::Tensor>> outputs_;
  bool nested_ = false;
  std::once_flag finished_;

  std::mutex mutex_;
  bool ended_ = false;
  std::exception_ptr error_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

class ShmWork : public c10d::Work {
 public:
  ShmWork(std::shared_ptr<ShmContext> context, c10d::OpType type, std::uint64_t sequence,
          std::chrono::milliseconds deadline);

  [[nodiscard]] ShmTask& task() { return *task_; }
  /// Enters a collective on behalf of this work; its owner and deadline are set here.
  void enter(shm::Request request);
  void transfer(shm::TransferRequest request);
  /// After the last of those.
  void issued();

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  int sourceRank() const override;
  std::vector<at::Tensor> result() override { return task_->result(); }
  void synchronize() override { wait(kNoTimeout); }
  bool wait(std::chrono::milliseconds timeout) override;
  void abort() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  std::uint64_t getSequencenumber() const override { return sequence_; }

 private:
  [[nodiscard]] std::shared_ptr<shm::Completion> last() const;
  [[nodiscard]] Ticket ticket() const;
  /// `error` as c10d's own exception.
  [[nodiscard]] std::exception_ptr translated(const std::exception_ptr& error, Ticket ticket) const;
  void tell_task();

  const std::shared_ptr<ShmContext> context_;
  const std::shared_ptr<ShmTask> task_;
  const std::uint64_t sequence_;
  const std::chrono::milliseconds deadline_;
  std::vector<std::shared_ptr<shm::Operation>> operations_;  // end in this order
  std::shared_ptr<shm::Transfer> transfer_;
  std::once_flag told_;
};

}  // namespace lockstep::comm
