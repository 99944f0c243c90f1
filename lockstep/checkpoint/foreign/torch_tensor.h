// The description of one tensor in the pickle of a file of torch.save.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "lockstep/checkpoint/foreign/pickle_value.h"
#include "lockstep/checkpoint/foreign/torch_file.h"

namespace lockstep::checkpoint {

struct TorchTensor {
  TensorView view{};
  std::uint64_t storage_bytes = 0;  // as the pickle says
  std::string why{};                // not empty: it cannot be read, and this is it
};

/// Nothing when `value` is no tensor. Whether the storage is there and the view within it is left
/// to the caller. \param where,name file and tensor, for messages. \throws BadData (LS-5012) when
/// the description is not of the form that PyTorch writes.
[[nodiscard]] std::optional<TorchTensor> parse_torch_tensor(const PickleValue& value,
                                                            const std::string& where,
                                                            const std::string& name);

/// The numbers of a tuple, list or torch.Size; nothing when it is none of them, holds others, or
/// more than 64.
[[nodiscard]] std::optional<Shape> integers_of(const PickleValue& value);

}  // namespace lockstep::checkpoint
