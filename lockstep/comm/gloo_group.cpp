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
#include "lockstep/comm/group.h"
#include "lockstep/comm/instant_group.h"
#include "lockstep/comm/join.h"
#include "lockstep/comm/local_address.h"
#include "lockstep/comm/records/record_ring.h"
#include "lockstep/comm/store_adapter.h"
#include "lockstep/comm/tree_reducer.h"
#include "lockstep/store/server.h"

namespace lockstep::comm {
namespace {

// A healthy close takes microseconds; after a lost peer, Gloo waits for each queued collective's
// own deadline. What is not closed by then is left to the end of the process.
constexpr std::chrono::seconds kCloseDeadline{1};

/// What one group's collectives share with the group; lives as long as the last of them.
struct Context {
  GroupOptions options;
  RecordRing ring;

  [[nodiscard]] PeerLost lost(std::int64_t seq, const std::exception& error) const {
    const auto record = ring.find(seq);
    const auto last = ring.last_completed();
    std::string what = (record ? describe(*record) : "collective #" + std::to_string(seq)) +
                       " failed (deadline " + to_text(options.deadline) + "): " + cause_text(error);
    what += last ? "; last completed here: " + describe(*last) : "; none had completed before";
    return PeerLost({"LS-4002", where_of(options), std::move(what),
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

/// Waits for `Pending` (a c10d::Work or a TreeWork), keeps the record and translates errors.
template <class Pending, class IsDone>
class RecordedWork : public Work {
 public:
  RecordedWork(std::shared_ptr<Context> context, std::int64_t seq, Pending pending, IsDone is_done)
      : context_(std::move(context)), seq_(seq), pending_(std::move(pending)), is_done_(is_done) {}

  void wait() override {
    try {
      pending_->wait(context_->options.deadline);
    } catch (const std::exception& error) {
      context_->ring.end(seq_, CollectiveState::failed);
      throw context_->lost(seq_, error);
    }
    context_->ring.end(seq_, CollectiveState::completed);
  }

  [[nodiscard]] bool done() override { return is_done_(*pending_); }

 private:
  const std::shared_ptr<Context> context_;
  const std::int64_t seq_;
  const Pending pending_;
  const IsDone is_done_;
};

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
  void barrier() override;
  [[nodiscard]] std::int64_t payload_bytes() const override { return payload_bytes_; }

 private:
  std::int64_t enter(std::string_view op, const at::Tensor& payload);
  template <class Issue>
  std::unique_ptr<Work> track(std::int64_t seq, Issue issue);

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

std::int64_t GlooGroup::enter(std::string_view op, const at::Tensor& payload) {
  payload_bytes_ += static_cast<std::int64_t>(payload.nbytes());
  return context_->ring.begin(op, dtype_name(payload.scalar_type()), payload.numel());
}

/// Issues a collective; after a lost peer Gloo already throws here.
template <class Issue>
std::unique_ptr<Work> GlooGroup::track(std::int64_t seq, Issue issue) {
  try {
    auto pending = issue();
    const auto is_done = [](auto& work) {
      if constexpr (requires { work.done(); })
        return work.done();
      else
        return work.isCompleted();
    };
    return std::make_unique<RecordedWork<decltype(pending), decltype(is_done)>>(
        context_, seq, std::move(pending), is_done);
  } catch (const std::exception& error) {
    context_->ring.end(seq, CollectiveState::failed);
    throw context_->lost(seq, error);
  }
}

std::unique_ptr<Work> GlooGroup::all_reduce(at::Tensor tensor, ReduceOp op, Order order) {
  check_all_reduce(tensor, op, order, size());
  if (tensor.numel() == 0) return finished_work();
  const auto seq = enter(order == Order::tree ? "tree all_reduce" : "all_reduce", tensor);
  auto flat = tensor.detach().view(-1);
  if (order == Order::tree && mesh_->tree != nullptr) {
    return track(seq, [&] { return mesh_->tree->start(flat); });
  }
  return track(seq, [&] {  // with two ranks a + b is the whole tree
    std::vector<at::Tensor> tensors{flat};
    c10d::AllreduceOptions options;
    options.reduceOp = to_c10d(op);
    return mesh_->backend->allreduce(tensors, options);
  });
}

std::unique_ptr<Work> GlooGroup::broadcast(at::Tensor tensor, int root) {
  check_broadcast(tensor, root, size());
  if (tensor.numel() == 0) return finished_work();
  const auto seq = enter("broadcast", tensor);
  return track(seq, [&] {
    std::vector<at::Tensor> tensors{tensor.detach()};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    return mesh_->backend->broadcast(tensors, options);
  });
}

std::unique_ptr<Work> GlooGroup::all_gather(at::Tensor output, at::Tensor input) {
  check_all_gather(output, input, size());
  if (input.numel() == 0) return finished_work();
  const auto seq = enter("all_gather", input);
  auto flat_output = output.detach().view(-1);
  auto flat_input = input.detach().view(-1);
  return track(seq, [&] { return mesh_->backend->_allgather_base(flat_output, flat_input); });
}

void GlooGroup::barrier() {
  const auto seq = context_->ring.begin("barrier", "", 0);
  track(seq, [&] { return mesh_->backend->barrier(); })->wait();
}

}  // namespace

std::unique_ptr<Group> make_gloo_group(const GroupOptions& options) {
  LOCKSTEP_CHECK(options.size > 0 && options.rank >= 0 && options.rank < options.size,
                 "a group needs 0 <= rank < size");
  if (options.size == 1) return std::make_unique<InstantGroup>(0, 1, "gloo");
  std::unique_ptr<store::Server> server;
  if (options.host_store) {
    server = std::make_unique<store::Server>(options.store_host, options.store_port);
  }
  const auto store = c10::make_intrusive<StoreAdapter>(options.store_host, options.store_port,
                                                       options.join_deadline);
  join(*store, options);
  const std::string address = address_towards(options.store_host);
  auto mesh = std::make_unique<Mesh>();
  mesh->backend = connect_gloo(store, options, "calls", address);
  if (options.size > 2 && (options.size & (options.size - 1)) == 0) {
    mesh->tree = std::make_unique<TreeReducer>(
        mesh->backend, connect_gloo(store, options, "gathers", address), options.deadline);
  }
  auto context = std::make_shared<Context>();
  context->options = options;
  return std::make_unique<GlooGroup>(std::move(context), std::move(mesh), std::move(server));
}

}  // namespace lockstep::comm
