// PyTorch's names: of element types, of their storages, and of the functions that make a tensor.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

namespace lockstep::checkpoint {

struct TorchType {
  std::string_view dtype;    // "float32": of the class torch.dtype
  std::string_view name;     // "F32"; empty: safetensors has no name for it
  std::string_view storage;  // "FloatStorage"; empty: stored as bytes, torch.storage.UntypedStorage
  int element_bytes;
};
[[nodiscard]] std::span<const TorchType> torch_types();

// By each of the names; nullptr when there is none.
[[nodiscard]] const TorchType* torch_type_of_dtype(std::string_view dtype);
[[nodiscard]] const TorchType* torch_type_of_name(std::string_view name);
[[nodiscard]] const TorchType* torch_type_of_storage(std::string_view storage);

enum class TorchForm : std::uint8_t {
  plain,      // storage, offset, size, stride
  v2,         // ..., requires_grad, hooks, metadata
  v3,         // ..., requires_grad, hooks, dtype, metadata
  parameter,  // tensor, requires_grad, hooks
  copied,     // tensor, dtype, device, requires_grad
  typed,      // function, type, its arguments, state
  none,       // no tensor that can be read here
};

struct TorchRebuild {
  std::string_view global;
  TorchForm form;
  std::string_view kind;  // "a sparse tensor"; empty for those that are read
};
[[nodiscard]] std::span<const TorchRebuild> torch_rebuilds();

/// nullptr: that class or function makes no tensor.
[[nodiscard]] const TorchRebuild* torch_rebuild(std::string_view global);

}  // namespace lockstep::checkpoint
