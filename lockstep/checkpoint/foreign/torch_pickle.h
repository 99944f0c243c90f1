// The pickle of a file of torch.save that holds a flat state dict.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/format/tensor_source.h"

namespace lockstep::checkpoint {

[[nodiscard]] bool has_torch_type(const StoredTensor& tensor);

/// LS-5012 for each tensor whose dtype PyTorch has no type for, and each name that comes twice.
/// \param where the file or folder that is to be written.
[[nodiscard]] std::vector<Problem> state_dict_problems(std::span<const StoredTensor> tensors,
                                                       const std::string& where);

/// An OrderedDict of each name, its aliases behind it, with a contiguous tensor of the storage
/// whose key is the tensor's place in `tensors`. \pre has_torch_type() of each.
[[nodiscard]] std::string torch_pickle(std::span<const StoredTensor> tensors);

}  // namespace lockstep::checkpoint
