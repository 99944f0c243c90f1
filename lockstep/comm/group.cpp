#include "lockstep/comm/group.h"

#include <ATen/Functions.h>

#include <cstring>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/comm/arguments.h"

namespace lockstep::comm {
namespace {

class NothingToWaitFor : public Work {
 public:
  void wait() override {}
  [[nodiscard]] bool done() override { return true; }
};

std::int64_t bytes_of(const at::Tensor& tensor) {
  return static_cast<std::int64_t>(tensor.nbytes());
}

}  // namespace

Group::Group(int rank, int size, std::string backend, at::Device device)
    : rank_(rank), size_(size), backend_(std::move(backend)), device_(device) {
  LOCKSTEP_CHECK(size > 0 && rank >= 0 && rank < size, "a group needs 0 <= rank < size");
}

std::unique_ptr<Work> Group::finished_work() { return std::make_unique<NothingToWaitFor>(); }

std::unique_ptr<Work> Group::all_reduce(at::Tensor tensor, ReduceOp op, Order order) {
  check_all_reduce(tensor, op, order, size_);
  check_device(tensor, device_, backend_);
  if (tensor.numel() == 0) return finished_work();
  payload_bytes_ += bytes_of(tensor);
  return start_all_reduce(std::move(tensor), op, order);
}

at::Tensor Group::symmetric_zeros(std::int64_t count, at::ScalarType dtype) {
  LOCKSTEP_CHECK(count >= 0, "symmetric memory of a negative size");
  if (count == 0) return Group::make_symmetric(count, dtype);
  return make_symmetric(count, dtype);
}

at::Tensor Group::make_symmetric(std::int64_t count, at::ScalarType dtype) {
  return at::zeros({count}, at::TensorOptions().dtype(dtype).device(device_));
}

std::unique_ptr<Work> Group::broadcast(at::Tensor tensor, int root) {
  check_broadcast(tensor, root, size_);
  check_device(tensor, device_, backend_);
  if (tensor.numel() == 0) return finished_work();
  payload_bytes_ += bytes_of(tensor);
  return start_broadcast(std::move(tensor), root);
}

std::unique_ptr<Work> Group::all_gather(at::Tensor output, at::Tensor input) {
  check_all_gather(output, input, size_);
  check_device(output, device_, backend_);
  check_device(input, device_, backend_);
  if (input.numel() == 0) return finished_work();
  payload_bytes_ += bytes_of(input);
  return start_all_gather(std::move(output), std::move(input));
}

std::unique_ptr<Work> Group::reduce_scatter(at::Tensor output, at::Tensor input, ReduceOp op) {
  check_reduce_scatter(output, input, size_);
  check_device(output, device_, backend_);
  check_device(input, device_, backend_);
  if (output.numel() == 0) return finished_work();
  payload_bytes_ += bytes_of(input);
  return start_reduce_scatter(std::move(output), std::move(input), op);
}

std::string broadcast_text(Group& group, const std::string& text, int root) {
  const auto options = at::TensorOptions().device(group.device());
  auto bytes = at::full({1}, static_cast<std::int64_t>(text.size()), options.dtype(at::kLong));
  group.broadcast(bytes, root)->wait();
  std::string out = text;  // with the fake backend the others' text, too
  out.resize(static_cast<std::size_t>(bytes.item<std::int64_t>()));
  if (out.empty()) return out;
  const auto here = at::empty({static_cast<std::int64_t>(out.size())}, at::kByte);
  std::memcpy(here.mutable_data_ptr(), out.data(), out.size());
  auto body = here.to(group.device());
  group.broadcast(body, root)->wait();
  std::memcpy(out.data(), body.cpu().const_data_ptr(), out.size());
  return out;
}

}  // namespace lockstep::comm
