// Group over Gloo: ranks of one host or several. Gloo moves the data, control connections compare
// what the ranks enter and watch over them.
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/rng.h"
#include "lockstep/comm/control/channel.h"
#include "lockstep/comm/gloo_mesh.h"
#include "lockstep/comm/gloo_scatter.h"
#include "lockstep/comm/group.h"
#include "lockstep/comm/join.h"
#include "lockstep/comm/local_address.h"
#include "lockstep/comm/make_group.h"
#include "lockstep/comm/records/disagreement.h"
#include "lockstep/comm/records/group_flight.h"
#include "lockstep/comm/records/purpose.h"
#include "lockstep/comm/shm/fingerprint.h"
#include "lockstep/comm/shm_link.h"
#include "lockstep/comm/tree_reducer.h"
#include "lockstep/store/server.h"

namespace lockstep::comm {
namespace {

using shm::Collective;

// A healthy close takes microseconds; after a lost peer, Gloo waits for each queued collective's
// own deadline. What is not closed by then is left to the end of the process.
constexpr std::chrono::milliseconds kCloseDeadline{1000};
// Collectives that never met their other halves do not end earlier than that.
constexpr std::chrono::milliseconds kCloseDeadlineOfTheLost{200};

// Gloo may notice the end of a peer before its control connection does.
constexpr std::chrono::milliseconds kWordOfThePeer{500};

/// What one group's collectives share with the group; lives as long as the last of them.
struct Context {
  Context(const GroupOptions& given, std::unique_ptr<control::Channel> channel)
      : options(given),
        flight(given.flight, given.name, given.rank, given.size),
        control(std::move(channel)) {}

  const GroupOptions options;
  GroupFlight flight;
  const std::unique_ptr<control::Channel> control;

  /// Throws what all ranks throw, once the group is over.
  [[noreturn]] void fail(Ticket ticket, const control::End& end) {
    flight.ended(ticket, false);
    if (end.disagreement) throw Disagreement(end.reason);
    throw PeerLost({"LS-4002", where_of(options),
                    flight.failure_text(ticket, to_text(options.deadline), end.reason),
                    "a peer ended or hangs: look for the first rank that failed, this one only "
                    "noticed"});
  }

  /// Ends the group for a fault that only this rank knows of, unless another reason comes first.
  [[noreturn]] void fail_here(Ticket ticket, const std::string& cause) {
    if (const auto end = control->over(kWordOfThePeer)) fail(ticket, *end);
    give_up(ticket, cause);
  }
  [[noreturn]] void give_up(Ticket ticket, const std::string& cause) {
    control->abort({false, "rank " + std::to_string(options.rank) + " gave up collective #" +
                               std::to_string(ticket.sequence) + " after " +
                               to_text(options.deadline) + ": " + cause});
    fail(ticket, {false, cause});
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

/// What every rank must enter with: travels on the control connections, and in short with the data.
struct Entry {
  shm::CollectiveKind kind;
  std::int64_t count = 0;
};

/// Where the sequence alone does not tell two collectives apart, and Gloo would put bytes of one
/// into buffers of the other or end the process because they do not fit, the fingerprint does.
std::uint32_t tag_of(std::uint64_t sequence, const shm::Fingerprint& fingerprint) {
  constexpr int kHashBits = 22;  // the others count: collectives in flight never share a tag
  const std::uint64_t hash = mix(sequence, fingerprint.kind, fingerprint.count);
  return static_cast<std::uint32_t>(sequence << kHashBits | hash >> (64 - kHashBits));
}

// How the backends' ways of being in flight end, and what is left to do then.
void finish(const c10::intrusive_ptr<c10d::Work>& /*work*/) {}
void finish(const std::shared_ptr<ScatterWork>& work) { work->finish(); }
void finish(const std::shared_ptr<TreeWork>& work) { work->finish(); }

void rethrow(const c10::intrusive_ptr<c10d::Work>& work) { work->wait(); }
void rethrow(const std::shared_ptr<ScatterWork>& work) { work->exchange()->wait(); }
void rethrow(const std::shared_ptr<TreeWork>& work) { work->rethrow(); }

void on_end(const c10::intrusive_ptr<c10d::Work>& work, std::function<void(bool ok)> listener) {
  work->getFuture()->addCallback(
      [listener = std::move(listener)](c10::ivalue::Future& done) { listener(!done.hasError()); });
}
void on_end(const std::shared_ptr<ScatterWork>& work, std::function<void(bool ok)> listener) {
  on_end(work->exchange(), std::move(listener));
}
void on_end(const std::shared_ptr<TreeWork>& work, std::function<void(bool ok)> listener) {
  work->on_end(std::move(listener));
}

/// Waits for the data and for word of every rank that it entered the same.
template <class Pending>
class CheckedWork : public Work {
 public:
  CheckedWork(std::shared_ptr<Context> context, Ticket ticket, std::uint64_t sequence,
              Pending pending)
      : context_(std::move(context)),
        ticket_(ticket),
        sequence_(sequence),
        pending_(std::move(pending)) {
    // The end of a collective is recorded when it comes, not when somebody waits for it: a verdict
    // must not take what nobody has looked at yet for stuck.
    on_end(pending_, [context = context_, transfer = transfer_, ticket](bool ok) {
      context->flight.ended(ticket, ok);
      context->control->data_ended(*transfer, ok);
    });
  }

  void wait() override {
    switch (context_->control->wait(sequence_, *transfer_, context_->options.deadline)) {
      case control::Outcome::done:
        return finish(pending_);
      case control::Outcome::over:
        context_->fail(ticket_, context_->control->over().value());
      case control::Outcome::data_failed:
        context_->fail_here(ticket_, cause());
      case control::Outcome::timed_out:
        context_->give_up(ticket_, "timed out: " + context_->control->missing(sequence_));
    }
  }

  [[nodiscard]] bool done() override { return context_->control->poll(sequence_, *transfer_); }

 private:
  [[nodiscard]] std::string cause() const {
    try {
      rethrow(pending_);
    } catch (const std::exception& error) {
      return cause_text(error);
    }
    return "its data did not come";
  }

  const std::shared_ptr<Context> context_;
  const Ticket ticket_;
  const std::uint64_t sequence_;
  const Pending pending_;
  const std::shared_ptr<control::Transfer> transfer_ = std::make_shared<control::Transfer>();
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
      : Group(context->options.rank, context->options.size, "gloo"),
        server_(std::move(server)),
        context_(std::move(context)),
        mesh_(std::move(mesh)) {}
  GlooGroup(const GlooGroup&) = delete;
  GlooGroup& operator=(const GlooGroup&) = delete;
  ~GlooGroup() override;

 private:
  std::unique_ptr<Work> start_all_reduce(at::Tensor tensor, ReduceOp op, Order order) override;
  std::unique_ptr<Work> start_broadcast(at::Tensor tensor, int root) override;
  std::unique_ptr<Work> start_all_gather(at::Tensor output, at::Tensor input) override;
  std::unique_ptr<Work> start_reduce_scatter(at::Tensor output, at::Tensor input,
                                             ReduceOp op) override;
  void do_barrier() override;

  template <class Issue>
  std::unique_ptr<Work> start(Entry entry, const at::Tensor& payload, Issue issue);

  std::unique_ptr<store::Server> server_;
  std::shared_ptr<Context> context_;
  std::unique_ptr<Mesh> mesh_;
};

GlooGroup::~GlooGroup() {
  context_->control->leave();
  std::promise<void> closed;
  auto is_closed = closed.get_future();
  std::thread closer([mesh = std::move(mesh_), done = std::move(closed)]() mutable {
    mesh.reset();
    done.set_value();
  });
  const auto patience = context_->control->over() ? kCloseDeadlineOfTheLost : kCloseDeadline;
  if (is_closed.wait_for(patience) == std::future_status::ready) {
    closer.join();
  } else {
    closer.detach();
  }
  context_->control->close();
}

/// Issues a collective by issue(tag) and tells the others. The data goes first: it takes longer.
template <class Issue>
std::unique_ptr<Work> GlooGroup::start(Entry entry, const at::Tensor& payload, Issue issue) {
  std::string_view dtype;
  std::int64_t bytes = 0;
  if (payload.defined()) {
    entry.kind.type = element_type(payload.scalar_type());
    dtype = shm::name(entry.kind.type);
    bytes = static_cast<std::int64_t>(payload.nbytes());
  }
  std::string op(shm::name(entry.kind.collective));
  if (entry.kind.ordered) op = "tree " + op;
  const auto ticket =
      context_->flight.begin(op, dtype, payload.defined() ? payload.numel() : 0, bytes);
  auto& control = *context_->control;
  if (const auto end = control.over()) context_->fail(ticket, *end);
  const auto fingerprint =
      shm::make_fingerprint(entry.kind, static_cast<std::uint64_t>(entry.count));
  const std::uint64_t sequence = control.next_sequence();
  try {
    auto pending = issue(tag_of(sequence, fingerprint));
    control.enter(fingerprint, Purpose::current());
    context_->flight.started(ticket);
    return std::make_unique<CheckedWork<decltype(pending)>>(context_, ticket, sequence,
                                                            std::move(pending));
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {  // after a lost peer Gloo already throws here
    context_->fail_here(ticket, cause_text(error));
  }
}

std::unique_ptr<Work> GlooGroup::start_all_reduce(at::Tensor tensor, ReduceOp op, Order order) {
  auto flat = tensor.detach().view(-1);
  Entry entry{{.collective = Collective::all_reduce, .reduction = reduction_of(op)},
              tensor.numel()};
  if (order == Order::tree && mesh_->tree != nullptr) {
    entry.kind.ordered = true;
    return start(entry, tensor, [&](auto tag) { return mesh_->tree->start(flat, tag); });
  }
  return start(entry, tensor, [&](auto tag) {  // with two ranks a + b is the whole tree
    std::vector<at::Tensor> tensors{flat};
    c10d::AllreduceOptions options;
    options.reduceOp = to_c10d(op);
    tag_next(*mesh_->backend, tag);
    return mesh_->backend->allreduce(tensors, options);
  });
}

std::unique_ptr<Work> GlooGroup::start_broadcast(at::Tensor tensor, int root) {
  const Entry entry{{.collective = Collective::broadcast, .root = static_cast<std::uint32_t>(root)},
                    tensor.numel()};
  return start(entry, tensor, [&](auto tag) {
    std::vector<at::Tensor> tensors{tensor.detach()};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    tag_next(*mesh_->backend, tag);
    return mesh_->backend->broadcast(tensors, options);
  });
}

std::unique_ptr<Work> GlooGroup::start_all_gather(at::Tensor output, at::Tensor input) {
  auto flat_output = output.detach().view(-1);
  auto flat_input = input.detach().view(-1);
  const Entry entry{{.collective = Collective::all_gather}, input.numel()};
  return start(entry, input, [&](auto tag) {
    tag_next(*mesh_->backend, tag);
    return mesh_->backend->_allgather_base(flat_output, flat_input);
  });
}

std::unique_ptr<Work> GlooGroup::start_reduce_scatter(at::Tensor output, at::Tensor input,
                                                      ReduceOp op) {
  auto flat_output = output.detach().view(-1);
  auto flat_input = input.detach().view(-1);
  const Entry entry{{.collective = Collective::reduce_scatter, .reduction = reduction_of(op)},
                    output.numel()};
  return start(entry, input, [&](auto tag) {
    tag_next(*mesh_->backend, tag);
    return std::make_shared<ScatterWork>(*mesh_->backend, flat_output, flat_input, op);
  });
}

void GlooGroup::do_barrier() {
  const Entry entry{{.collective = Collective::barrier}};
  start(entry, {}, [&](auto tag) {
    tag_next(*mesh_->backend, tag);
    return mesh_->backend->barrier();
  })->wait();
}

/// Collective. Control connections to all ranks; where each can be reached stands in the store.
std::unique_ptr<control::Channel> connect_control(c10d::Store& store, const GroupOptions& options,
                                                  const std::string& address) {
  control::Door door(address);
  const auto until = std::chrono::steady_clock::now() + options.join_deadline;
  std::vector<control::Card> cards;
  for (const auto& text : exchange_texts(store, options, "control", to_text(door.card()),
                                         "where its control connections go")) {
    cards.push_back(control::card_from_text(text));
  }
  auto peers = door.meet(options.rank, cards, where_of(options), until);
  return std::make_unique<control::Channel>(options.rank, std::move(peers), std::move(cards));
}

}  // namespace

std::unique_ptr<Group> make_gloo_group(const GroupOptions& options, Meeting meeting) {
  const c10::intrusive_ptr<c10d::Store> store = std::move(meeting.store);
  const std::string address =
      options.address.empty() ? address_towards(options.store_host) : options.address;
  auto mesh = std::make_unique<Mesh>();
  mesh->backend = connect_gloo(store, options, "calls", address);
  if (options.size > 2 && (options.size & (options.size - 1)) == 0) {
    mesh->tree = std::make_unique<TreeReducer>(
        mesh->backend, connect_gloo(store, options, "gathers", address), options.deadline);
  }
  auto context = std::make_shared<Context>(options, connect_control(*store, options, address));
  return std::make_unique<GlooGroup>(std::move(context), std::move(mesh),
                                     std::move(meeting.server));
}

}  // namespace lockstep::comm
