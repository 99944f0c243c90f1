#include "lockstep/comm/nccl_calls.h"

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>

#include <cstdlib>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <utility>

#include "lockstep/comm/upstream_recorder.h"

namespace lockstep::comm {
namespace {

/// With TORCH_NCCL_BLOCKING_WAIT upstream starts neither its watchdog, which ends the process when
/// a collective fails, nor the monitor of that: deadlines, the record and the end of a group are
/// ours. (Nothing here calls the wait() that it is named after.)
c10::intrusive_ptr<c10d::ProcessGroupNCCL> make_nccl(const c10::intrusive_ptr<c10d::Store>& store,
                                                     const GroupOptions& options) {
  ::setenv("TORCH_NCCL_BLOCKING_WAIT", "1", 1);
  switch_off_upstream_recorder();
  auto nccl = c10d::ProcessGroupNCCL::Options::create();
  nccl->timeout = options.deadline;  // of abort() only
  return c10::make_intrusive<c10d::ProcessGroupNCCL>(
      c10::make_intrusive<c10d::PrefixStore>(options.name + "/nccl", store), options.rank,
      options.size, nccl);
}

c10::cuda::CUDAStream stream_on(at::Device device) {
  at::globalContext().lazyInitDevice(at::kCUDA);
  return c10::cuda::getStreamFromPool(false, device.index());
}

/// Between two streams: that of the caller and that of the collectives.
class NcclCall : public StreamCall {
 public:
  NcclCall(std::shared_ptr<NcclLibrary> library, StreamLibrary::Issue issue,
           std::vector<at::Tensor> tensors)
      : library_(std::move(library)), issue_(std::move(issue)), tensors_(std::move(tensors)) {
    ready_.record(callers());
  }
  void finish() override { done_.block(callers()); }

 private:
  void launch() override;
  [[nodiscard]] bool is_over() override;
  [[nodiscard]] c10::cuda::CUDAStream callers() const {
    return c10::cuda::getCurrentCUDAStream(library_->device().index());
  }

  const std::shared_ptr<NcclLibrary> library_;
  const StreamLibrary::Issue issue_;
  const std::vector<at::Tensor> tensors_;
  at::cuda::CUDAEvent ready_;
  at::cuda::CUDAEvent done_;
  c10::intrusive_ptr<c10d::Work> last_;
};

void NcclCall::launch() {
  const c10::cuda::CUDAStreamGuard guard(library_->stream());
  const at::NoGradGuard no_autograd;
  ready_.block(library_->stream());
  last_ = issue_(library_->nccl(), [](c10d::Work& work) { work.synchronize(); });
  done_.record(library_->stream());
}

bool NcclCall::is_over() {
  // NCCL's own errors (a network that fails, a peer that is gone) end no kernel.
  if (last_->isCompleted() && last_->exception() != nullptr) {
    std::rethrow_exception(last_->exception());
  }
  return done_.query();
}

}  // namespace

NcclLibrary::NcclLibrary(const c10::intrusive_ptr<c10d::Store>& store, const GroupOptions& options,
                         at::Device device)
    : device_(device), stream_(stream_on(device)), nccl_(make_nccl(store, options)) {}

void NcclLibrary::open() {
  c10::cuda::set_device(device_.index());  // of the thread, for good
  nccl_->eagerConnectSingleDevice(device_);
}

void NcclLibrary::abort() {
  const c10::cuda::CUDAGuard guard(device_);
  nccl_->abort();
}

std::shared_ptr<StreamCall> NcclLibrary::make_call(Issue issue, std::vector<at::Tensor> tensors) {
  return std::make_shared<NcclCall>(shared_from_this(), std::move(issue), std::move(tensors));
}

std::string NcclLibrary::advice() const {
  return "see whether a rank ended meanwhile; NCCL_DEBUG=WARN prints NCCL's own account, "
         "NCCL_SOCKET_IFNAME names the network interface it is to take";
}

}  // namespace lockstep::comm
