// Collectives of c10d's NCCL on the streams of one GPU.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/cuda/CUDAStream.h>

#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#include <vector>

#include "lockstep/comm/stream_group.h"

namespace lockstep::comm {

/// The communicator of one rank, and the stream that its collectives follow each other on.
class NcclLibrary : public StreamLibrary, public std::enable_shared_from_this<NcclLibrary> {
 public:
  /// Connects nobody yet. \param store keys stand in it under "<options.name>/nccl/".
  NcclLibrary(const c10::intrusive_ptr<c10d::Store>& store, const GroupOptions& options,
              at::Device device);

  /// Collective.
  void open() override;
  void close() override { nccl_->shutdown(); }
  void abort() override;

  [[nodiscard]] std::shared_ptr<StreamCall> make_call(Issue issue,
                                                      std::vector<at::Tensor> tensors) override;
  [[nodiscard]] at::Device device() const override { return device_; }
  [[nodiscard]] std::string backend() const override { return "nccl"; }
  [[nodiscard]] std::string advice() const override;

  [[nodiscard]] c10d::Backend& nccl() const { return *nccl_; }
  [[nodiscard]] const c10::cuda::CUDAStream& stream() const { return stream_; }

 private:
  const at::Device device_;
  const c10::cuda::CUDAStream stream_;
  const c10::intrusive_ptr<c10d::ProcessGroupNCCL> nccl_;
};

}  // namespace lockstep::comm
