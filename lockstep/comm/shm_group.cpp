// Group over shared memory: ranks of one host.
#include <memory>
#include <string>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/comm/arguments.h"
#include "lockstep/comm/group.h"
#include "lockstep/comm/instant_group.h"
#include "lockstep/comm/make_group.h"
#include "lockstep/comm/shm_link.h"

namespace lockstep::comm {
namespace {

using shm::Collective;

class ShmWork : public Work {
 public:
  ShmWork(std::shared_ptr<ShmLink> link, std::shared_ptr<shm::Operation> operation,
          std::chrono::milliseconds deadline, at::Tensor input, at::Tensor output)
      : link_(std::move(link)),
        operation_(std::move(operation)),
        deadline_(deadline),
        input_(std::move(input)),
        output_(std::move(output)) {}

  void wait() override { link_->engine().wait(*operation_, deadline_); }
  [[nodiscard]] bool done() override { return link_->engine().poll(*operation_); }

 private:
  const std::shared_ptr<ShmLink> link_;
  const std::shared_ptr<shm::Operation> operation_;
  const std::chrono::milliseconds deadline_;
  const at::Tensor input_;  // alive as long as others may read them
  const at::Tensor output_;
};

class ShmGroup : public Group {
 public:
  ShmGroup(const GroupOptions& options, std::shared_ptr<ShmLink> link,
           std::unique_ptr<store::Server> server)
      : options_(options), server_(std::move(server)), link_(std::move(link)) {}

  [[nodiscard]] int rank() const override { return options_.rank; }
  [[nodiscard]] int size() const override { return options_.size; }
  [[nodiscard]] std::string backend() const override { return "shm"; }
  [[nodiscard]] std::unique_ptr<Work> all_reduce(at::Tensor tensor, ReduceOp op,
                                                 Order order) override;
  [[nodiscard]] std::unique_ptr<Work> broadcast(at::Tensor tensor, int root) override;
  [[nodiscard]] std::unique_ptr<Work> all_gather(at::Tensor output, at::Tensor input) override;
  [[nodiscard]] std::unique_ptr<Work> reduce_scatter(at::Tensor output, at::Tensor input,
                                                     ReduceOp op) override;
  void barrier() override;
  [[nodiscard]] std::int64_t payload_bytes() const override { return payload_bytes_; }

 private:
  std::unique_ptr<Work> issue(shm::CollectiveKind kind, std::int64_t count, at::Tensor input,
                              at::Tensor output);

  const GroupOptions options_;
  std::unique_ptr<store::Server> server_;
  std::shared_ptr<ShmLink> link_;
  std::int64_t payload_bytes_ = 0;
};

std::unique_ptr<Work> ShmGroup::issue(shm::CollectiveKind kind, std::int64_t count,
                                      at::Tensor input, at::Tensor output) {
  payload_bytes_ += static_cast<std::int64_t>(input.nbytes());
  shm::Request request;
  kind.type = element_type(input.scalar_type());
  request.kind = kind;
  request.count = static_cast<std::size_t>(count);
  request.input = input.const_data_ptr();
  request.output = output.mutable_data_ptr();
  auto operation = link_->engine().issue(std::move(request));
  return std::make_unique<ShmWork>(link_, std::move(operation), options_.deadline,
                                   std::move(input), std::move(output));
}

std::unique_ptr<Work> ShmGroup::all_reduce(at::Tensor tensor, ReduceOp op, Order order) {
  check_all_reduce(tensor, op, order, size());
  if (tensor.numel() == 0) return finished_work();
  const std::int64_t count = tensor.numel();
  return issue({.collective = Collective::all_reduce, .reduction = reduction_of(op)}, count, tensor,
               tensor);
}

std::unique_ptr<Work> ShmGroup::broadcast(at::Tensor tensor, int root) {
  check_broadcast(tensor, root, size());
  if (tensor.numel() == 0) return finished_work();
  const std::int64_t count = tensor.numel();
  return issue({.collective = Collective::broadcast, .root = static_cast<std::uint32_t>(root)},
               count, tensor, tensor);
}

std::unique_ptr<Work> ShmGroup::all_gather(at::Tensor output, at::Tensor input) {
  check_all_gather(output, input, size());
  if (input.numel() == 0) return finished_work();
  const std::int64_t count = input.numel();
  return issue({.collective = Collective::all_gather}, count, std::move(input), std::move(output));
}

std::unique_ptr<Work> ShmGroup::reduce_scatter(at::Tensor output, at::Tensor input, ReduceOp op) {
  check_reduce_scatter(output, input, size());
  if (output.numel() == 0) return finished_work();
  const std::int64_t count = output.numel();
  return issue({.collective = Collective::reduce_scatter, .reduction = reduction_of(op)}, count,
               std::move(input), std::move(output));
}

void ShmGroup::barrier() {
  shm::Request request;
  request.kind.collective = Collective::barrier;
  link_->engine().wait(*link_->engine().issue(std::move(request)), options_.deadline);
}

}  // namespace

std::unique_ptr<Group> make_shm_group(const GroupOptions& options, Meeting meeting) {
  auto link = connect_shm(*meeting.store, options);
  return std::make_unique<ShmGroup>(options, std::move(link), std::move(meeting.server));
}

}  // namespace lockstep::comm
