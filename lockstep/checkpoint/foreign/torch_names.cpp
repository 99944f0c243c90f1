#include "lockstep/checkpoint/foreign/torch_names.h"

#include <algorithm>
#include <array>

namespace lockstep::checkpoint {
namespace {

constexpr auto kTypes = std::to_array<TorchType>({
    {"float32", "F32", "FloatStorage", 4},
    {"float16", "F16", "HalfStorage", 2},
    {"bfloat16", "BF16", "BFloat16Storage", 2},
    {"float64", "F64", "DoubleStorage", 8},
    {"int64", "I64", "LongStorage", 8},
    {"int32", "I32", "IntStorage", 4},
    {"int16", "I16", "ShortStorage", 2},
    {"int8", "I8", "CharStorage", 1},
    {"uint8", "U8", "ByteStorage", 1},
    {"bool", "BOOL", "BoolStorage", 1},
    {"complex64", "C64", "ComplexFloatStorage", 8},
    {"complex128", "", "ComplexDoubleStorage", 16},
    {"complex32", "", "", 4},
    {"float8_e4m3fn", "F8_E4M3", "", 1},
    {"float8_e5m2", "F8_E5M2", "", 1},
    {"float8_e8m0fnu", "F8_E8M0", "", 1},
    {"float8_e4m3fnuz", "", "", 1},
    {"float8_e5m2fnuz", "", "", 1},
    {"float4_e2m1fn_x2", "", "", 1},  // two elements a byte, and a shape that counts bytes
    {"uint16", "U16", "", 2},
    {"uint32", "U32", "", 4},
    {"uint64", "U64", "", 8},
    {"bits8", "", "", 1},
    {"bits16", "", "", 2},
});

constexpr auto kRebuilds = std::to_array<TorchRebuild>({
    {"torch._utils._rebuild_tensor", TorchForm::plain, ""},
    {"torch._utils._rebuild_tensor_v2", TorchForm::v2, ""},
    {"torch._utils._rebuild_tensor_v3", TorchForm::v3, ""},
    {"torch._utils._rebuild_parameter", TorchForm::parameter, ""},
    {"torch._utils._rebuild_parameter_with_state", TorchForm::parameter, ""},
    {"torch.nn.parameter.Parameter", TorchForm::parameter, ""},
    {"torch._utils._rebuild_device_tensor_from_cpu_tensor", TorchForm::copied, ""},
    {"torch._tensor._rebuild_from_type_v2", TorchForm::typed, ""},
    {"torch._utils._rebuild_qtensor", TorchForm::none, "a quantized tensor"},
    {"torch._utils._rebuild_sparse_tensor", TorchForm::none, "a sparse tensor"},
    {"torch._utils._rebuild_sparse_csr_tensor", TorchForm::none, "a sparse tensor"},
    {"torch._utils._rebuild_nested_tensor", TorchForm::none, "a nested tensor"},
    {"torch._utils._rebuild_meta_tensor_no_storage", TorchForm::none, "a tensor without data"},
    {"torch._utils._rebuild_wrapper_subclass", TorchForm::none, "a tensor of a subclass"},
    {"torch._utils._rebuild_device_tensor_from_numpy", TorchForm::none,
     "a tensor saved by way of numpy"},
    {"torch._utils._rebuild_xla_tensor", TorchForm::none, "a tensor saved by way of numpy"},
});

template <typename Rows, typename Field>
auto row_with(const Rows& rows, Field field, std::string_view name) {
  const auto row =
      std::find_if(rows.begin(), rows.end(), [&](const auto& r) { return r.*field == name; });
  return row == rows.end() || name.empty() ? nullptr : &*row;
}

}  // namespace

std::span<const TorchType> torch_types() { return kTypes; }
const TorchType* torch_type_of_dtype(std::string_view dtype) {
  return row_with(kTypes, &TorchType::dtype, dtype);
}
const TorchType* torch_type_of_name(std::string_view name) {
  return row_with(kTypes, &TorchType::name, name);
}
const TorchType* torch_type_of_storage(std::string_view storage) {
  return row_with(kTypes, &TorchType::storage, storage);
}

std::span<const TorchRebuild> torch_rebuilds() { return kRebuilds; }
const TorchRebuild* torch_rebuild(std::string_view global) {
  return row_with(kRebuilds, &TorchRebuild::global, global);
}

}  // namespace lockstep::checkpoint
