#include "lockstep/comm/instant_group.h"

#include <ATen/core/grad_mode.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/arguments.h"

namespace lockstep::comm {
namespace {

class NothingToWaitFor : public Work {
 public:
  void wait() override {}
  [[nodiscard]] bool done() override { return true; }
};

}  // namespace

std::unique_ptr<Work> finished_work() { return std::make_unique<NothingToWaitFor>(); }

std::unique_ptr<Work> InstantGroup::all_reduce(at::Tensor tensor, ReduceOp op, Order order) {
  check_all_reduce(tensor, op, order, size_);
  payload_bytes_ += static_cast<std::int64_t>(tensor.nbytes());
  const at::NoGradGuard no_autograd;
  if (op == ReduceOp::sum && size_ > 1) tensor.mul_(size_);
  return finished_work();
}

std::unique_ptr<Work> InstantGroup::broadcast(at::Tensor tensor, int root) {
  check_broadcast(tensor, root, size_);
  payload_bytes_ += static_cast<std::int64_t>(tensor.nbytes());
  return finished_work();
}

std::unique_ptr<Work> InstantGroup::all_gather(at::Tensor output, at::Tensor input) {
  check_all_gather(output, input, size_);
  payload_bytes_ += static_cast<std::int64_t>(input.nbytes());
  const at::NoGradGuard no_autograd;
  output.view({size_, input.numel()}).copy_(input.reshape({1, -1}).expand({size_, -1}));
  return finished_work();
}

std::unique_ptr<Work> InstantGroup::reduce_scatter(at::Tensor output, at::Tensor input,
                                                   ReduceOp op) {
  check_reduce_scatter(output, input, size_);
  payload_bytes_ += static_cast<std::int64_t>(input.nbytes());
  const at::NoGradGuard no_autograd;
  const auto own = input.view({size_, -1}).select(0, rank_).view(output.sizes());
  if (!output.is_alias_of(own) || output.const_data_ptr() != own.const_data_ptr())
    output.copy_(own);
  if (op == ReduceOp::sum && size_ > 1) output.mul_(size_);
  return finished_work();
}

std::unique_ptr<Group> make_fake_group(int rank, int size) {
  LOCKSTEP_CHECK(size > 0 && rank >= 0 && rank < size, "a fake group needs 0 <= rank < size");
  return std::make_unique<InstantGroup>(rank, size, "fake");
}

}  // namespace lockstep::comm
