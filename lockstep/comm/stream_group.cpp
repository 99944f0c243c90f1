#include "lockstep/comm/stream_group.h"

#include <ATen/Functions.h>

#include <chrono>
#include <stdexcept>

#include "lockstep/base/error.h"
#include "lockstep/comm/checked_work.h"
#include "lockstep/comm/control_link.h"
#include "lockstep/comm/gpu_faults.h"
#include "lockstep/comm/records/purpose.h"
#include "lockstep/comm/shm/fingerprint.h"
#include "lockstep/comm/shm_link.h"
#include "lockstep/store/server.h"

namespace lockstep::comm {
namespace {

using shm::Collective;
using std::chrono::milliseconds;

// A healthy communicator closes in some ten milliseconds; a broken one may never.
constexpr milliseconds kCloseDeadline{2000};
constexpr milliseconds kLookWhileConnecting{50};
constexpr std::string_view kJoining = "connecting the ranks";

using Issued = c10::intrusive_ptr<c10d::Work>;

/// What only moves needs no type, and NCCL does not know all of them.
at::Tensor bytes_of(const at::Tensor& flat) { return flat.view(at::kByte); }

Issued all_reduce_of(c10d::Backend& backend, const at::Tensor& flat, ReduceOp op,
                     const After& after) {
  std::vector<at::Tensor> tensors{flat};
  c10d::AllreduceOptions options;
  options.reduceOp = to_c10d(op);
  auto work = backend.allreduce(tensors, options);
  after(*work);
  return work;
}

class StreamGroup : public Group {
 public:
  StreamGroup(std::shared_ptr<CheckedContext> context, std::shared_ptr<StreamLibrary> library,
              std::shared_ptr<CallThread> calls, std::unique_ptr<store::Server> server)
      : Group(context->options.rank, context->options.size, library->backend(), library->device()),
        server_(std::move(server)),
        context_(std::move(context)),
        library_(std::move(library)),
        calls_(std::move(calls)) {}
  StreamGroup(const StreamGroup&) = delete;
  StreamGroup& operator=(const StreamGroup&) = delete;
  ~StreamGroup() override;

 private:
  std::unique_ptr<Work> start_all_reduce(at::Tensor tensor, ReduceOp op, Order order) override;
  std::unique_ptr<Work> start_broadcast(at::Tensor tensor, int root) override;
  std::unique_ptr<Work> start_all_gather(at::Tensor output, at::Tensor input) override;
  std::unique_ptr<Work> start_reduce_scatter(at::Tensor output, at::Tensor input,
                                             ReduceOp op) override;
  void do_barrier() override;

  std::unique_ptr<Work> start(shm::CollectiveKind kind, std::int64_t count,
                              std::vector<at::Tensor> tensors, StreamLibrary::Issue issue);

  std::unique_ptr<store::Server> server_;
  std::shared_ptr<CheckedContext> context_;
  std::shared_ptr<StreamLibrary> library_;
  std::shared_ptr<CallThread> calls_;
};

StreamGroup::~StreamGroup() {
  context_->control->leave();
  calls_->close(context_->control->over() ? milliseconds(0) : kCloseDeadline);
  context_->control->close();
  context_->control->abandon("the group was closed with this collective in flight");
}

/// Tells the others and issues a collective. The word goes first: before NCCL has connections for a
/// kind of collective, issuing one waits for all ranks, and those that differ must be told apart.
/// \param tensors that it uses; the first is what the ranks put in.
std::unique_ptr<Work> StreamGroup::start(shm::CollectiveKind kind, std::int64_t count,
                                         std::vector<at::Tensor> tensors,
                                         StreamLibrary::Issue issue) {
  if (kind.collective != Collective::barrier) {
    kind.type = element_type(tensors.front().scalar_type());
  }
  const Ticket ticket = context_->record(kind, tensors.front());
  auto& control = *context_->control;
  if (const auto end = control.over()) context_->fail(ticket, *end);
  const std::uint64_t sequence = control.entered() + 1;
  try {
    auto call = library_->make_call(std::move(issue), std::move(tensors));
    control.enter(shm::make_fingerprint(kind, static_cast<std::uint64_t>(count)),
                  Purpose::current(), control::Proof::words);
    calls_->issue(call);
    context_->flight.started(ticket);
    // NCCL moves whatever meets: only the others' words prove that they entered the same.
    return std::make_unique<CheckedWork<std::shared_ptr<StreamCall>>>(
        context_, ticket, sequence, control::Proof::words, std::move(call));
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    context_->fail_here(ticket, sequence, nccl_cause(error.what()));
  }
}

std::unique_ptr<Work> StreamGroup::start_all_reduce(at::Tensor tensor, ReduceOp op, Order order) {
  const auto flat = tensor.detach().view(-1);
  shm::CollectiveKind kind{.collective = Collective::all_reduce, .reduction = reduction_of(op)};
  kind.ordered = order == Order::tree && size() > 2;  // with two ranks a + b is the whole tree
  return start(kind, flat.numel(), {flat},
               [flat, op, tree = kind.ordered](c10d::Backend& backend, const After& after) {
                 return tree ? tree_all_reduce(backend, flat, after)
                             : all_reduce_of(backend, flat, op, after);
               });
}

std::unique_ptr<Work> StreamGroup::start_broadcast(at::Tensor tensor, int root) {
  const auto flat = tensor.detach().view(-1);
  return start({.collective = Collective::broadcast, .root = static_cast<std::uint32_t>(root)},
               flat.numel(), {flat}, [flat, root](c10d::Backend& backend, const After& after) {
                 std::vector<at::Tensor> tensors{bytes_of(flat)};
                 c10d::BroadcastOptions options;
                 options.rootRank = root;
                 auto work = backend.broadcast(tensors, options);
                 after(*work);
                 return work;
               });
}

std::unique_ptr<Work> StreamGroup::start_all_gather(at::Tensor output, at::Tensor input) {
  const auto from = input.detach().view(-1);
  const auto into = output.detach().view(-1);
  return start({.collective = Collective::all_gather}, from.numel(), {from, into},
               [from, into](c10d::Backend& backend, const After& after) {
                 at::Tensor source = bytes_of(from);
                 at::Tensor target = bytes_of(into);
                 auto work = backend._allgather_base(target, source);
                 after(*work);
                 return work;
               });
}

std::unique_ptr<Work> StreamGroup::start_reduce_scatter(at::Tensor output, at::Tensor input,
                                                        ReduceOp op) {
  const auto from = input.detach().view(-1);
  const auto into = output.detach().view(-1);
  return start({.collective = Collective::reduce_scatter, .reduction = reduction_of(op)},
               into.numel(), {from, into},
               [from, into, op](c10d::Backend& backend, const After& after) {
                 at::Tensor source = from;
                 at::Tensor target = into;
                 c10d::ReduceScatterOptions options;
                 options.reduceOp = to_c10d(op);
                 auto work = backend._reduce_scatter_base(target, source, options);
                 after(*work);
                 return work;
               });
}

void StreamGroup::do_barrier() {
  const auto token = at::zeros({1}, at::TensorOptions().dtype(at::kInt).device(device()));
  start({.collective = Collective::barrier}, 0, {token},
        [token](c10d::Backend& backend, const After& after) {
          return all_reduce_of(backend, token, ReduceOp::sum, after);
        })
      ->wait();
}

/// Collective. Waits until the library has connected this rank, and all others have come as far. A
/// rank that ends or fails meanwhile ends the wait of all: NCCL itself would wait without end.
/// \throws PeerLost.
void await_connection(CallThread& calls, CheckedContext& context, const StreamLibrary& library) {
  const GroupOptions& options = context.options;
  control::Channel& control = *context.control;
  const auto not_connected = [&](const std::string& cause) {
    return PeerLost(
        {"LS-4005", where_of(options),
         "all ranks joined, but connecting them over " + library.backend() + " failed: " + cause,
         library.advice()});
  };
  const auto until = std::chrono::steady_clock::now() + options.join_deadline;
  control::Transfer connected;
  const Ticket ticket = context.flight.begin("barrier", "", 0, 0, kJoining);
  control.enter(shm::make_fingerprint({.collective = Collective::barrier}, 0), kJoining,
                control::Proof::words);
  context.flight.started(ticket);
  std::string cause;
  try {
    while (!calls.opened(kLookWhileConnecting)) {
      if (const auto end = control.over()) throw std::runtime_error(end->reason);  // told below
      if (std::chrono::steady_clock::now() < until) continue;
      throw std::runtime_error("it did not end within " + to_text(options.join_deadline));
    }
    control.data_ended(connected, true);
    const auto left = std::chrono::ceil<milliseconds>(until - std::chrono::steady_clock::now());
    if (control.wait(control.entered(), connected, std::max(left, milliseconds(1))) ==
        control::Outcome::done) {
      return context.flight.ended(ticket, true);
    }
    cause = control.missing(control.entered());
  } catch (const std::exception& error) {
    cause = nccl_cause(error.what());
  }
  context.flight.ended(ticket, false);
  if (const auto end = control.over(kWordOfThePeer)) throw not_connected(end->reason);
  cause = "rank " + std::to_string(options.rank) + ": " + cause;
  control.abort({false, cause});
  throw not_connected(cause);
}

}  // namespace

std::unique_ptr<Group> make_stream_group(const GroupOptions& options, Meeting meeting,
                                         std::shared_ptr<StreamLibrary> library) {
  const c10::intrusive_ptr<c10d::Store> store = std::move(meeting.store);
  const auto calls = std::make_shared<CallThread>(library);
  auto context = std::make_shared<CheckedContext>(
      options, Compared::each,
      connect_control(*store, options, options.address,
                      [calls](const control::End& /*reason*/) { calls->abort(); }));
  // Only now: the library may wait in the store, whose connection this thread would share.
  calls->start();
  await_connection(*calls, *context, *library);
  return std::make_unique<StreamGroup>(std::move(context), std::move(library), calls,
                                       std::move(meeting.server));
}

void rethrow(const std::shared_ptr<StreamCall>& call) {
  try {
    call->rethrow();
  } catch (const std::exception& error) {
    throw std::runtime_error(nccl_cause(error.what()));
  }
}

}  // namespace lockstep::comm
