// Which tensors of a file are an optimizer's and not a model's.
#pragma once
#include "lockstep/checkpoint/format/tensor_source.h"

namespace lockstep::checkpoint {

/// By what its format says, or by names of PyTorch ("optimizer.state.0.exp_avg"), DCP
/// ("optim.state.fc.weight.exp_avg"), DeepSpeed and ours ("fc.weight/moment1").
[[nodiscard]] bool is_optimizer_state(const StoredTensor& tensor);

}  // namespace lockstep::checkpoint
