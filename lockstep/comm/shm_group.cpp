// Group over shared memory: ranks of one host.
#include "lockstep/comm/shm_group.h"

#include <chrono>
#include <memory>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/comm/make_group.h"
#include "lockstep/comm/records/purpose.h"

namespace lockstep::comm {
namespace {

using shm::Collective;

class ShmWork : public Work {
 public:
  explicit ShmWork(std::shared_ptr<ShmContext> context) : context_(std::move(context)) {}

  /// Once it is made nothing is missing any more: what was entered has its Work.
  void set_operation(std::shared_ptr<shm::Operation> operation) {
    operation_ = std::move(operation);
  }

  void wait() override {
    try {
      context_->link->engine().wait(*operation_, context_->options.deadline);
    } catch (const PeerLost& error) {
      throw PeerLost(
          context_->told(error, operation_->request().ticket, context_->options.deadline));
    }
  }
  [[nodiscard]] bool done() override { return context_->link->engine().poll(*operation_); }
  [[nodiscard]] std::int64_t ended_ns() const override {
    return context_->flight.ended_ns(operation_->request().ticket);
  }

 private:
  const std::shared_ptr<ShmContext> context_;
  std::shared_ptr<shm::Operation> operation_;
};

/// The tensors of a collective, which its engine reads and writes until it ends, whether or not
/// somebody still holds its Work.
struct Tensors {
  at::Tensor input;
  at::Tensor output;
};

class ShmGroup : public Group {
 public:
  ShmGroup(std::shared_ptr<ShmContext> context, std::unique_ptr<store::Server> server, bool closes)
      : Group(context->options.rank, context->options.size, "shm"),
        server_(std::move(server)),
        context_(std::move(context)),
        closes_(closes) {}
  ShmGroup(const ShmGroup&) = delete;
  ShmGroup& operator=(const ShmGroup&) = delete;
  ~ShmGroup() override {
    if (closes_) context_->close(std::chrono::milliseconds(0));
  }

 private:
  std::unique_ptr<Work> start_all_reduce(at::Tensor tensor, ReduceOp op, Order order) override;
  std::unique_ptr<Work> start_broadcast(at::Tensor tensor, int root) override;
  std::unique_ptr<Work> start_all_gather(at::Tensor output, at::Tensor input) override;
  std::unique_ptr<Work> start_reduce_scatter(at::Tensor output, at::Tensor input,
                                             ReduceOp op) override;
  void do_barrier() override;
  at::Tensor make_symmetric(std::int64_t count, at::ScalarType dtype) override {
    return context_->symmetric.zeros(*this, count, dtype);
  }

  std::unique_ptr<Work> issue(shm::CollectiveKind kind, std::int64_t count, at::Tensor input,
                              at::Tensor output);
  std::shared_ptr<shm::Operation> enter(shm::Request request);

  std::unique_ptr<store::Server> server_;
  std::shared_ptr<ShmContext> context_;
  const bool closes_;
};

std::unique_ptr<Work> ShmGroup::issue(shm::CollectiveKind kind, std::int64_t count,
                                      at::Tensor input, at::Tensor output) {
  const auto bytes = static_cast<std::int64_t>(input.nbytes());
  kind.type = element_type(input.scalar_type());
  shm::Request request;
  request.kind = kind;
  request.count = static_cast<std::size_t>(count);
  request.input = input.const_data_ptr();
  request.output = output.mutable_data_ptr();
  if (kind.collective == Collective::all_reduce) {
    context_->find_symmetric(request, static_cast<std::size_t>(bytes));
  }
  request.site = Purpose::current();
  request.ticket =
      context_->flight.begin(name(kind.collective), name(kind.type), input.numel(), bytes);
  request.owner = std::make_shared<Tensors>(Tensors{std::move(input), std::move(output)});
  auto work = std::make_unique<ShmWork>(context_);
  work->set_operation(enter(std::move(request)));
  return work;
}

std::shared_ptr<shm::Operation> ShmGroup::enter(shm::Request request) {
  const Ticket ticket = request.ticket;
  try {
    return context_->link->engine().issue(std::move(request));
  } catch (const PeerLost& error) {
    context_->flight.ended(ticket, false);
    throw PeerLost(context_->told(error, ticket, context_->options.deadline));
  } catch (...) {  // out of memory
    context_->flight.ended(ticket, false);
    throw;
  }
}

std::unique_ptr<Work> ShmGroup::start_all_reduce(at::Tensor tensor, ReduceOp op, Order /*order*/) {
  const std::int64_t count = tensor.numel();
  return issue({.collective = Collective::all_reduce, .reduction = reduction_of(op)}, count, tensor,
               tensor);
}

std::unique_ptr<Work> ShmGroup::start_broadcast(at::Tensor tensor, int root) {
  const std::int64_t count = tensor.numel();
  return issue({.collective = Collective::broadcast, .root = static_cast<std::uint32_t>(root)},
               count, tensor, tensor);
}

std::unique_ptr<Work> ShmGroup::start_all_gather(at::Tensor output, at::Tensor input) {
  const std::int64_t count = input.numel();
  return issue({.collective = Collective::all_gather}, count, std::move(input), std::move(output));
}

std::unique_ptr<Work> ShmGroup::start_reduce_scatter(at::Tensor output, at::Tensor input,
                                                     ReduceOp op) {
  const std::int64_t count = output.numel();
  return issue({.collective = Collective::reduce_scatter, .reduction = reduction_of(op)}, count,
               std::move(input), std::move(output));
}

void ShmGroup::do_barrier() {
  shm::Request request;
  request.kind.collective = Collective::barrier;
  request.site = Purpose::current();
  request.ticket = context_->flight.begin("barrier", "", 0, 0);
  ShmWork work(context_);
  work.set_operation(enter(std::move(request)));
  work.wait();
}

}  // namespace

std::unique_ptr<Group> make_shm_group(const GroupOptions& options, Meeting meeting) {
  auto context = std::make_shared<ShmContext>(options);
  context->link = connect_shm(*meeting.store, options, &context->flight);
  return std::make_unique<ShmGroup>(std::move(context), std::move(meeting.server), true);
}

std::unique_ptr<Group> group_of(std::shared_ptr<ShmContext> context) {
  return std::make_unique<ShmGroup>(std::move(context), nullptr, false);
}

}  // namespace lockstep::comm
