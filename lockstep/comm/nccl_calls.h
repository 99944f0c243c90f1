// Collectives of c10d's NCCL as calls of a CallThread.
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAStream.h>

#include <functional>
#include <memory>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#include <vector>

#include "lockstep/comm/call_thread.h"
#include "lockstep/comm/group.h"

namespace lockstep::comm {

/// The communicator of one rank, and the stream that its collectives follow each other on.
class NcclLibrary : public CallLibrary {
 public:
  /// Connects nobody yet. \param store keys stand in it under "<options.name>/nccl/".
  NcclLibrary(const c10::intrusive_ptr<c10d::Store>& store, const GroupOptions& options,
              at::Device device);

  /// Collective.
  void open() override;
  void close() override;
  void abort() override;

  [[nodiscard]] c10d::Backend& nccl() const { return *nccl_; }
  [[nodiscard]] const c10::cuda::CUDAStream& stream() const { return stream_; }
  [[nodiscard]] at::Device device() const { return device_; }

 private:
  const at::Device device_;
  const c10::cuda::CUDAStream stream_;
  const c10::intrusive_ptr<c10d::ProcessGroupNCCL> nccl_;
};

class NcclCall : public Call {
 public:
  /// Issues a collective on the current stream, which comes after it when this returns.
  using Issue = std::function<c10::intrusive_ptr<c10d::Work>(c10d::Backend& nccl)>;

  /// Comes after what the caller has put on its current stream. \param tensors that it reads and
  /// writes: they live until it is over.
  NcclCall(std::shared_ptr<NcclLibrary> library, Issue issue, std::vector<at::Tensor> tensors);
  /// The caller's current stream comes after it. \pre it has ended well.
  void finish();

 private:
  void launch() override;
  [[nodiscard]] bool is_over() override;

  const std::shared_ptr<NcclLibrary> library_;
  const Issue issue_;
  const std::vector<at::Tensor> tensors_;
  at::cuda::CUDAEvent ready_;
  at::cuda::CUDAEvent done_;
  c10::intrusive_ptr<c10d::Work> last_;
};

// What CheckedWork (gloo_work.h) asks of what is in flight.
inline void on_end(const std::shared_ptr<NcclCall>& call, std::function<void(bool ok)> listener) {
  call->on_end(std::move(listener));
}
inline void finish(const std::shared_ptr<NcclCall>& call) { call->finish(); }
/// \throws std::runtime_error with NCCL's cause on one line.
void rethrow(const std::shared_ptr<NcclCall>& call);

}  // namespace lockstep::comm
