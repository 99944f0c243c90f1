#include "lockstep/checkpoint/foreign/torch_walk.h"

#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "lockstep/base/units.h"
#include "lockstep/checkpoint/foreign/claimed_bytes.h"
#include "lockstep/checkpoint/foreign/not_torch.h"

namespace lockstep::checkpoint {
namespace {

constexpr std::size_t kMaxNameBytes = 1024;
constexpr std::size_t kMaxFactBytes = 256;
constexpr std::size_t kMaxSkipped = 1024;
constexpr const char* kRootName = "value";  // of what is no dict or list itself

// What names may take in memory together, and what each takes beside its letters: a hostile file
// can reach one tensor by many long names.
constexpr std::uint64_t kFreeNameBytes = std::uint64_t{1} << 24U;
constexpr std::uint64_t kNameBytesPerByte = 8;
constexpr std::uint64_t kBytesPerName = 256;

std::string count_text(std::uint64_t count) {
  return format_count(static_cast<std::int64_t>(count));
}

/// A scalar as text, the beginning of a long one; nothing for other values.
std::optional<std::string> scalar_text(const PickleValue& value) {
  switch (value.kind()) {
    case PickleKind::boolean:
      return value.boolean() ? "true" : "false";
    case PickleKind::integer:
      return std::to_string(value.integer());
    case PickleKind::real:
      return format_shortest(value.real());
    case PickleKind::none:
      return "None";
    case PickleKind::text:
    case PickleKind::big_integer:
    case PickleKind::global:
      return std::string(value.text().substr(0, kMaxNameBytes + 1));
    default:
      return std::nullopt;
  }
}

std::string shortened(std::string text) {
  if (text.size() <= kMaxFactBytes) return text;
  std::size_t end = kMaxFactBytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0U) == 0x80) --end;
  return text.substr(0, end) + "...";
}

bool is_sequence(const PickleValue& value) {
  return value.is(PickleKind::tuple) || value.is(PickleKind::list) || value.is(PickleKind::set);
}

/// "[0.9, 0.999]" of a sequence of scalars; nothing when it holds others.
std::optional<std::string> sequence_text(const PickleValue& value) {
  std::string text = "[";
  for (const PickleValue* item : value.items()) {
    const auto scalar = scalar_text(*item);
    if (!scalar) return std::nullopt;
    if (text.size() <= kMaxFactBytes) text += (text.size() > 1 ? ", " : "") + *scalar;
  }
  return text + "]";
}

/// "cuda:1" of ("cuda", 1).
std::optional<std::string> device_text(std::span<const PickleValue* const> args) {
  std::string text;
  for (const PickleValue* arg : args) {
    const auto part = scalar_text(*arg);
    if (!part) return std::nullopt;
    text += (text.empty() ? "" : ":") + *part;
  }
  return text;
}

/// One line for a value that is no tensor and holds none.
// NOLINTNEXTLINE(misc-no-recursion): no deeper than kMaxPickleDepth
std::optional<std::string> fact_text(const PickleValue& value) {
  if (auto scalar = scalar_text(value)) return scalar;
  if (is_sequence(value)) return sequence_text(value);
  if (!value.is(PickleKind::object)) return std::nullopt;
  const auto args = value.args()->items();
  if (value.global() == "torch.device") return device_text(args);
  const bool is_plain =
      value.global() == "torch.Size" || value.global() == "torch.serialization._get_layout";
  return is_plain && args.size() == 1 ? fact_text(*args[0]) : std::nullopt;
}

class Walk {
 public:
  explicit Walk(const TorchArchive& archive)
      : archive_(archive),
        names_left_(kFreeNameBytes + kNameBytesPerByte * archive.zip().bytes()),
        claimed_(archive.zip().bytes()) {}

  TorchContents contents() {
    visit(archive_.root(), "");
    if (left_out_ > 0) {
      contents_.skipped.push_back({"...", count_text(left_out_) + " more that hold no tensor"});
    }
    return std::move(contents_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw_not_torch(archive_.zip().where(), what);
  }

  // NOLINTNEXTLINE(misc-no-recursion): no deeper than kMaxPickleDepth
  void visit(const PickleValue& value, const std::string& path) {
    const std::string& name = path.empty() ? root_name_ : path;
    if (const auto view = archive_.tensor_of(value, name)) return add_tensor(name, *view);
    if (const std::string why = archive_.why_no_tensor(value); !why.empty()) return skip(name, why);
    if (value.is(PickleKind::none)) return;
    if (const auto fact = fact_text(value)) return add_fact(name, *fact);
    if (is_sequence(value)) return visit_items(value, path);
    if (value.is(PickleKind::dict) || value.is_object_of("collections.OrderedDict")) {
      return visit_entries(value, path);
    }
    skip(name, why_skipped(value));
  }

  // NOLINTNEXTLINE(misc-no-recursion): no deeper than kMaxPickleDepth
  void visit_items(const PickleValue& value, const std::string& path) {
    for (std::size_t i = 0; i < value.items().size(); ++i) {
      visit(*value.items()[i], below(path, std::to_string(i)));
    }
  }

  // NOLINTNEXTLINE(misc-no-recursion): no deeper than kMaxPickleDepth
  void visit_entries(const PickleValue& value, const std::string& path) {
    for (std::size_t i = 0; i < value.entries(); ++i) {
      const auto [key, item] = value.entry(i);
      const auto text = key->is(PickleKind::none) ? std::nullopt : scalar_text(*key);
      if (text) {
        visit(*item, below(path, *text));
      } else {
        skip(below(path, "?"), "under a key that is " + std::string(to_text(key->kind())));
      }
    }
  }

  [[nodiscard]] std::string below(const std::string& path, const std::string& key) const {
    std::string name = path.empty() ? key : path + "." + key;
    if (name.size() > kMaxNameBytes) {
      fail("a name longer than " + std::to_string(kMaxNameBytes) +
           " bytes: " + shortened(std::move(name)));
    }
    return name;
  }

  static std::string why_skipped(const PickleValue& value) {
    if (value.is(PickleKind::bytes)) return count_text(value.text().size()) + " bytes";
    if (value.is(PickleKind::skipped)) return std::string(value.text());
    if (value.is(PickleKind::object)) return std::string(value.global());
    return std::string(to_text(value.kind()));
  }

  void charge(const std::string& name) {
    const std::uint64_t bytes = name.size() + kBytesPerName;
    if (bytes > names_left_) fail("more names than a file of this size has");
    names_left_ -= bytes;
  }

  void skip(const std::string& name, const std::string& why) {
    if (contents_.skipped.size() < kMaxSkipped) {
      contents_.skipped.push_back({name, why});
    } else {
      ++left_out_;
    }
  }

  void add_fact(const std::string& name, const std::string& text) {
    if (contents_.facts.size() < kMaxTorchFacts) {
      contents_.facts[name] = shortened(text);
    } else {
      ++left_out_;
    }
  }

  void add_tensor(const std::string& name, const TensorView& view) {
    charge(name);
    if (!names_.insert(name).second) fail("two tensors are named " + name);
    const auto [known, is_new] = known_.try_emplace(
        {view.storage, view.dtype, view.shape, view.stride, view.offset}, contents_.tensors.size());
    if (!is_new) {
      contents_.tensors[known->second].aliases.push_back(name);
      return;
    }
    StoredTensor tensor{name, view.dtype, view.shape, view.parameter ? "parameter" : "", {}};
    if (!claimed_.add(tensor.bytes())) {
      fail(
          "tensors of more than 1000 times the bytes of the file, by views that repeat elements; "
          "the last is " +
          name + " " + to_text(view.shape));
    }
    contents_.tensors.push_back(std::move(tensor));
    contents_.views.push_back(view);
  }

  using Key = std::tuple<std::string, std::string, Shape, Shape, std::uint64_t>;

  const TorchArchive& archive_;
  const std::string root_name_ = kRootName;
  TorchContents contents_;
  std::map<Key, std::size_t> known_;
  std::set<std::string> names_;
  std::uint64_t names_left_;
  ClaimedBytes claimed_;
  std::uint64_t left_out_ = 0;
};

}  // namespace

TorchContents walk_torch_archive(const TorchArchive& archive) { return Walk(archive).contents(); }

}  // namespace lockstep::checkpoint
