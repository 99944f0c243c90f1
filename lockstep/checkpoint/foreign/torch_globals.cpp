#include <array>
#include <string_view>

#include "lockstep/checkpoint/foreign/torch_file.h"
#include "lockstep/checkpoint/foreign/torch_names.h"

namespace lockstep::checkpoint {
namespace {

// What tensors are made of.
constexpr auto kTensors = std::to_array<std::string_view>({
    "collections.OrderedDict",
    "torch.Size",
    "torch.Tensor",
    "torch.device",
    "torch.nn.parameter.Buffer",
    "torch.nn.parameter.Parameter",
    "torch.serialization._get_layout",
    "torch.storage.TypedStorage",
    "torch.storage.UntypedStorage",
    "torch.UntypedStorage",
    "torch.QInt32Storage",
    "torch.QInt8Storage",
    "torch.QUInt2x4Storage",
    "torch.QUInt4x2Storage",
    "torch.QUInt8Storage",
    "torch.contiguous_format",
    "torch.channels_last",
    "torch.channels_last_3d",
    "torch.preserve_format",
    "torch.per_channel_affine",
    "torch.per_channel_affine_float_qparams",
    "torch.per_channel_symmetric",
    "torch.per_tensor_affine",
    "torch.per_tensor_symmetric",
});

// Of numpy: arrays, scalars and states of generators.
constexpr auto kNumpy = std::to_array<std::string_view>({
    "numpy._core.multiarray._reconstruct",
    "numpy._core.multiarray.scalar",
    "numpy._core.numeric._frombuffer",
    "numpy.bool_",
    "numpy.core.multiarray._reconstruct",
    "numpy.core.multiarray.scalar",
    "numpy.core.numeric._frombuffer",
    "numpy.dtype",
    "numpy.dtypes.BoolDType",
    "numpy.dtypes.Float16DType",
    "numpy.dtypes.Float32DType",
    "numpy.dtypes.Float64DType",
    "numpy.dtypes.Int32DType",
    "numpy.dtypes.Int64DType",
    "numpy.dtypes.UInt32DType",
    "numpy.dtypes.UInt64DType",
    "numpy.float16",
    "numpy.float32",
    "numpy.float64",
    "numpy.int32",
    "numpy.int64",
    "numpy.ndarray",
    "numpy.random._mt19937.MT19937",
    "numpy.random._pcg64.PCG64",
    "numpy.random._pickle.__bit_generator_ctor",
    "numpy.random._pickle.__generator_ctor",
    "numpy.random._pickle.__randomstate_ctor",
    "numpy.str_",
    "numpy.uint32",
    "numpy.uint64",
    "numpy.uint8",
});

// Of Python: containers, dates, paths and options of a program.
constexpr auto kPython = std::to_array<std::string_view>({
    "_codecs.encode",
    "argparse.Namespace",
    "builtins.bool",
    "builtins.bytearray",
    "builtins.bytes",
    "builtins.complex",
    "builtins.dict",
    "builtins.float",
    "builtins.frozenset",
    "builtins.int",
    "builtins.list",
    "builtins.range",
    "builtins.set",
    "builtins.slice",
    "builtins.str",
    "builtins.tuple",
    "collections.Counter",
    "collections.defaultdict",
    "collections.deque",
    "datetime.date",
    "datetime.datetime",
    "datetime.timedelta",
    "datetime.timezone",
    "decimal.Decimal",
    "pathlib.Path",
    "pathlib.PosixPath",
    "pathlib.PurePosixPath",
    "pathlib.PureWindowsPath",
    "pathlib.WindowsPath",
    "pathlib._local.PosixPath",
    "pathlib._local.PurePosixPath",
    "pathlib._local.PureWindowsPath",
    "pathlib._local.WindowsPath",
    "types.SimpleNamespace",
    "uuid.UUID",
});

// Of frameworks that save their options beside the tensors, and tensors that are spread over ranks.
constexpr auto kFrameworks = std::to_array<std::string_view>({
    "lightning.fabric.utilities.data.AttributeDict",
    "lightning_fabric.utilities.data.AttributeDict",
    "omegaconf.base.ContainerMetadata",
    "omegaconf.base.Metadata",
    "omegaconf.dictconfig.DictConfig",
    "omegaconf.listconfig.ListConfig",
    "omegaconf.nodes.AnyNode",
    "omegaconf.nodes.BooleanNode",
    "omegaconf.nodes.FloatNode",
    "omegaconf.nodes.IntegerNode",
    "omegaconf.nodes.StringNode",
    "pytorch_lightning.utilities.parsing.AttributeDict",
    "torch.distributed._tensor.api.DTensor",
    "torch.distributed._tensor.placement_types.DTensorSpec",
    "torch.distributed._tensor.placement_types.Replicate",
    "torch.distributed._tensor.placement_types.Shard",
    "torch.distributed._tensor.placement_types.TensorMeta",
    "torch.distributed._tensor.placement_types._Partial",
    "torch.distributed.device_mesh.DeviceMesh",
    "torch.distributed.tensor.DTensor",
    "torch.distributed.tensor._dtensor_spec.DTensorSpec",
    "torch.distributed.tensor._dtensor_spec.ShardOrderEntry",
    "torch.distributed.tensor._dtensor_spec.TensorMeta",
    "torch.distributed.tensor.placement_types.Partial",
    "torch.distributed.tensor.placement_types.Replicate",
    "torch.distributed.tensor.placement_types.Shard",
    "torch.torch_version.TorchVersion",
    "typing.Any",
});

PickleGlobals make_globals() {
  PickleGlobals globals;
  globals.allowed.insert(kTensors.begin(), kTensors.end());
  for (const TorchRebuild& row : torch_rebuilds()) globals.allowed.emplace(row.global);
  for (const TorchType& row : torch_types()) {
    globals.allowed.insert("torch." + std::string(row.dtype));
    if (!row.storage.empty()) globals.allowed.insert("torch." + std::string(row.storage));
  }
  globals.skipped.insert(kNumpy.begin(), kNumpy.end());
  globals.skipped.insert(kPython.begin(), kPython.end());
  globals.skipped.insert(kFrameworks.begin(), kFrameworks.end());
  return globals;
}

}  // namespace

const PickleGlobals& torch_globals() {
  static const PickleGlobals globals = make_globals();
  return globals;
}

}  // namespace lockstep::checkpoint
