// Group over NCCL: one GPU a rank. NCCL moves the data, control connections compare what the ranks
// enter and watch over them, as over Gloo.
#include <cuda_runtime_api.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/comm/control_link.h"
#include "lockstep/comm/gloo_work.h"
#include "lockstep/comm/gpu_faults.h"
#include "lockstep/comm/host_layout.h"
#include "lockstep/comm/make_group.h"
#include "lockstep/comm/nccl_calls.h"
#include "lockstep/comm/rank_places.h"
#include "lockstep/comm/records/purpose.h"
#include "lockstep/comm/shm/fingerprint.h"
#include "lockstep/comm/shm_link.h"
#include "lockstep/comm/stream_tree.h"
#include "lockstep/store/server.h"

namespace lockstep::comm {
namespace {

using shm::Collective;
using std::chrono::milliseconds;

// A healthy communicator closes in some ten milliseconds; a broken one may never.
constexpr milliseconds kCloseDeadline{2000};
constexpr milliseconds kLookWhileConnecting{50};
constexpr std::string_view kJoining = "joining NCCL";
// NCCL may notice the end of a peer before its control connection does.
constexpr milliseconds kWordOfThePeer{500};

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

using Issued = c10::intrusive_ptr<c10d::Work>;

/// What only moves needs no type, and NCCL does not know all of them.
at::Tensor bytes_of(const at::Tensor& flat) { return flat.view(at::kByte); }

/// The current stream comes after it.
Issued after(Issued work) {
  work->synchronize();
  return work;
}

class NcclGroup : public Group {
 public:
  NcclGroup(std::shared_ptr<GlooContext> context, std::shared_ptr<NcclLibrary> library,
            std::shared_ptr<CallThread> calls, std::unique_ptr<store::Server> server)
      : Group(context->options.rank, context->options.size, "nccl", library->device()),
        server_(std::move(server)),
        context_(std::move(context)),
        library_(std::move(library)),
        calls_(std::move(calls)) {}
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;
  ~NcclGroup() override;

 private:
  std::unique_ptr<Work> start_all_reduce(at::Tensor tensor, ReduceOp op, Order order) override;
  std::unique_ptr<Work> start_broadcast(at::Tensor tensor, int root) override;
  std::unique_ptr<Work> start_all_gather(at::Tensor output, at::Tensor input) override;
  std::unique_ptr<Work> start_reduce_scatter(at::Tensor output, at::Tensor input,
                                             ReduceOp op) override;
  void do_barrier() override;

  std::unique_ptr<Work> start(shm::CollectiveKind kind, std::int64_t count,
                              std::vector<at::Tensor> tensors, NcclCall::Issue issue);

  std::unique_ptr<store::Server> server_;
  std::shared_ptr<GlooContext> context_;
  std::shared_ptr<NcclLibrary> library_;
  std::shared_ptr<CallThread> calls_;
};

NcclGroup::~NcclGroup() {
  context_->control->leave();
  calls_->close(context_->control->over() ? milliseconds(0) : kCloseDeadline);
  context_->control->abandon("the group was closed with this collective in flight");
  context_->control->close();
}

/// Tells the others and issues a collective. The word goes first: before NCCL has connections for a
/// kind of collective, issuing one waits for all ranks, and those that differ must be told apart.
/// \param tensors that it uses; the first is what the ranks put in.
std::unique_ptr<Work> NcclGroup::start(shm::CollectiveKind kind, std::int64_t count,
                                       std::vector<at::Tensor> tensors, NcclCall::Issue issue) {
  const at::Tensor& payload = tensors.front();
  std::string op(shm::name(kind.collective));
  const bool is_barrier = kind.collective == Collective::barrier;
  if (!is_barrier) kind.type = element_type(payload.scalar_type());
  if (kind.ordered) op = "tree " + op;
  const Ticket ticket = is_barrier
                            ? context_->flight.begin(op, "", 0, 0)
                            : context_->flight.begin(op, shm::name(kind.type), payload.numel(),
                                                     static_cast<std::int64_t>(payload.nbytes()));
  auto& control = *context_->control;
  if (const auto end = control.over()) context_->fail(ticket, *end);
  const std::uint64_t sequence = control.entered() + 1;
  try {
    auto call = std::make_shared<NcclCall>(library_, std::move(issue), std::move(tensors));
    control.enter(shm::make_fingerprint(kind, static_cast<std::uint64_t>(count)),
                  Purpose::current(), control::Proof::words);
    calls_->issue(call);
    context_->flight.started(ticket);
    // NCCL moves whatever meets: only the others' words prove that they entered the same.
    return std::make_unique<CheckedWork<std::shared_ptr<NcclCall>>>(
        context_, ticket, sequence, control::Proof::words, std::move(call));
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    context_->fail_here(ticket, sequence, nccl_cause(error.what()));
  }
}

std::unique_ptr<Work> NcclGroup::start_all_reduce(at::Tensor tensor, ReduceOp op, Order order) {
  const auto flat = tensor.detach().view(-1);
  shm::CollectiveKind kind{.collective = Collective::all_reduce, .reduction = reduction_of(op)};
  kind.ordered = order == Order::tree && size() > 2;  // with two ranks a + b is the whole tree
  if (kind.ordered) {
    return start(kind, flat.numel(), {flat}, [flat](c10d::Backend& nccl) {
      return tree_all_reduce(nccl, flat, [](c10d::Work& work) { work.synchronize(); });
    });
  }
  return start(kind, flat.numel(), {flat}, [flat, op](c10d::Backend& nccl) {
    std::vector<at::Tensor> tensors{flat};
    c10d::AllreduceOptions options;
    options.reduceOp = to_c10d(op);
    return after(nccl.allreduce(tensors, options));
  });
}

std::unique_ptr<Work> NcclGroup::start_broadcast(at::Tensor tensor, int root) {
  const auto flat = tensor.detach().view(-1);
  return start({.collective = Collective::broadcast, .root = static_cast<std::uint32_t>(root)},
               flat.numel(), {flat}, [flat, root](c10d::Backend& nccl) {
                 std::vector<at::Tensor> tensors{bytes_of(flat)};
                 c10d::BroadcastOptions options;
                 options.rootRank = root;
                 return after(nccl.broadcast(tensors, options));
               });
}

std::unique_ptr<Work> NcclGroup::start_all_gather(at::Tensor output, at::Tensor input) {
  const auto from = input.detach().view(-1);
  const auto into = output.detach().view(-1);
  return start({.collective = Collective::all_gather}, from.numel(), {from, into},
               [from, into](c10d::Backend& nccl) {
                 at::Tensor source = bytes_of(from);
                 at::Tensor target = bytes_of(into);
                 return after(nccl._allgather_base(target, source));
               });
}

std::unique_ptr<Work> NcclGroup::start_reduce_scatter(at::Tensor output, at::Tensor input,
                                                      ReduceOp op) {
  const auto from = input.detach().view(-1);
  const auto into = output.detach().view(-1);
  return start({.collective = Collective::reduce_scatter, .reduction = reduction_of(op)},
               into.numel(), {from, into}, [from, into, op](c10d::Backend& nccl) {
                 at::Tensor source = from;
                 at::Tensor target = into;
                 c10d::ReduceScatterOptions options;
                 options.reduceOp = to_c10d(op);
                 return after(nccl._reduce_scatter_base(target, source, options));
               });
}

void NcclGroup::do_barrier() {
  const auto token = at::zeros({1}, at::TensorOptions().dtype(at::kInt).device(device()));
  start({.collective = Collective::barrier}, 0, {token}, [token](c10d::Backend& nccl) {
    std::vector<at::Tensor> tensors{token};
    return after(nccl.allreduce(tensors));
  })->wait();
}

int visible_gpus(const std::string& where) {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaSuccess && count > 0) return count;
  throw no_gpu(where, status == cudaSuccess ? "CUDA sees none" : cudaGetErrorString(status));
}

/// "GPU-1b2c..." as `nvidia-smi -L` has it, without the dashes; empty when there is no such GPU.
std::string gpu_id(int index) {
  cudaDeviceProp properties{};
  if (cudaGetDeviceProperties(&properties, index) != cudaSuccess) return "";
  std::string id = "GPU-";
  for (const char byte : properties.uuid.bytes) {
    std::array<char, 3> digits{};
    std::snprintf(digits.data(), digits.size(), "%02x", static_cast<unsigned char>(byte));
    id += digits.data();
  }
  return id;
}

/// Collective.
at::Device choose_gpu(c10d::Store& store, const GroupOptions& options,
                      const std::vector<RankPlace>& places) {
  std::vector<std::string> hosts;
  std::vector<std::string> names;
  for (const RankPlace& place : places) {
    hosts.push_back(place.host_id);
    names.push_back(place.host_name);
  }
  const HostLayout layout(hosts, options.rank);
  const int visible = visible_gpus(where_of(options));
  const int index = gpu_of(layout.local(), visible);
  std::vector<GpuCard> cards;
  for (const auto& text : exchange_texts(store, options, "gpu", to_text({visible, gpu_id(index)}),
                                         "which GPU it takes")) {
    cards.push_back(read_gpu_card(text));
  }
  check_gpus(cards, layout, names);
  return {at::kCUDA, static_cast<at::DeviceIndex>(index)};
}

PeerLost not_connected(const GroupOptions& options, const std::string& cause) {
  return PeerLost({"LS-4005", where_of(options),
                   "all ranks joined, but connecting them over NCCL failed: " + cause,
                   "see whether a rank ended meanwhile; NCCL_DEBUG=WARN prints NCCL's own account, "
                   "NCCL_SOCKET_IFNAME names the network interface it is to take"});
}

/// Collective. Waits until NCCL has connected this rank, and all others have come as far. A rank
/// that ends or fails meanwhile ends the wait of all: NCCL itself would wait without end.
void await_connection(CallThread& calls, GlooContext& context) {
  const GroupOptions& options = context.options;
  control::Channel& control = *context.control;
  const auto until = std::chrono::steady_clock::now() + options.join_deadline;
  control::Transfer connected{control::DataState::moving};
  const Ticket ticket = context.flight.begin("barrier", "", 0, 0, kJoining);
  control.enter(shm::make_fingerprint({.collective = Collective::barrier}, 0), kJoining,
                control::Proof::words);
  context.flight.started(ticket);
  std::string cause;
  try {
    while (!calls.opened(kLookWhileConnecting)) {
      if (const auto end = control.over()) throw not_connected(options, end->reason);
      if (std::chrono::steady_clock::now() < until) continue;
      throw std::runtime_error("it did not end within " + to_text(options.join_deadline));
    }
    control.data_ended(connected, true);
    if (control.wait(control.entered(), connected, options.join_deadline) ==
        control::Outcome::done) {
      return context.flight.ended(ticket, true);
    }
    cause = control.missing(control.entered());
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    cause = nccl_cause(error.what());
  }
  context.flight.ended(ticket, false);
  if (const auto end = control.over(kWordOfThePeer)) throw not_connected(options, end->reason);
  cause = "rank " + std::to_string(options.rank) + ": " + cause;
  control.abort({false, cause});
  throw not_connected(options, cause);
}

}  // namespace

void require_nccl(const GroupOptions& options) { (void)visible_gpus(where_of(options)); }

std::unique_ptr<Group> make_nccl_group(const GroupOptions& given, Meeting meeting) {
  GroupOptions options = given;
  const c10::intrusive_ptr<c10d::Store> store = std::move(meeting.store);
  const std::vector<RankPlace> places = exchange_places(*store, options);
  check_addresses(places);
  options.address = places.at(static_cast<std::size_t>(options.rank)).address;
  const auto library =
      std::make_shared<NcclLibrary>(store, options, choose_gpu(*store, options, places));
  const auto calls = std::make_shared<CallThread>(library);
  auto context = std::make_shared<GlooContext>(
      options, Compared::each,
      connect_control(*store, options, options.address,
                      [calls](const control::End& /*reason*/) { calls->abort(); }));
  await_connection(*calls, *context);
  return std::make_unique<NcclGroup>(std::move(context), library, calls, std::move(meeting.server));
}

}  // namespace lockstep::comm
