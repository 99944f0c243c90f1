// Order::tree over a backend whose collectives follow each other on a stream: exchange pieces, add
// them up there, gather. Nothing waits but the stream.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace lockstep::comm {

/// Makes what is issued from now on come after `work`.
using After = std::function<void(c10d::Work& work)>;

/// Collective. Replaces `flat` [count], contiguous, by its sum over the ranks in the balanced tree,
/// as shared memory adds it up: bfloat16 in fp32, rounded once. The number of ranks is a power of
/// two. \returns the last of its collectives; `flat` holds the sum once what was issued is over.
[[nodiscard]] c10::intrusive_ptr<c10d::Work> tree_all_reduce(c10d::Backend& backend,
                                                             const at::Tensor& flat,
                                                             const After& after);

}  // namespace lockstep::comm
