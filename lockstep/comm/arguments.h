// What every group demands of the arguments of its collectives.
#pragma once
#include <string_view>

#include "lockstep/comm/group.h"

namespace lockstep::comm {

/// \throws Bug when an argument breaks the contract of Group.
void check_all_reduce(const at::Tensor& tensor, ReduceOp op, Order order, int size);
void check_broadcast(const at::Tensor& tensor, int root, int size);
void check_reduce_scatter(const at::Tensor& output, const at::Tensor& input, int size);
void check_all_gather(const at::Tensor& output, const at::Tensor& input, int size);
/// On the device whose memory the group's backend moves: it would take another one's pointers for
/// its own.
void check_device(const at::Tensor& tensor, at::Device device, std::string_view backend);

}  // namespace lockstep::comm
