#include "lockstep/checkpoint/foreign/torch_tensor.h"

#include <utility>

#include "lockstep/checkpoint/foreign/not_torch.h"
#include "lockstep/checkpoint/foreign/torch_names.h"

namespace lockstep::checkpoint {
namespace {

constexpr std::size_t kMaxDims = 64;
constexpr std::size_t kMaxKeyBytes = 256;  // every view has a copy; PyTorch writes numbers
constexpr std::string_view kModule = "torch.";

using Items = std::span<const PickleValue* const>;

/// "float32" of torch.float32; empty for what is not in torch itself.
std::string_view name_in_torch(const PickleValue& value) {
  if (!value.is(PickleKind::global) || !value.text().starts_with(kModule)) return {};
  return value.text().substr(kModule.size());
}

TorchTensor unreadable(std::string_view why) { return {.why = std::string(why)}; }

TorchTensor unreadable_type(std::string_view dtype) {
  return unreadable("a tensor of torch." + std::string(dtype) +
                    ", which has no name in safetensors");
}

// NOLINTBEGIN(misc-no-recursion): no deeper than kMaxPickleDepth
class Parser {
 public:
  Parser(const std::string& where, const std::string& name) : where_(where), name_(name) {}

  [[nodiscard]] std::optional<TorchTensor> tensor(const PickleValue& value) const {
    if (!value.is(PickleKind::object)) return std::nullopt;
    const TorchRebuild* row = torch_rebuild(value.global());
    if (row == nullptr) return std::nullopt;
    return made_by(*row, value.args()->items());
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw_not_torch(where_, name_ + ": " + what);
  }

  void need(bool holds, const char* what) const {
    if (!holds) fail(std::string("a tensor described by ") + what);
  }

  [[nodiscard]] TorchTensor made_by(const TorchRebuild& row, Items args) const {
    switch (row.form) {
      case TorchForm::none:
        return unreadable(row.kind);
      case TorchForm::parameter:
        return parameter(args);
      case TorchForm::copied:
        return copied(args);
      case TorchForm::typed:
        return typed(args);
      case TorchForm::plain:
      case TorchForm::v2:
      case TorchForm::v3:
        break;
    }
    return viewed(row.form, args);
  }

  /// A tensor within the description of another.
  [[nodiscard]] TorchTensor inner(Items args) const {
    need(!args.empty(), "nothing");
    if (args[0]->is(PickleKind::skipped)) return unreadable(args[0]->text());
    auto found = tensor(*args[0]);
    if (!found) fail("a tensor made of " + std::string(to_text(args[0]->kind())));
    return *std::move(found);
  }

  [[nodiscard]] TorchTensor parameter(Items args) const {
    TorchTensor found = inner(args);
    found.view.parameter = true;
    return found;
  }

  [[nodiscard]] TorchTensor copied(Items args) const {
    TorchTensor found = inner(args);
    need(args.size() >= 2, "no dtype");
    const TorchType* type = torch_type_of_dtype(name_in_torch(*args[1]));
    if (found.why.empty() && (type == nullptr || type->name != found.view.dtype)) {
      return unreadable("a tensor whose bytes are of another dtype");
    }
    return found;
  }

  [[nodiscard]] TorchTensor typed(Items args) const {
    need(args.size() >= 3 && args[2]->is(PickleKind::tuple), "too few arguments");
    if (args[0]->is(PickleKind::skipped)) return unreadable(args[0]->text());
    const std::string_view type = args[1]->text();
    const bool parameter = type == "torch.nn.parameter.Parameter";
    if (!parameter && type != "torch.Tensor" && type != "torch.nn.parameter.Buffer") {
      return unreadable("a tensor of class " + std::string(type));
    }
    const TorchRebuild* row = torch_rebuild(args[0]->text());
    if (!args[0]->is(PickleKind::global) || row == nullptr) fail("a tensor that nothing makes");
    if (row->form == TorchForm::typed) fail("a tensor that makes itself");
    TorchTensor found = made_by(*row, args[2]->items());
    found.view.parameter = found.view.parameter || parameter;
    return found;
  }

  /// (storage, offset, size, stride) and, by the form, requires_grad, hooks, dtype, metadata.
  [[nodiscard]] TorchTensor viewed(TorchForm form, Items args) const {
    need(args.size() >= (form == TorchForm::v3 ? 7 : 4), "too few arguments");
    TorchTensor found;
    const TorchType* type = set_storage(found, *args[0]);
    if (!found.why.empty()) return found;
    if (form == TorchForm::v3) {
      type = torch_type_of_dtype(name_in_torch(*args[6]));
    }
    need(type != nullptr, "no dtype that PyTorch has");
    if (type->name.empty()) return unreadable_type(type->dtype);
    found.view.dtype = type->name;
    set_view(found.view, args);
    const std::size_t metadata = form == TorchForm::v3 ? 7 : 6;
    if (args.size() > metadata && is_changed(*args[metadata])) {
      return unreadable("a view whose elements are conjugated or negated");
    }
    return found;
  }

  void set_view(TensorView& view, Items args) const {
    need(args[1]->is(PickleKind::integer) && args[1]->integer() >= 0, "no offset");
    const auto shape = integers_of(*args[2]);
    const auto stride = integers_of(*args[3]);
    need(shape && stride && shape->size() == stride->size(), "no sizes and strides");
    view.offset = static_cast<std::uint64_t>(args[1]->integer());
    view.shape = *shape;
    view.stride = *stride;
  }

  /// The conj or neg bit: the bytes in the file are not the values.
  static bool is_changed(const PickleValue& metadata) {
    const auto is_set = [&](const char* key) {
      const PickleValue* bit = metadata.find(key);
      return bit != nullptr && bit->is(PickleKind::boolean) && bit->boolean();
    };
    return is_set("conj") || is_set("neg");
  }

  /// ("storage", type, key, location, elements). \returns the type of its elements; nullptr: bytes.
  const TorchType* set_storage(TorchTensor& found, const PickleValue& value) const {
    need(value.is(PickleKind::persistent) && value.args()->is(PickleKind::tuple), "no storage");
    const Items id = value.args()->items();
    need(id.size() >= 5 && id[0]->text() == "storage", "no storage");
    need(id[2]->is(PickleKind::text) && id[2]->text().size() <= kMaxKeyBytes,
         "a storage without a key");
    need(id[4]->is(PickleKind::integer) && id[4]->integer() >= 0, "a storage of no size");
    if (id.size() > 5 && !id[5]->is(PickleKind::none)) {
      found.why = "a view of the form before PyTorch 1.6";
      return nullptr;
    }
    const std::string_view name = name_in_torch(*id[1]);
    const TorchType* type = torch_type_of_storage(name);
    if (name.starts_with("Q")) found.why = "a quantized tensor";
    const bool untyped = name == "UntypedStorage" || name == "storage.UntypedStorage";
    need(type != nullptr || untyped || !found.why.empty(), "a storage of unknown type");
    const auto element_bytes =
        static_cast<std::uint64_t>(type == nullptr ? 1 : type->element_bytes);
    need(!__builtin_mul_overflow(static_cast<std::uint64_t>(id[4]->integer()), element_bytes,
                                 &found.storage_bytes),
         "a storage of no size");
    found.view.storage = id[2]->text();
    return type;
  }

  const std::string& where_;
  const std::string& name_;
};
// NOLINTEND(misc-no-recursion)

}  // namespace

std::optional<TorchTensor> parse_torch_tensor(const PickleValue& value, const std::string& where,
                                              const std::string& name) {
  return Parser(where, name).tensor(value);
}

// NOLINTNEXTLINE(misc-no-recursion): no deeper than kMaxPickleDepth
std::optional<Shape> integers_of(const PickleValue& value) {
  if (value.is_object_of("torch.Size")) {
    const auto args = value.args()->items();
    if (args.size() != 1) return args.empty() ? std::optional<Shape>(Shape{}) : std::nullopt;
    return integers_of(*args[0]);
  }
  if (!value.is(PickleKind::tuple) && !value.is(PickleKind::list)) return std::nullopt;
  if (value.items().size() > kMaxDims) return std::nullopt;
  Shape numbers;
  for (const PickleValue* item : value.items()) {
    if (!item->is(PickleKind::integer)) return std::nullopt;
    numbers.push_back(item->integer());
  }
  return numbers;
}

}  // namespace lockstep::checkpoint
