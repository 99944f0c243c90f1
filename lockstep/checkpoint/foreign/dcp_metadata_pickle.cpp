#include "lockstep/checkpoint/foreign/dcp_sink.h"
#include "lockstep/checkpoint/foreign/torch_names.h"

namespace lockstep::checkpoint {
namespace {

const std::string kClasses = "torch.distributed.checkpoint.metadata";

// Opcodes of protocol 2. Each method leaves one value on the stack.
std::string le(std::uint64_t value, std::size_t width) {
  std::string text;
  for (std::size_t i = 0; i < width; ++i) text += static_cast<char>(value >> 8U * i & 0xffU);
  return text;
}
std::string global(const std::string& module, const std::string& name) {
  return "c" + module + "\n" + name + "\n";
}
std::string text_of(const std::string& text) { return "X" + le(text.size(), 4) + text; }
std::string integer(std::uint64_t value) {
  if (value <= 0xff) return "K" + le(value, 1);
  if (value <= 0x7fffffff) return "J" + le(value, 4);
  const std::string digits = le(value, 8);  // two's complement: the highest bit is never set
  return "\x8a\x08" + digits;
}
/// torch.Size(values).
std::string size_of(const Shape& values) {
  std::string items;
  for (const std::int64_t value : values) items += integer(static_cast<std::uint64_t>(value));
  return global("torch", "Size") + "((" + items + "ttR";
}

/// An object of a dataclass with these attributes.
class Object {
 public:
  Object(const std::string& module, const std::string& name)
      : text_(global(module, name) + ")\x81}(") {}
  Object& with(const std::string& name, const std::string& value) {
    text_ += text_of(name) + value;
    return *this;
  }
  [[nodiscard]] std::string end() const { return text_ + "ub"; }

 private:
  std::string text_;
};

/// (dtype, layout, requires_grad, memory format, pin_memory) is the state of TensorProperties.
std::string properties(const TorchType& type) {
  const std::string layout =
      global("torch.serialization", "_get_layout") + "(" + text_of("torch.strided") + "tR";
  const std::string contiguous = global(kClasses, "_MEM_FORMAT_ENCODING") + "(" + integer(0) + "tR";
  return global(kClasses, "TensorProperties") + ")\x81(" +
         global("torch", std::string(type.dtype)) + layout + "\x89" + contiguous + "\x89" + "tb";
}

std::string tensor_entry(const StoredTensor& tensor) {
  const Shape origin(tensor.shape.size(), 0);
  const std::string chunk = Object(kClasses, "ChunkStorageMetadata")
                                .with("offsets", size_of(origin))
                                .with("sizes", size_of(tensor.shape))
                                .end();
  return Object(kClasses, "TensorStorageMetadata")
      .with("properties", properties(*torch_type_of_name(tensor.dtype)))
      .with("size", size_of(tensor.shape))
      .with("chunks", "](" + chunk + "e")
      .end();
}

std::string index_of(const std::string& name, const StoredTensor& tensor) {
  const Shape origin(tensor.shape.size(), 0);
  return Object(kClasses, "MetadataIndex")
      .with("fqn", text_of(name))
      .with("index", "N")
      .with("offset", size_of(origin))
      .end();
}

std::string place_of(const DcpItem& item) {
  return Object("torch.distributed.checkpoint.filesystem", "_StorageInfo")
      .with("relative_path", text_of(item.file))
      .with("offset", integer(item.offset))
      .with("length", integer(item.bytes))
      .end();
}

}  // namespace

std::string dcp_metadata_pickle(std::span<const StoredTensor> tensors,
                                std::span<const DcpItem> items) {
  std::string entries = "}(";
  std::string paths = "}(";  // of each name in the state dict: it is flat
  std::string places = "}(";
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    std::vector<std::string> names = tensors[i].aliases;
    names.insert(names.begin(), tensors[i].name);
    for (const std::string& name : names) {
      entries += text_of(name) + tensor_entry(tensors[i]);
      paths += text_of(name) + "(" + text_of(name) + "t";
      places += index_of(name, tensors[i]) + place_of(items[i]);
    }
  }
  return "\x80\x02" +
         Object(kClasses, "Metadata")
             .with("state_dict_metadata", entries + "u")
             .with("planner_data", paths + "u")
             .with("storage_data", places + "u")
             .with("storage_meta", "N")
             .with("version", text_of("1.0.0"))
             .end() +
         ".";
}

}  // namespace lockstep::checkpoint
