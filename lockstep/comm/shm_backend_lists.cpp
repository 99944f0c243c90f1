// The collectives of ShmBackend that take lists of tensors, and all_to_all.
#include <algorithm>
#include <numeric>
#include <utility>

#include "lockstep/comm/shm_backend.h"

namespace lockstep::comm {
namespace {

using shm::Collective;
using Counts = std::vector<std::size_t>;

bool all_of_one_size(const std::vector<at::Tensor>& tensors) {
  return std::all_of(tensors.begin(), tensors.end(), [&](const at::Tensor& tensor) {
    return tensor.numel() == tensors.front().numel();
  });
}

Counts sizes_of(const std::vector<at::Tensor>& tensors) {
  Counts sizes;
  for (const at::Tensor& tensor : tensors)
    sizes.push_back(static_cast<std::size_t>(tensor.numel()));
  return sizes;
}

/// Items for each rank from splits along the first dim; none = equal parts.
Counts split_items(const at::Tensor& tensor, const std::vector<std::int64_t>& splits, int ranks) {
  TORCH_CHECK_VALUE(tensor.dim() > 0, "lockstep: a tensor without dims cannot be split");
  const std::int64_t rows = tensor.size(0);
  const std::int64_t row_items = rows == 0 ? 0 : tensor.numel() / rows;
  if (splits.empty()) {
    TORCH_CHECK_VALUE(rows % ranks == 0, "lockstep: ", rows, " rows do not split over ", ranks,
                      " ranks");
    return Counts(static_cast<std::size_t>(ranks),
                  static_cast<std::size_t>(rows / ranks * row_items));
  }
  const auto sum = std::accumulate(splits.begin(), splits.end(), std::int64_t{0});
  const bool fits = splits.size() == static_cast<std::size_t>(ranks) && sum == rows &&
                    std::all_of(splits.begin(), splits.end(), [](auto part) { return part >= 0; });
  TORCH_CHECK_VALUE(fits, "lockstep: splits [", c10::Join(", ", splits), "] of a tensor of ", rows,
                    " rows in a group of ", ranks);
  Counts items;
  for (const std::int64_t part : splits)
    items.push_back(static_cast<std::size_t>(part * row_items));
  return items;
}

}  // namespace

ShmBackend::Works ShmBackend::allgather(TensorLists& outputs, Tensors& inputs,
                                        const c10d::AllgatherOptions& options) {
  TORCH_CHECK_VALUE(outputs.size() == 1 && inputs.size() == 1,
                    "lockstep: all_gather takes one input");
  const at::Tensor& input = inputs.front();
  Tensors& parts = outputs.front();
  check_dense(input);
  check_list(parts, count(), input.scalar_type());
  at::Tensor& own = parts[static_cast<std::size_t>(rank_)];
  TORCH_CHECK_VALUE(own.numel() == input.numel(), "lockstep: an input of ", input.numel(),
                    " elements for an output of ", own.numel());
  const ItemElements elements = moved_elements(input.scalar_type());
  auto work = new_work(c10d::OpType::ALLGATHER, options.timeout);
  StagedTensors& tensors = work->task().tensors;
  shm::Request request;
  request.kind = {Collective::all_gather, elements.type, shm::Reduction::sum, 0, false};
  if (all_of_one_size(parts)) {
    request.count = static_cast<std::size_t>(input.numel()) * elements.per_item;
    request.input = tensors.input(input);
    request.output = tensors.packed_output(parts);
    work->enter(std::move(request));
    return done_issuing(std::move(work), outputs, true);
  }
  {
    const at::NoGradGuard no_grad;
    if (!own.is_same(input)) own.copy_(input.view_as(own));
  }
  for (std::uint32_t r = 0; r < count(); ++r) {
    request.kind.collective = Collective::broadcast;
    request.kind.root = r;
    request.count = static_cast<std::size_t>(parts[r].numel()) * elements.per_item;
    request.input = r == rank_as_root() ? tensors.input(input) : nullptr;
    request.output = r == rank_as_root() ? nullptr : tensors.output(parts[r]);
    work->enter(request);
  }
  return done_issuing(std::move(work), outputs, true);
}

ShmBackend::Works ShmBackend::gather(TensorLists& outputs, Tensors& inputs,
                                     const c10d::GatherOptions& options) {
  TORCH_CHECK_VALUE(inputs.size() == 1, "lockstep: gather takes one input");
  check_root(options.rootRank);
  const at::Tensor& input = inputs.front();
  check_dense(input);
  const bool is_root = options.rootRank == rank_;
  if (is_root) {
    TORCH_CHECK_VALUE(outputs.size() == 1,
                      "lockstep: the root of gather needs one list of outputs");
    check_list(outputs.front(), count(), input.scalar_type());
    TORCH_CHECK_VALUE(
        all_of_one_size(outputs.front()) && outputs.front().front().numel() == input.numel(),
        "lockstep: gather needs outputs of the input's size");
  }
  const ItemElements elements = moved_elements(input.scalar_type());
  auto work = new_work(c10d::OpType::GATHER, options.timeout);
  shm::Request request;
  request.kind = {Collective::gather, elements.type, shm::Reduction::sum,
                  static_cast<std::uint32_t>(options.rootRank), false};
  request.count = static_cast<std::size_t>(input.numel()) * elements.per_item;
  request.input = work->task().tensors.input(input);
  if (is_root) request.output = work->task().tensors.packed_output(outputs.front());
  work->enter(std::move(request));
  return done_issuing(std::move(work), is_root ? outputs : TensorLists{}, true);
}

ShmBackend::Works ShmBackend::scatter(Tensors& outputs, TensorLists& inputs,
                                      const c10d::ScatterOptions& options) {
  TORCH_CHECK_VALUE(outputs.size() == 1, "lockstep: scatter takes one output");
  check_root(options.rootRank);
  const at::Tensor& output = outputs.front();
  check_dense(output);
  const bool is_root = options.rootRank == rank_;
  if (is_root) {
    TORCH_CHECK_VALUE(inputs.size() == 1, "lockstep: the root of scatter needs one list of inputs");
    check_list(inputs.front(), count(), output.scalar_type());
    TORCH_CHECK_VALUE(
        all_of_one_size(inputs.front()) && inputs.front().front().numel() == output.numel(),
        "lockstep: scatter needs inputs of the output's size");
  }
  const ItemElements elements = moved_elements(output.scalar_type());
  auto work = new_work(c10d::OpType::SCATTER, options.timeout);
  shm::Request request;
  request.kind = {Collective::scatter, elements.type, shm::Reduction::sum,
                  static_cast<std::uint32_t>(options.rootRank), false};
  request.count = static_cast<std::size_t>(output.numel()) * elements.per_item;
  if (is_root) request.input = work->task().tensors.packed_input(inputs.front());
  request.output = work->task().tensors.output(output);
  work->enter(std::move(request));
  return done_issuing(std::move(work), {outputs});
}

ShmBackend::Works ShmBackend::reduce_scatter(Tensors& outputs, TensorLists& inputs,
                                             const c10d::ReduceScatterOptions& options) {
  TORCH_CHECK_VALUE(outputs.size() == 1 && inputs.size() == 1,
                    "lockstep: reduce_scatter takes one output and one list of inputs");
  const at::Tensor& output = outputs.front();
  const Tensors& parts = inputs.front();
  check_reduced({output}, options.reduceOp);
  check_list(parts, count(), output.scalar_type());
  TORCH_CHECK_VALUE(parts[static_cast<std::size_t>(rank_)].numel() == output.numel(),
                    "lockstep: an output of ", output.numel(), " elements for an input of ",
                    parts[static_cast<std::size_t>(rank_)].numel());
  const ItemElements elements = reduced_elements(output.scalar_type(), options.reduceOp);
  auto work = new_work(c10d::OpType::REDUCE_SCATTER, options.timeout);
  StagedTensors& tensors = work->task().tensors;
  shm::Request request;
  request.kind = {Collective::reduce_scatter, elements.type, reduction_of(options.reduceOp), 0,
                  false};
  if (all_of_one_size(parts)) {
    request.count = static_cast<std::size_t>(output.numel()) * elements.per_item;
    request.input = tensors.packed_input(parts);
    request.output = tensors.output(output);
    work->enter(std::move(request));
    return done_issuing(std::move(work), {outputs});
  }
  for (std::uint32_t r = 0; r < count(); ++r) {
    request.kind.collective = Collective::reduce;
    request.kind.root = r;
    request.count = static_cast<std::size_t>(parts[r].numel()) * elements.per_item;
    request.input = tensors.input(parts[r]);
    request.output = r == rank_as_root() ? tensors.output(output) : nullptr;
    work->enter(request);
  }
  return done_issuing(std::move(work), {outputs});
}

void ShmBackend::enter_uneven(ShmWork& work, at::ScalarType dtype, const void* input, void* output,
                              Counts send_items, Counts receive_items) {
  const ItemElements elements = moved_elements(dtype);
  for (auto* items : {&send_items, &receive_items}) {
    for (std::size_t& item : *items) item *= elements.per_item;
  }
  shm::Request request;
  request.kind = {Collective::all_to_all, elements.type, shm::Reduction::sum, 0, true};
  request.input = input;
  request.output = output;
  request.send_counts = std::move(send_items);
  request.receive_counts = std::move(receive_items);
  work.enter(std::move(request));
}

ShmBackend::Works ShmBackend::alltoall_base(at::Tensor& output, at::Tensor& input,
                                            std::vector<std::int64_t>& output_splits,
                                            std::vector<std::int64_t>& input_splits,
                                            const c10d::AllToAllOptions& options) {
  check_dense(output);
  check_dense(input);
  TORCH_CHECK_VALUE(output.scalar_type() == input.scalar_type(),
                    "lockstep: input and output of all_to_all have one dtype");
  const bool is_even = output_splits.empty() && input_splits.empty();
  Counts sent = split_items(input, input_splits, size_);
  Counts received = split_items(output, output_splits, size_);
  TORCH_CHECK_VALUE(!is_even || sent == received,
                    "lockstep: input and output of an even all_to_all have one size");
  auto work = new_work(c10d::OpType::ALLTOALL_BASE, options.timeout);
  const void* const from = work->task().tensors.input(input);
  void* const to = work->task().tensors.output(output);
  if (is_even) {
    const ItemElements elements = moved_elements(input.scalar_type());
    shm::Request request;
    request.kind = {Collective::all_to_all, elements.type, shm::Reduction::sum, 0, false};
    request.count = sent.front() * elements.per_item;
    request.input = from;
    request.output = to;
    work->enter(std::move(request));
  } else {
    enter_uneven(*work, input.scalar_type(), from, to, std::move(sent), std::move(received));
  }
  return done_issuing(std::move(work), {{output}});
}

ShmBackend::Works ShmBackend::alltoall(Tensors& outputs, Tensors& inputs,
                                       const c10d::AllToAllOptions& options) {
  TORCH_CHECK_VALUE(!inputs.empty(), "lockstep: all_to_all needs a tensor for each rank");
  const at::ScalarType dtype = inputs.front().scalar_type();
  check_list(inputs, count(), dtype);
  check_list(outputs, count(), dtype);
  auto work = new_work(c10d::OpType::ALLTOALL, options.timeout);
  const void* const from = work->task().tensors.packed_input(inputs);
  void* const to = work->task().tensors.packed_output(outputs);
  enter_uneven(*work, dtype, from, to, sizes_of(inputs), sizes_of(outputs));
  return done_issuing(std::move(work), {outputs});
}

}  // namespace lockstep::comm
