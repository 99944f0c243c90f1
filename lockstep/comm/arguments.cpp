#include "lockstep/comm/arguments.h"

#include "lockstep/base/error.h"

namespace lockstep::comm {
namespace {

bool can_reduce(at::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat:
    case at::kDouble:
    case at::kBFloat16:
    case at::kHalf:
    case at::kLong:
    case at::kInt:
    case at::kByte:
      return true;
    default:
      return false;
  }
}

void check_buffer(const at::Tensor& tensor) {
  LOCKSTEP_CHECK(tensor.defined() && tensor.is_contiguous(),
                 "a collective needs a contiguous tensor");
}

}  // namespace

void check_device(const at::Tensor& tensor, at::Device device, std::string_view backend) {
  if (tensor.device() == device) return;
  throw Bug(__FILE__, __LINE__,
            "a group over " + std::string(backend) + " takes tensors on " + device.str() +
                ", and this one is on " + tensor.device().str() +
                ": make it with options.device(group.device())");
}

void check_all_reduce(const at::Tensor& tensor, ReduceOp op, Order order, int size) {
  check_buffer(tensor);
  LOCKSTEP_CHECK(can_reduce(tensor.scalar_type()),
                 std::string("all_reduce does not take ") + c10::toString(tensor.scalar_type()));
  if (order == Order::any) return;
  LOCKSTEP_CHECK(op == ReduceOp::sum, "Order::tree is for sums");
  LOCKSTEP_CHECK((size & (size - 1)) == 0, "Order::tree needs a group size that is a power of two");
}

void check_broadcast(const at::Tensor& tensor, int root, int size) {
  check_buffer(tensor);
  LOCKSTEP_CHECK(root >= 0 && root < size, "broadcast from a rank outside the group");
}

void check_reduce_scatter(const at::Tensor& output, const at::Tensor& input, int size) {
  check_buffer(output);
  check_buffer(input);
  LOCKSTEP_CHECK(can_reduce(input.scalar_type()),
                 std::string("reduce_scatter does not take ") + c10::toString(input.scalar_type()));
  LOCKSTEP_CHECK(output.scalar_type() == input.scalar_type(), "reduce_scatter changes no dtype");
  LOCKSTEP_CHECK(input.numel() == size * output.numel(),
                 "the input of reduce_scatter has the shape [n, *output.shape]");
}

void check_all_gather(const at::Tensor& output, const at::Tensor& input, int size) {
  check_buffer(output);
  check_buffer(input);
  LOCKSTEP_CHECK(output.scalar_type() == input.scalar_type(), "all_gather changes no dtype");
  LOCKSTEP_CHECK(output.numel() == size * input.numel(),
                 "the output of all_gather has the shape [n, *input.shape]");
}

}  // namespace lockstep::comm
