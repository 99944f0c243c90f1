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

Group::Group(int rank, int size, std::string backend)
    : rank_(rank), size_(size), backend_(std::move(backend)) {
  LOCKSTEP_CHECK(size > 0 && rank >= 0 && rank < size, "a group needs 0 <= rank < size");
}

std::unique_ptr<Work> Group::finished_work() { return std::make_unique<NothingToWaitFor>(); }

std::unique_ptr<Work> Group::all_reduce(at::Tensor tensor, ReduceOp op, Order order) {
  check_all_reduce(tensor, op, order, size_);
  if (tensor.numel() == 0) return finished_work();
  payload_bytes_ += bytes_of(tensor);
  return start_all_reduce(std::move(tensor), op, order);
}

std::unique_ptr<Work> Group::broadcast(at::Tensor tensor, int root) {
  check_broadcast(tensor, root, size_);
  if (tensor.numel() == 0) return finished_work();
  payload_bytes_ += bytes_of(tensor);
  return start_broadcast(std::move(tensor), root);
}

std::unique_ptr<Work> Group::all_gather(at::Tensor output, at::Tensor input) {
  check_all_gather(output, input, size_);
  if (input.numel() == 0) return finished_work();
  payload_bytes_ += bytes_of(input);
  return start_all_gather(std::move(output), std::move(input));
}

std::unique_ptr<Work> Group::reduce_scatter(at::Tensor output, at::Tensor input, ReduceOp op) {
  check_reduce_scatter(output, input, size_);
  if (output.numel() == 0) return finished_work();
  payload_bytes_ += bytes_of(input);
  return start_reduce_scatter(std::move(output), std::move(input), op);
}

std::string broadcast_text(Group& group, const std::string& text, int root) {
  auto bytes = at::full({1}, static_cast<std::int64_t>(text.size()), at::kLong);
  group.broadcast(bytes, root)->wait();
  std::string out(static_cast<std::size_t>(bytes.item<std::int64_t>()), '\0');
  if (out.empty()) return out;
  if (group.rank() == root) out = text;
  auto body = at::empty({static_cast<std::int64_t>(out.size())}, at::kByte);
  std::memcpy(body.mutable_data_ptr(), out.data(), out.size());
  group.broadcast(body, root)->wait();
  std::memcpy(out.data(), body.const_data_ptr(), out.size());
  return out;
}

}  // namespace lockstep::comm
