#include "lockstep/comm/shm_backend.h"

#include <thread>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/comm/join.h"
#include "lockstep/comm/rank_places.h"
#include "lockstep/comm/shm_group.h"

namespace lockstep::comm {
namespace {

using shm::Collective;

// Scripts drop the handles of their last asynchronous collectives; a rank that left with them in
// flight would take the others' results along.
constexpr std::chrono::seconds kLastCollectives{2};

/// Every rank tells where it runs; all come to the same answer. Collective.
void check_one_host(c10d::Store& store, const GroupOptions& options) {
  const std::vector<RankPlace> places = exchange_places(store, options);
  const RankPlace& first = places.front();
  for (int r = 1; r < options.size; ++r) {
    const RankPlace& other = places[static_cast<std::size_t>(r)];
    if (other.host_id == first.host_id) continue;
    const bool same_name = other.host_name == first.host_name;
    throw EnvironmentFault(
        {"LS-4014", where_of(options),
         "rank 0 runs on host " + first.host_name + ", rank " + std::to_string(r) + " on host " +
             other.host_name +
             (same_name ? " in another container or as another user: they share no memory"
                        : ": shared memory does not reach from one to the other"),
         "take this backend for groups of one host (torch.distributed.new_group), or gloo"});
  }
}

/// What lay in the store for making the group: a later group of the same name must not find it.
void clean_store(c10d::Store& store, const GroupOptions& options) {
  if (options.rank != 0) return;
  store.deleteKey(options.name + "/shm/memory");
  for (int r = 1; r < options.size; ++r) {
    store.deleteKey(options.name + "/shm/" + std::to_string(r));
  }
  forget_places(store, options);
}

GroupOptions options_of(int rank, int size, std::chrono::milliseconds timeout, std::string name) {
  GroupOptions options;
  options.rank = rank;
  options.size = size;
  options.name = std::move(name);
  options.join_deadline = options.deadline = timeout;
  return options;
}

}  // namespace

ShmBackend::ShmBackend(c10d::Store& store, int rank, int size, std::chrono::milliseconds timeout,
                       std::string name)
    : c10d::Backend(rank, size),
      context_(std::make_shared<ShmContext>(options_of(rank, size, timeout, std::move(name)))),
      timeout_ms_(timeout.count()) {
  const GroupOptions& options = context_->options;
  check_one_host(store, options);
  context_->link = connect_shm(store, options, &context_->flight);
  clean_store(store, options);
}

ShmBackend::~ShmBackend() { shutdown(); }

void ShmBackend::shutdown() {
  if (!context_->link) return;
  if (context_->link->engine().is_own_thread()) {  // in a future's callback: it cannot join itself
    std::thread([context = context_] { context->close(kLastCollectives); }).detach();
  } else {
    context_->close(kLastCollectives);
  }
}

void ShmBackend::abort() {
  context_->link->segment().abort("rank " + std::to_string(rank_) + " aborted the group");
}

at::Tensor ShmBackend::allocateTensor(long size, at::TensorOptions options) {
  const at::ScalarType dtype = c10::typeMetaToScalarType(options.dtype());
  const auto bytes = static_cast<std::size_t>(size) * c10::elementSize(dtype);
  if (!options.device().is_cpu() || bytes <= shm::kDirectBytes) return at::zeros({size}, options);
  return group_of(context_)->symmetric_zeros(size, dtype);
}

c10d::ErrorType ShmBackend::getError() {
  return context_->link->segment().aborted() ? c10d::ErrorType::REMOTE_ERROR
                                             : c10d::ErrorType::SUCCESS;
}

c10::intrusive_ptr<c10d::Backend::Options> ShmBackend::getBackendOptions() {
  return c10::make_intrusive<Options>(kName, std::chrono::milliseconds(timeout_ms_));
}

ShmBackend::WorkPtr ShmBackend::new_work(c10d::OpType type, std::chrono::milliseconds timeout) {
  const bool given = timeout > std::chrono::milliseconds(0);
  return c10::make_intrusive<ShmWork>(context_, type, ++sequence_,
                                      given ? timeout : std::chrono::milliseconds(timeout_ms_));
}

ShmBackend::Works ShmBackend::done_issuing(WorkPtr work, TensorLists outputs, bool nested) {
  work->task().set_outputs(std::move(outputs), nested);
  work->issued();
  return work;
}

void ShmBackend::check_root(std::int64_t root) const {
  TORCH_CHECK_VALUE(root >= 0 && root < size_, "lockstep: root ", root, " in a group of ", size_);
}

void ShmBackend::check_reduced(const Tensors& tensors, const c10d::ReduceOp& op) const {
  TORCH_CHECK_VALUE(!tensors.empty(), "lockstep: no tensor to reduce");
  for (const at::Tensor& tensor : tensors) {
    check_dense(tensor);
    (void)reduced_elements(tensor.scalar_type(), op);
  }
}

/// \param whole has one part for each rank.
void ShmBackend::check_parts(const at::Tensor& whole, const at::Tensor& part) const {
  check_dense(whole);
  check_dense(part);
  TORCH_CHECK_VALUE(whole.scalar_type() == part.scalar_type(), "lockstep: tensors of ",
                    c10::toString(whole.scalar_type()), " and ", c10::toString(part.scalar_type()),
                    " in one collective");
  TORCH_CHECK_VALUE(whole.numel() == part.numel() * size_, "lockstep: a tensor of ", whole.numel(),
                    " elements for ", size_, " ranks with ", part.numel(), " each");
}

void ShmBackend::enter_all_reduce(ShmWork& work, const at::Tensor& tensor,
                                  const c10d::ReduceOp& op) {
  const ItemElements elements = reduced_elements(tensor.scalar_type(), op);
  shm::Request request;
  request.kind = {Collective::all_reduce, elements.type, reduction_of(op), 0, false};
  request.count = static_cast<std::size_t>(tensor.numel()) * elements.per_item;
  request.input = request.output = work.task().tensors.in_place(tensor);
  context_->find_symmetric(request, tensor.nbytes());
  work.enter(std::move(request));
}

ShmBackend::Works ShmBackend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  TORCH_CHECK_VALUE(tensors.size() == 1, "lockstep: all_reduce takes one tensor");
  check_reduced(tensors, options.reduceOp);
  auto work = new_work(c10d::OpType::ALLREDUCE, options.timeout);
  enter_all_reduce(*work, tensors.front(), options.reduceOp);
  return done_issuing(std::move(work), {tensors});
}

ShmBackend::Works ShmBackend::allreduce_coalesced(Tensors& tensors,
                                                  const c10d::AllreduceCoalescedOptions& options) {
  check_reduced(tensors, options.reduceOp);
  auto work = new_work(c10d::OpType::ALLREDUCE_COALESCED, options.timeout);
  for (const at::Tensor& tensor : tensors) enter_all_reduce(*work, tensor, options.reduceOp);
  return done_issuing(std::move(work), {tensors});
}

ShmBackend::Works ShmBackend::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  TORCH_CHECK_VALUE(tensors.size() == 1, "lockstep: reduce takes one tensor");
  check_reduced(tensors, options.reduceOp);
  check_root(options.rootRank);
  const at::Tensor& tensor = tensors.front();
  const ItemElements elements = reduced_elements(tensor.scalar_type(), options.reduceOp);
  auto work = new_work(c10d::OpType::REDUCE, options.timeout);
  shm::Request request;
  request.kind = {Collective::reduce, elements.type, reduction_of(options.reduceOp),
                  static_cast<std::uint32_t>(options.rootRank), false};
  request.count = static_cast<std::size_t>(tensor.numel()) * elements.per_item;
  if (options.rootRank == rank_) {
    request.input = request.output = work->task().tensors.in_place(tensor);
  } else {
    request.input = work->task().tensors.input(tensor);
  }
  work->enter(std::move(request));
  return done_issuing(std::move(work), {tensors});
}

ShmBackend::Works ShmBackend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  TORCH_CHECK_VALUE(tensors.size() == 1, "lockstep: broadcast takes one tensor");
  check_root(options.rootRank);
  const at::Tensor& tensor = tensors.front();
  check_dense(tensor);
  const ItemElements elements = moved_elements(tensor.scalar_type());
  auto work = new_work(c10d::OpType::BROADCAST, options.timeout);
  shm::Request request;
  request.kind = {Collective::broadcast, elements.type, shm::Reduction::sum,
                  static_cast<std::uint32_t>(options.rootRank), false};
  request.count = static_cast<std::size_t>(tensor.numel()) * elements.per_item;
  if (options.rootRank == rank_) {
    request.input = work->task().tensors.input(tensor);
  } else {
    request.output = work->task().tensors.output(tensor);
  }
  work->enter(std::move(request));
  return done_issuing(std::move(work), {tensors});
}

ShmBackend::Works ShmBackend::barrier(const c10d::BarrierOptions& options) {
  auto work = new_work(c10d::OpType::BARRIER, options.timeout);
  work->enter({});
  return done_issuing(std::move(work), {});
}

void ShmBackend::enter_all_gather(ShmWork& work, const at::Tensor& output,
                                  const at::Tensor& input) {
  const ItemElements elements = moved_elements(input.scalar_type());
  shm::Request request;
  request.kind = {Collective::all_gather, elements.type, shm::Reduction::sum, 0, false};
  request.count = static_cast<std::size_t>(input.numel()) * elements.per_item;
  request.input = work.task().tensors.input(input);
  request.output = work.task().tensors.output(output);
  work.enter(std::move(request));
}

ShmBackend::Works ShmBackend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                              const c10d::AllgatherOptions& options) {
  check_parts(output, input);
  auto work = new_work(c10d::OpType::_ALLGATHER_BASE, options.timeout);
  enter_all_gather(*work, output, input);
  return done_issuing(std::move(work), {{output}});
}

ShmBackend::Works ShmBackend::allgather_into_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  TORCH_CHECK_VALUE(!inputs.empty() && inputs.size() == outputs.size(),
                    "lockstep: as many outputs as inputs are needed");
  for (std::size_t i = 0; i < inputs.size(); ++i) check_parts(outputs[i], inputs[i]);
  auto work = new_work(c10d::OpType::COALESCED, options.timeout);
  for (std::size_t i = 0; i < inputs.size(); ++i) enter_all_gather(*work, outputs[i], inputs[i]);
  return done_issuing(std::move(work), {outputs});
}

void ShmBackend::enter_reduce_scatter(ShmWork& work, const at::Tensor& output,
                                      const at::Tensor& input, const c10d::ReduceOp& op) {
  const ItemElements elements = reduced_elements(input.scalar_type(), op);
  shm::Request request;
  request.kind = {Collective::reduce_scatter, elements.type, reduction_of(op), 0, false};
  request.count = static_cast<std::size_t>(output.numel()) * elements.per_item;
  request.input = work.task().tensors.input(input);
  request.output = work.task().tensors.output(output);
  work.enter(std::move(request));
}

ShmBackend::Works ShmBackend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                   const c10d::ReduceScatterOptions& options) {
  check_parts(input, output);
  check_reduced({input}, options.reduceOp);
  auto work = new_work(c10d::OpType::_REDUCE_SCATTER_BASE, options.timeout);
  enter_reduce_scatter(*work, output, input, options.reduceOp);
  return done_issuing(std::move(work), {{output}});
}

ShmBackend::Works ShmBackend::reduce_scatter_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& options) {
  TORCH_CHECK_VALUE(inputs.size() == outputs.size(),
                    "lockstep: as many outputs as inputs are needed");
  check_reduced(inputs, options.reduceOp);
  for (std::size_t i = 0; i < inputs.size(); ++i) check_parts(inputs[i], outputs[i]);
  auto work = new_work(c10d::OpType::COALESCED, options.timeout);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    enter_reduce_scatter(*work, outputs[i], inputs[i], options.reduceOp);
  }
  return done_issuing(std::move(work), {outputs});
}

ShmBackend::Works ShmBackend::transfer(Tensors& tensors, bool sends, int peer, int tag) {
  TORCH_CHECK_VALUE(tensors.size() == 1, "lockstep: send and recv take one tensor");
  TORCH_CHECK_VALUE(peer == shm::kAnyRank || (peer >= 0 && peer < size_ && peer != rank_),
                    "lockstep: rank ", rank_, " of ", size_, " cannot reach rank ", peer);
  const at::Tensor& tensor = tensors.front();
  check_dense(tensor);
  const ItemElements elements = moved_elements(tensor.scalar_type());
  auto work =
      c10::make_intrusive<ShmWork>(context_, sends ? c10d::OpType::SEND : c10d::OpType::RECV,
                                   sequence_.load(), std::chrono::milliseconds(timeout_ms_));
  shm::TransferRequest request;
  request.sends = sends;
  request.peer = peer;
  request.tag = tag;
  request.type = elements.type;
  request.bytes = tensor.nbytes();
  request.data = sends ? const_cast<void*>(work->task().tensors.input(tensor))  // read only
                       : work->task().tensors.output(tensor);
  work->transfer(std::move(request));
  return done_issuing(std::move(work), {tensors});
}

ShmBackend::Works ShmBackend::send(Tensors& tensors, int to, int tag) {
  TORCH_CHECK_VALUE(to >= 0, "lockstep: no rank to send to");
  return transfer(tensors, true, to, tag);
}

ShmBackend::Works ShmBackend::recv(Tensors& tensors, int from, int tag) {
  TORCH_CHECK_VALUE(from >= 0, "lockstep: no rank to receive from");
  return transfer(tensors, false, from, tag);
}

ShmBackend::Works ShmBackend::recvAnysource(Tensors& tensors, int tag) {
  TORCH_CHECK_VALUE(size_ > 1, "lockstep: there is no other rank to receive from");
  return transfer(tensors, false, shm::kAnyRank, tag);
}

}  // namespace lockstep::comm
