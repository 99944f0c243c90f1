#include <chrono>
#include <future>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/comm/arguments.h"
#include "lockstep/comm/gloo_mesh.h"
#include "lockstep/comm/gloo_scatter.h"
#include "lockstep/comm/group.h"
#include "lockstep/comm/instant_group.h"
#include "lockstep/comm/join.h"
#include "lockstep/comm/local_address.h"
#include "lockstep/comm/make_group.h"
#include "lockstep/comm/records/group_flight.h"
#include "lockstep/comm/tree_reducer.h"
#include "lockstep/store/server.h"

namespace lockstep::comm {
namespace {

// A healthy close takes microseconds; after a lost peer, Gloo waits for each queued collective's
// own deadline. What is not closed by then is left to the end of the process.
constexpr std::chrono::seconds kCloseDeadline{1};

/// What one group's collectives share with the group; lives as long as the last of them.
struct Context {
  explicit Context(const GroupOptions& given)
      : options(given), flight(given.flight, given.name, given.rank, given.size) {}

  const GroupOptions options;
  GroupFlight flight;

  [[nodiscard]] PeerLost lost(Ticket ticket, const std::exception& error) {
    flight.ended(ticket, false);
    return PeerLost({"LS-4002", where_of(options),
                     flight.failure_text(ticket, to_text(options.deadline), cause_text(error)),
                     "a peer ended or hangs: look for the first rank that failed, this one only "
                     "noticed"});
  }
};

c10d::ReduceOp to_c10d(ReduceOp op) {
  switch (op) {
    case ReduceOp::min:
      return c10d::ReduceOp::MIN;
    case ReduceOp::max:
      return c10d::ReduceOp::MAX;
    case ReduceOp::sum:
      break;
  }
  return c10d::ReduceOp::SUM;
}

std::string_view dtype_name(at::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat:
      return "float32";
    case at::kDouble:
      return "float64";
    case at::kBFloat16:
      return "bfloat16";
    case at::kLong:
      return "int64";
    case at::kInt:
      return "int32";
    case at::kByte:
      return "uint8";
    default:
      return c10::toString(dtype);
  }
}

/// Waits for `Pending` (a c10d::Work or a TreeWork) and translates errors.
template <class Pending, class IsDone>
class RecordedWork : public Work {
 public:
  RecordedWork(std::shared_ptr<Context> context, Ticket ticket, Pending pending, IsDone is_done)
      : context_(std::move(context)),
        ticket_(ticket),
        pending_(std::move(pending)),
        is_done_(is_done) {}

  void wait() override {
    try {
      pending_->wait(context_->options.deadline);
    } catch (const std::exception& error) {
      throw context_->lost(ticket_, error);
    }
    context_->flight.ended(ticket_, true);
  }

  [[nodiscard]] bool done() override { return is_done_(*pending_); }

 private:
  const std::shared_ptr<Context> context_;
  const Ticket ticket_;
  const Pending pending_;
  const IsDone is_done_;
};

/// The end of a collective is recorded when it comes, not when somebody waits for it: a verdict
/// must not take what nobody has looked at yet for stuck.
void record_end(const c10::intrusive_ptr<c10d::Work>& work, std::shared_ptr<Context> context,
                Ticket ticket) {
  const auto future = work->getFuture();
  if (!future) return;
  future->addCallback([context = std::move(context), ticket](c10::ivalue::Future& done) {
    context->flight.ended(ticket, !done.hasError());
  });
}
void record_end(const std::shared_ptr<ScatterWork>& work, std::shared_ptr<Context> context,
                Ticket ticket) {
  record_end(work->exchange(), std::move(context), ticket);
}

void record_end(const std::shared_ptr<TreeWork>& work, std::shared_ptr<Context> context,
                Ticket ticket) {
  work->on_end(
      [context = std::move(context), ticket](bool ok) { context->flight.ended(ticket, ok); });
}

/// The connections of a group: one mesh for what the caller issues, and where Order::tree needs
/// more than one exchange, a second one for what the tree's thread issues.
struct Mesh {
  c10::intrusive_ptr<c10d::Backend> backend;
  std::unique_ptr<TreeReducer> tree;
};

class GlooGroup : public Group {
 public:
  GlooGroup(std::shared_ptr<Context> context, std::unique_ptr<Mesh> mesh,
            std::unique_ptr<store::Server> server)
      : server_(std::move(server)), context_(std::move(context)), mesh_(std::move(mesh)) {}
  GlooGroup(const GlooGroup&) = delete;
  GlooGroup& operator=(const GlooGroup&) = delete;
  ~GlooGroup() override;

  [[nodiscard]] int rank() const override { return context_->options.rank; }
  [[nodiscard]] int size() const override { return context_->options.size; }
  [[nodiscard]] std::string backend() const override { return "gloo"; }
  [[nodiscard]] std::unique_ptr<Work> all_reduce(at::Tensor tensor, ReduceOp op,
                                                 Order order) override;
  [[nodiscard]] std::unique_ptr<Work> broadcast(at::Tensor tensor, int root) override;
  [[nodiscard]] std::unique_ptr<Work> all_gather(at::Tensor output, at::Tensor input) override;
  [[nodiscard]] std::unique_ptr<Work> reduce_scatter(at::Tensor output, at::Tensor input,
                                                     ReduceOp op) override;
  void barrier() override;
  [[nodiscard]] std::int64_t payload_bytes() const override { return payload_bytes_; }

 private:
  Ticket enter(std::string_view op, const at::Tensor& payload);
  template <class Issue>
  std::unique_ptr<Work> track(Ticket ticket, Issue issue);

  std::unique_ptr<store::Server> server_;
  std::shared_ptr<Context> context_;
  std::unique_ptr<Mesh> mesh_;
  std::int64_t payload_bytes_ = 0;
};

GlooGroup::~GlooGroup() {
  std::promise<void> closed;
  auto is_closed = closed.get_future();
  std::thread closer([mesh = std::move(mesh_), done = std::move(closed)]() mutable {
    mesh.reset();
    done.set_value();
  });
  if (is_closed.wait_for(kCloseDeadline) == std::future_status::ready) {
    closer.join();
  } else {
    closer.detach();
  }
}

Ticket GlooGroup::enter(std::string_view op, const at::Tensor& payload) {
  const auto bytes = static_cast<std::int64_t>(payload.nbytes());
  payload_bytes_ += bytes;
  return context_->flight.begin(op, dtype_name(payload.scalar_type()), payload.numel(), bytes);
}

/// Issues a collective; after a lost peer Gloo already throws here.
template <class Issue>
std::unique_ptr<Work> GlooGroup::track(Ticket ticket, Issue issue) {
  try {
    auto pending = issue();
    context_->flight.started(ticket);
    record_end(pending, context_, ticket);
    const auto is_done = [](auto& work) {
      if constexpr (requires { work.done(); })
        return work.done();
      else
        return work.isCompleted();
    };
    return std::make_unique<RecordedWork<decltype(pending), decltype(is_done)>>(
        context_, ticket, std::move(pending), is_done);
  } catch (const std::exception& error) {
    throw context_->lost(ticket, error);
  }
}

std::unique_ptr<Work> GlooGroup::all_reduce(at::Tensor tensor, ReduceOp op, Order order) {
  check_all_reduce(tensor, op, order, size());
  if (tensor.numel() == 0) return finished_work();
  const auto ticket = enter(order == Order::tree ? "tree all_reduce" : "all_reduce", tensor);
  auto flat = tensor.detach().view(-1);
  if (order == Order::tree && mesh_->tree != nullptr) {
    return track(ticket, [&] { return mesh_->tree->start(flat); });
  }
  return track(ticket, [&] {  // with two ranks a + b is the whole tree
    std::vector<at::Tensor> tensors{flat};
    c10d::AllreduceOptions options;
    options.reduceOp = to_c10d(op);
    return mesh_->backend->allreduce(tensors, options);
  });
}

std::unique_ptr<Work> GlooGroup::broadcast(at::Tensor tensor, int root) {
  check_broadcast(tensor, root, size());
  if (tensor.numel() == 0) return finished_work();
  const auto ticket = enter("broadcast", tensor);
  return track(ticket, [&] {
    std::vector<at::Tensor> tensors{tensor.detach()};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    return mesh_->backend->broadcast(tensors, options);
  });
}

std::unique_ptr<Work> GlooGroup::all_gather(at::Tensor output, at::Tensor input) {
  check_all_gather(output, input, size());
  if (input.numel() == 0) return finished_work();
  const auto ticket = enter("all_gather", input);
  auto flat_output = output.detach().view(-1);
  auto flat_input = input.detach().view(-1);
  return track(ticket, [&] { return mesh_->backend->_allgather_base(flat_output, flat_input); });
}

std::unique_ptr<Work> GlooGroup::reduce_scatter(at::Tensor output, at::Tensor input, ReduceOp op) {
  check_reduce_scatter(output, input, size());
  if (output.numel() == 0) return finished_work();
  const auto ticket = enter("reduce_scatter", input);
  auto flat_output = output.detach().view(-1);
  auto flat_input = input.detach().view(-1);
  return track(ticket, [&] {
    return std::make_shared<ScatterWork>(*mesh_->backend, flat_output, flat_input, op);
  });
}

void GlooGroup::barrier() {
  const auto ticket = context_->flight.begin("barrier", "", 0, 0);
  track(ticket, [&] { return mesh_->backend->barrier(); })->wait();
}

}  // namespace

std::unique_ptr<Group> make_gloo_group(const GroupOptions& options, Meeting meeting) {
  const c10::intrusive_ptr<c10d::Store> store = std::move(meeting.store);
  const std::string address = address_towards(options.store_host);
  auto mesh = std::make_unique<Mesh>();
  mesh->backend = connect_gloo(store, options, "calls", address);
  if (options.size > 2 && (options.size & (options.size - 1)) == 0) {
    mesh->tree = std::make_unique<TreeReducer>(
        mesh->backend, connect_gloo(store, options, "gathers", address), options.deadline);
  }
  auto context = std::make_shared<Context>(options);
  return std::make_unique<GlooGroup>(std::move(context), std::move(mesh),
                                     std::move(meeting.server));
}

}  // namespace lockstep::comm
