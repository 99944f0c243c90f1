// c10d's backend over shared memory, for the ranks of one host: what DistributedDataParallel, FSDP
// and other unmodified PyTorch code call.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "lockstep/comm/shm_work.h"

namespace lockstep::comm {

/// Collectives are entered in the order they are called and may all be in flight; any thread may
/// call. Ranks that enter different ones, or the same with other dtypes or sizes, all get an error
/// (c10::DistBackendError) naming both sides, and the group is over.
class ShmBackend : public c10d::Backend {
 public:
  static constexpr const char* kName = "lockstep";

  /// Collective. \param store with a prefix of this group's own.
  /// \throws EnvironmentFault (LS-4014) naming two hosts when not all ranks run on one; others as
  /// connect_shm().
  ShmBackend(c10d::Store& store, int rank, int size, std::chrono::milliseconds timeout,
             std::string name);
  ShmBackend(const ShmBackend&) = delete;
  ShmBackend& operator=(const ShmBackend&) = delete;
  ~ShmBackend() override;

  const std::string getBackendName() const override { return kName; }
  c10::intrusive_ptr<Options> getBackendOptions() override;
  void setTimeout(std::chrono::milliseconds timeout) override { timeout_ms_ = timeout.count(); }
  void setSequenceNumberForGroup() override {}  // every rank counts from 0
  std::uint64_t getSequenceNumberForGroup() override { return sequence_; }
  c10d::ErrorType getError() override;
  /// Ends the group for all its ranks.
  void abort() override;
  /// Leaves the group. What is in flight gets a moment to end.
  void shutdown() override;

  /// Buckets of DistributedDataParallel live in symmetric memory, where all_reduce copies nothing.
  bool supportsTensorAlloc(c10::DeviceIndex /*device*/) override { return true; }
  /// Collective, but for what is small. Zeroed; plain memory for that, or where there is no room.
  at::Tensor allocateTensor(long size, at::TensorOptions options) override;

  using Works = c10::intrusive_ptr<c10d::Work>;
  using Tensors = std::vector<at::Tensor>;
  using TensorLists = std::vector<std::vector<at::Tensor>>;

  Works allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  Works allreduce_coalesced(Tensors& tensors,
                            const c10d::AllreduceCoalescedOptions& options) override;
  Works reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  Works broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  Works barrier(const c10d::BarrierOptions& options) override;

  Works _allgather_base(at::Tensor& output, at::Tensor& input,
                        const c10d::AllgatherOptions& options) override;
  Works allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                        const c10d::AllgatherOptions& options) override;
  Works _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                             const c10d::ReduceScatterOptions& options) override;
  Works reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                        const c10d::ReduceScatterOptions& options) override;
  Works alltoall_base(at::Tensor& output, at::Tensor& input,
                      std::vector<std::int64_t>& output_splits,
                      std::vector<std::int64_t>& input_splits,
                      const c10d::AllToAllOptions& options) override;

  // With lists of tensors; allgather, reduce_scatter and alltoall take lists of any sizes.
  Works allgather(TensorLists& outputs, Tensors& inputs,
                  const c10d::AllgatherOptions& options) override;
  Works gather(TensorLists& outputs, Tensors& inputs, const c10d::GatherOptions& options) override;
  Works scatter(Tensors& outputs, TensorLists& inputs,
                const c10d::ScatterOptions& options) override;
  Works reduce_scatter(Tensors& outputs, TensorLists& inputs,
                       const c10d::ReduceScatterOptions& options) override;
  Works alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) override;

  // A send ends when its receiver has begun to take it, as over Gloo.
  Works send(Tensors& tensors, int to, int tag) override;
  Works recv(Tensors& tensors, int from, int tag) override;
  Works recvAnysource(Tensors& tensors, int tag) override;

 private:
  using WorkPtr = c10::intrusive_ptr<ShmWork>;

  [[nodiscard]] WorkPtr new_work(c10d::OpType type, std::chrono::milliseconds timeout);
  [[nodiscard]] Works done_issuing(WorkPtr work, TensorLists outputs, bool nested = false);
  void check_root(std::int64_t root) const;
  [[nodiscard]] std::size_t count() const { return static_cast<std::size_t>(size_); }
  [[nodiscard]] std::uint32_t rank_as_root() const { return static_cast<std::uint32_t>(rank_); }

  void check_reduced(const Tensors& tensors, const c10d::ReduceOp& op) const;
  void check_parts(const at::Tensor& whole, const at::Tensor& part) const;
  void enter_all_reduce(ShmWork& work, const at::Tensor& tensor, const c10d::ReduceOp& op);
  void enter_all_gather(ShmWork& work, const at::Tensor& output, const at::Tensor& input);
  void enter_reduce_scatter(ShmWork& work, const at::Tensor& output, const at::Tensor& input,
                            const c10d::ReduceOp& op);
  void enter_uneven(ShmWork& work, at::ScalarType dtype, const void* input, void* output,
                    std::vector<std::size_t> send_items, std::vector<std::size_t> receive_items);
  [[nodiscard]] Works transfer(Tensors& tensors, bool sends, int peer, int tag);

  std::shared_ptr<ShmContext> context_;
  std::atomic<std::int64_t> timeout_ms_;
  std::atomic<std::uint64_t> sequence_{0};
};

}  // namespace lockstep::comm
