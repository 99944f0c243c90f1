#include "lockstep/checkpoint/foreign/dcp_metadata.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "lockstep/base/units.h"
#include "lockstep/checkpoint/foreign/misfit.h"
#include "lockstep/checkpoint/foreign/torch_names.h"
#include "lockstep/checkpoint/foreign/torch_tensor.h"
#include "lockstep/checkpoint/format/input_file.h"

namespace lockstep::checkpoint {
namespace {

// Every chunk and item has a copy of its names.
constexpr std::size_t kMaxNameBytes = 1024;
constexpr std::size_t kMaxFileNameBytes = 255;
constexpr std::size_t kShownBytes = 64;  // of a longer name

const std::string kClasses = "torch.distributed.checkpoint.metadata.";
const std::string kStorageInfo = "torch.distributed.checkpoint.filesystem._StorageInfo";

PickleGlobals make_globals() {
  PickleGlobals globals;
  for (const char* name :
       {"BytesStorageMetadata", "ChunkStorageMetadata", "Metadata", "MetadataIndex", "StorageMeta",
        "TensorProperties", "TensorStorageMetadata", "_MEM_FORMAT_ENCODING"}) {
    globals.allowed.insert(kClasses + name);
  }
  globals.allowed.insert({kStorageInfo, "torch.Size", "torch.serialization._get_layout",
                          "torch.distributed._shard.sharded_tensor.metadata.MEM_FORMAT_ENCODING",
                          "torch.distributed._shard.sharded_tensor.metadata.TensorProperties",
                          "collections.OrderedDict"});
  for (const TorchType& row : torch_types()) {
    globals.allowed.insert("torch." + std::string(row.dtype));
  }
  globals.skipped = {"pathlib.Path",        "pathlib.PosixPath",        "pathlib.PurePosixPath",
                     "pathlib.WindowsPath", "pathlib._local.PosixPath", "uuid.UUID"};
  return globals;
}

/// An attribute of an object of a dataclass; nullptr also for None.
const PickleValue* attribute(const PickleValue& object, std::string_view name) {
  if (!object.is(PickleKind::object) || object.state() == nullptr) return nullptr;
  const PickleValue* value = object.state()->find(name);
  return value == nullptr || value->is(PickleKind::none) ? nullptr : value;
}

std::optional<Shape> shape_of(const PickleValue& object, std::string_view name) {
  const PickleValue* value = attribute(object, name);
  return value == nullptr ? std::nullopt : integers_of(*value);
}

bool is_dict(const PickleValue* value) {
  return value != nullptr &&
         (value->is(PickleKind::dict) || value->is_object_of("collections.OrderedDict"));
}

bool is_file_name(std::string_view name) {
  return !name.empty() && name.size() <= kMaxFileNameBytes && name != "." && name != ".." &&
         name.find('/') == name.npos && name.find('\0') == name.npos;
}

/// Turns the tree of the pickle into a DcpMetadata.
class Parser {
 public:
  Parser(const PickleValue& root, std::string where) : root_(root), where_(std::move(where)) {}

  DcpMetadata metadata() {
    if (!root_.is_object_of(kClasses + "Metadata")) {
      fail("it is no Metadata of torch.distributed.checkpoint");
    }
    note_version();
    const PickleValue* tensors = attribute(root_, "state_dict_metadata");
    const PickleValue* items = attribute(root_, "storage_data");
    if (!is_dict(tensors) || !is_dict(items)) fail("it lists no tensors or no items");
    for (std::size_t i = 0; i < items->entries(); ++i) {
      note_item(*items->entry(i).first, *items->entry(i).second);
    }
    check_apart();
    for (std::size_t i = 0; i < tensors->entries(); ++i) {
      const auto [name, value] = tensors->entry(i);
      add(name_of(name), *value);
    }
    return std::move(found_);
  }

 private:
  /// Name and offset; objects that are no tensors have no offset.
  using Key = std::pair<std::string, std::optional<Shape>>;

  [[noreturn]] void fail(const std::string& what) const { throw_misfit(where_, what); }
  [[noreturn]] void fail(const std::string& name, const std::string& what) const {
    fail("\"" + name + "\": " + what);
  }

  void note_version() {
    const PickleValue* version = attribute(root_, "version");
    if (version == nullptr || !version->is(PickleKind::text)) return;
    if (version->text().size() > kMaxNameBytes) fail("a version longer than any");
    found_.version = version->text();
  }

  /// Of a tensor or item.
  [[nodiscard]] std::string name_of(const PickleValue* name) const {
    if (name == nullptr || !name->is(PickleKind::text)) {
      fail("it lists a tensor or item without a name");
    }
    if (name->text().size() > kMaxNameBytes) {
      fail(std::string(name->text().substr(0, kShownBytes)),
           "a name of more than " + std::to_string(kMaxNameBytes) + " bytes");
    }
    return std::string(name->text());
  }

  void note_item(const PickleValue& key, const PickleValue& value) {
    if (!key.is_object_of(kClasses + "MetadataIndex")) fail("it lists an item without a name");
    const std::string text = name_of(attribute(key, "fqn"));
    const std::optional<Shape> offset = shape_of(key, "offset");
    if (!offset && attribute(key, "offset") != nullptr) fail(text, "an item at no offset");
    if (!items_.emplace(Key(text, offset), item_of(text, value)).second) {
      fail(text, "two items at one offset");
    }
  }

  DcpItem item_of(const std::string& name, const PickleValue& value) const {
    const PickleValue* file = attribute(value, "relative_path");
    const PickleValue* offset = attribute(value, "offset");
    const PickleValue* bytes = attribute(value, "length");
    const auto is_size = [](const PickleValue* number) {
      return number != nullptr && number->is(PickleKind::integer) && number->integer() >= 0;
    };
    if (!value.is_object_of(kStorageInfo) || file == nullptr || !is_size(offset) ||
        !is_size(bytes)) {
      fail(name, "an item without a place in a file");
    }
    if (!file->is(PickleKind::text) || !is_file_name(file->text())) {
      fail(name, "an item in \"" + std::string(file->text().substr(0, kMaxNameBytes)) +
                     "\", which is no name of a file");
    }
    const PickleValue* changes = attribute(value, "transform_descriptors");
    if (changes != nullptr && !changes->items().empty()) {
      fail(name, "an item that an extension of the writer has compressed or changed");
    }
    return {std::string(file->text()), static_cast<std::uint64_t>(offset->integer()),
            static_cast<std::uint64_t>(bytes->integer())};
  }

  /// A file has every byte once: a small one could be any number of items otherwise.
  void check_apart() const {
    std::vector<std::pair<const DcpItem*, const std::string*>> order;
    for (const auto& [key, item] : items_) order.emplace_back(&item, &key.first);
    std::sort(order.begin(), order.end(),
              [](const auto& a, const auto& b) { return *a.first < *b.first; });
    for (std::size_t i = 1; i < order.size(); ++i) {
      const DcpItem& before = *order[i - 1].first;
      const DcpItem& item = *order[i].first;
      const bool is_apart =
          item.file != before.file || item == before || item.offset >= before.offset + before.bytes;
      if (!is_apart) {
        fail(*order[i].second, "its item at byte " + std::to_string(item.offset) + " of " +
                                   item.file + " overlaps one of \"" + *order[i - 1].second + "\"");
      }
    }
  }

  void add(const std::string& name, const PickleValue& value) {
    if (!names_.insert(name).second) fail(name, "two tensors of this name");
    if (value.is_object_of(kClasses + "BytesStorageMetadata")) {
      const auto item = items_.find({name, std::nullopt});
      const std::string size =
          item == items_.end()
              ? ""
              : ", " + format_count(static_cast<std::int64_t>(item->second.bytes)) + " bytes";
      return skip(name, "a Python object, no tensor" + size);
    }
    if (!value.is_object_of(kClasses + "TensorStorageMetadata")) {
      fail(name, "neither a tensor nor bytes");
    }
    const auto shape = shape_of(value, "size");
    const TorchType* type = type_of(value);
    if (!shape || type == nullptr) fail(name, "a tensor without shape and dtype");
    if (type->name.empty()) {
      return skip(name, "a tensor of torch." + std::string(type->dtype) +
                            ", which has no name in safetensors");
    }
    if (!tensor_bytes(type->name, *shape)) fail(name, to_text(*shape) + " has no size in bytes");
    found_.tensors.push_back({name, std::string(type->name), *shape, chunks_of(name, value)});
    check_cover(found_.tensors.back());
  }

  void skip(const std::string& name, const std::string& why) {
    found_.skipped.push_back({name, why});
  }

  /// The first of TensorProperties, whose state is a tuple.
  static const TorchType* type_of(const PickleValue& tensor) {
    constexpr std::string_view kModule = "torch.";
    const PickleValue* properties = attribute(tensor, "properties");
    if (properties == nullptr || !properties->is(PickleKind::object)) return nullptr;
    const PickleValue* state = properties->state();
    const bool is_tuple =
        state != nullptr && state->is(PickleKind::tuple) && !state->items().empty();
    const PickleValue* dtype = is_tuple ? state->items()[0] : attribute(*properties, "dtype");
    if (dtype == nullptr || !dtype->is(PickleKind::global)) return nullptr;
    if (!dtype->text().starts_with(kModule)) return nullptr;
    return torch_type_of_dtype(dtype->text().substr(kModule.size()));
  }

  std::vector<DcpChunk> chunks_of(const std::string& name, const PickleValue& tensor) const {
    const PickleValue* list = attribute(tensor, "chunks");
    if (list == nullptr || !list->is(PickleKind::list)) fail(name, "a tensor without chunks");
    if (list->items().size() > kMaxBoxes) {
      fail(name, "more than " + std::to_string(kMaxBoxes) + " chunks");
    }
    std::vector<DcpChunk> chunks;
    for (const PickleValue* value : list->items()) {
      const auto offset = shape_of(*value, "offsets");
      const auto shape = shape_of(*value, "sizes");
      if (!offset || !shape) fail(name, "a chunk without offset and shape");
      auto item = items_.find({name, offset});
      if (item == items_.end() && list->items().size() == 1) {
        item = items_.find({name, std::nullopt});
      }
      if (item == items_.end()) {
        fail(name, "the chunk at " + to_text(*offset) + " is in no file");
      }
      chunks.push_back({{*offset, *shape}, item->second});
    }
    return chunks;
  }

  void check_cover(const DcpTensor& tensor) const {
    std::vector<Box> boxes;
    for (const DcpChunk& chunk : tensor.chunks) boxes.push_back(chunk.box);
    const std::string why = why_not_covered(tensor.shape, boxes);
    if (!why.empty()) fail(tensor.name, why);
  }

  const PickleValue& root_;
  std::string where_;
  DcpMetadata found_;
  std::map<Key, DcpItem> items_;
  std::set<std::string> names_;
};

}  // namespace

const PickleGlobals& dcp_globals() {
  static const PickleGlobals kGlobals = make_globals();
  return kGlobals;
}

DcpMetadata parse_dcp_metadata(std::string pickle, const std::string& where) {
  const PickleTree tree = read_pickle(std::move(pickle), dcp_globals(), where);
  return Parser(tree.root(), where).metadata();
}

DcpMetadata read_dcp_metadata(const std::filesystem::path& dir) {
  const std::filesystem::path path = dir / kDcpMetadataFile;
  return parse_dcp_metadata(read_text_file(path, kMaxPickleBytes), path.string());
}

}  // namespace lockstep::checkpoint
