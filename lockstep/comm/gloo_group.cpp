// Group over Gloo: ranks of one host or several. Gloo moves the data, control connections compare
// what the ranks enter and watch over them.
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/rng.h"
#include "lockstep/comm/checked_work.h"
#include "lockstep/comm/control/channel.h"
#include "lockstep/comm/control_link.h"
#include "lockstep/comm/gloo_mesh.h"
#include "lockstep/comm/gloo_part.h"
#include "lockstep/comm/gloo_scatter.h"
#include "lockstep/comm/group.h"
#include "lockstep/comm/join.h"
#include "lockstep/comm/local_address.h"
#include "lockstep/comm/make_group.h"
#include "lockstep/comm/records/purpose.h"
#include "lockstep/comm/shm/fingerprint.h"
#include "lockstep/comm/shm_link.h"
#include "lockstep/comm/tree_reducer.h"
#include "lockstep/comm/tree_sum.h"
#include "lockstep/store/server.h"

namespace lockstep::comm {
namespace {

using shm::Collective;

// A healthy close takes microseconds; after a lost peer, Gloo waits for each queued collective's
// own deadline. What is not closed by then is left to the end of the process.
constexpr std::chrono::milliseconds kCloseDeadline{1000};
// Collectives that never met their other halves do not end earlier than that.
constexpr std::chrono::milliseconds kCloseDeadlineOfTheLost{200};

/// What every rank must enter with: travels on the control connections, and in short with the data.
struct Entry {
  shm::CollectiveKind kind;
  std::int64_t count = 0;
};

/// Data that comes has the tag of those it was made of, on every step of its way. The root of a
/// broadcast needs none of anybody.
control::Proof proof_of(const Entry& entry) {
  return entry.kind.collective == Collective::broadcast ? control::Proof::words
                                                        : control::Proof::data;
}

/// Where the number alone does not tell two collectives apart, and Gloo would put bytes of one into
/// buffers of the other or end the process because they do not fit, the fingerprint does.
/// \param whole of what it is a step of.
std::uint32_t tag_of(std::uint64_t sequence, const shm::Fingerprint& fingerprint,
                     const shm::Fingerprint& whole) {
  constexpr std::uint64_t kStride = 0x9E3779B1;  // odd: equal collectives in flight share no tag
  const std::uint64_t hash =
      mix(fingerprint.kind, fingerprint.count, whole.kind, whole.count) >> 32;
  return static_cast<std::uint32_t>(hash + sequence * kStride);
}

/// The connections of a group: one mesh for what the caller issues, and where Order::tree needs
/// more than one exchange, a second one for what the tree's thread issues.
struct Mesh {
  c10::intrusive_ptr<c10d::Backend> backend;
  std::unique_ptr<TreeReducer> tree;
};

class GlooGroup : public GlooPart {
 public:
  GlooGroup(std::shared_ptr<CheckedContext> context, std::unique_ptr<Mesh> mesh,
            std::unique_ptr<store::Server> server)
      : GlooPart(context->options.rank, context->options.size, "gloo"),
        server_(std::move(server)),
        context_(std::move(context)),
        mesh_(std::move(mesh)) {}
  GlooGroup(const GlooGroup&) = delete;
  GlooGroup& operator=(const GlooGroup&) = delete;
  ~GlooGroup() override;

  void declare(const shm::Fingerprint& whole, std::string_view site) override;
  void confirm() override;
  void end(const control::End& reason) override { context_->control->abort(reason); }

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
  std::shared_ptr<CheckedContext> context_;
  std::unique_ptr<Mesh> mesh_;
  std::uint64_t issued_ = 0;
  shm::Fingerprint whole_;  // declared last
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
  context_->control->close();  // first: a group that closes in order is no news to its host
  context_->control->abandon("the group was closed with this collective in flight");
}

void GlooGroup::declare(const shm::Fingerprint& whole, std::string_view site) {
  whole_ = whole;
  context_->control->declare(whole, site);
}

void GlooGroup::confirm() {
  auto& control = *context_->control;
  const std::uint64_t sequence = control.entered();
  const control::Transfer no_data{control::DataState::there};
  switch (control.wait(sequence, no_data, context_->options.deadline)) {
    case control::Outcome::done:
      return;
    case control::Outcome::over:
      context_->fail({}, control.over().value());
    case control::Outcome::data_failed:
    case control::Outcome::timed_out:
      context_->time_out({}, sequence);
  }
}

/// Issues a collective by issue(tag) and tells the others. The data goes first: it takes longer.
template <class Issue>
std::unique_ptr<Work> GlooGroup::start(Entry entry, const at::Tensor& payload, Issue issue) {
  if (payload.defined()) entry.kind.type = element_type(payload.scalar_type());
  const auto ticket = context_->record(entry.kind, payload);
  auto& control = *context_->control;
  if (const auto end = control.over()) context_->fail(ticket, *end);
  const bool is_step = context_->compared == Compared::declared;
  const auto fingerprint =
      shm::make_fingerprint(entry.kind, static_cast<std::uint64_t>(entry.count));
  const std::uint64_t sequence = control.entered() + (is_step ? 0 : 1);
  try {
    auto pending = issue(tag_of(++issued_, fingerprint, whole_));
    if (is_step) {
      control.data_begins();
    } else {
      control.enter(fingerprint, Purpose::current(), proof_of(entry));
    }
    context_->flight.started(ticket);
    return std::make_unique<CheckedWork<decltype(pending)>>(context_, ticket, sequence,
                                                            proof_of(entry), std::move(pending));
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {  // after a lost peer Gloo already throws here
    context_->fail_here(ticket, sequence, cause_text(error));
  }
}

std::unique_ptr<Work> GlooGroup::start_all_reduce(at::Tensor tensor, ReduceOp op, Order order) {
  auto flat = tensor.detach().view(-1);
  Entry entry{{.collective = Collective::all_reduce, .reduction = reduction_of(op)},
              tensor.numel()};
  // Gloo itself would round a sum of 16 bits at every rank it passes.
  const bool in_fp32 = op == ReduceOp::sum && adds_in_fp32(tensor.scalar_type());
  if ((order == Order::tree || in_fp32) && mesh_->tree != nullptr) {
    entry.kind.ordered = order == Order::tree;
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

}  // namespace

std::unique_ptr<GlooPart> make_gloo_part(const GroupOptions& options, Meeting meeting,
                                         Compared compared, control::OnEnd on_end) {
  const c10::intrusive_ptr<c10d::Store> store = std::move(meeting.store);
  const std::string address =
      options.address.empty() ? address_towards(options.store_host) : options.address;
  auto mesh = std::make_unique<Mesh>();
  mesh->backend = connect_gloo(store, options, "calls", address);
  if (options.size > 2) {
    mesh->tree = std::make_unique<TreeReducer>(
        mesh->backend, connect_gloo(store, options, "gathers", address), options.deadline);
  }
  auto context = std::make_shared<CheckedContext>(
      options, compared, connect_control(*store, options, address, std::move(on_end)));
  return std::make_unique<GlooGroup>(std::move(context), std::move(mesh),
                                     std::move(meeting.server));
}

std::unique_ptr<Group> make_gloo_group(const GroupOptions& options, Meeting meeting) {
  return make_gloo_part(options, std::move(meeting), Compared::each);
}

}  // namespace lockstep::comm
