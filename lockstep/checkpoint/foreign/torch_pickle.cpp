#include "lockstep/checkpoint/foreign/torch_pickle.h"

#include <algorithm>
#include <set>

#include "lockstep/checkpoint/foreign/torch_names.h"

namespace lockstep::checkpoint {
namespace {

// Opcodes of protocol 2, those that torch.load(weights_only=True) takes.
class Pickler {
 public:
  Pickler() { text_ = "\x80\x02"; }

  Pickler& global(std::string_view module, std::string_view name) {
    text_.append("c").append(module).append("\n").append(name).append("\n");
    return *this;
  }
  Pickler& text(std::string_view text) {
    text_ += 'X';
    number(text.size(), 4);
    text_ += text;
    return *this;
  }
  Pickler& integer(std::uint64_t value) {
    if (value <= 0xff) {
      text_ += 'K';
      return number(value, 1);
    }
    if (value <= 0x7fffffff) {
      text_ += 'J';
      return number(value, 4);
    }
    text_ += "\x8a\x08";
    return number(value, 8);
  }
  Pickler& tuple(const Shape& values) {
    raw("(");
    for (const std::int64_t value : values) integer(static_cast<std::uint64_t>(value));
    return raw("t");
  }
  Pickler& empty_dict() { return global("collections", "OrderedDict").raw(")R"); }
  Pickler& raw(std::string_view opcodes) {
    text_ += opcodes;
    return *this;
  }
  [[nodiscard]] const std::string& result() const { return text_; }

 private:
  Pickler& number(std::uint64_t value, std::size_t width) {
    for (std::size_t i = 0; i < width; ++i) text_ += static_cast<char>(value >> 8U * i & 0xffU);
    return *this;
  }

  std::string text_;
};

Shape contiguous(const Shape& shape) {
  Shape stride(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) {
    stride[i - 1] = stride[i] * std::max<std::int64_t>(shape[i], 1);
  }
  return stride;
}

void add_storage(Pickler& out, const StoredTensor& tensor, const TorchType& type, std::size_t key) {
  const auto element_bytes = static_cast<std::uint64_t>(type.element_bytes);
  out.raw("(").text("storage");
  if (type.storage.empty()) {
    out.global("torch.storage", "UntypedStorage");
  } else {
    out.global("torch", type.storage);
  }
  out.text(std::to_string(key)).text("cpu");
  out.integer(type.storage.empty() ? tensor.bytes() : tensor.bytes() / element_bytes).raw("tQ");
}

void add_tensor(Pickler& out, const StoredTensor& tensor, std::size_t key) {
  const TorchType& type = *torch_type_of_name(tensor.dtype);
  out.global("torch._utils", type.storage.empty() ? "_rebuild_tensor_v3" : "_rebuild_tensor_v2");
  out.raw("(");
  add_storage(out, tensor, type, key);
  out.integer(0).tuple(tensor.shape).tuple(contiguous(tensor.shape)).raw("\x89").empty_dict();
  if (type.storage.empty()) out.global("torch", type.dtype);
  out.raw("tR");
}

}  // namespace

bool has_torch_type(const StoredTensor& tensor) {
  return torch_type_of_name(tensor.dtype) != nullptr;
}

std::vector<Problem> state_dict_problems(std::span<const StoredTensor> tensors,
                                         const std::string& where) {
  std::vector<Problem> problems;
  std::set<std::string> names;
  const auto note = [&](const std::string& what, const std::string& fix) {
    problems.push_back({"LS-5012", where, what, fix});
  };
  for (const StoredTensor& tensor : tensors) {
    if (!has_torch_type(tensor)) {
      note(tensor.name + " is of type " + tensor.dtype + ", which PyTorch does not have",
           "write safetensors, which has that type");
    }
    std::vector<std::string> all = tensor.aliases;
    all.push_back(tensor.name);
    for (const std::string& name : all) {
      if (!names.insert(name).second) note("two tensors are named " + name, "rename one of them");
    }
  }
  return problems;
}

std::string torch_pickle(std::span<const StoredTensor> tensors) {
  Pickler out;
  out.empty_dict().raw("(");
  for (std::size_t key = 0; key < tensors.size(); ++key) {
    out.text(tensors[key].name);
    add_tensor(out, tensors[key], key);
    for (const std::string& alias : tensors[key].aliases) {
      out.text(alias);
      add_tensor(out, tensors[key], key);
    }
  }
  return out.raw("u.").result();
}

}  // namespace lockstep::checkpoint
