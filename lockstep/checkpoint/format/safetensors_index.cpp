#include "lockstep/checkpoint/format/safetensors_index.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "lockstep/checkpoint/format/damaged.h"
#include "lockstep/checkpoint/format/json_events.h"

namespace lockstep::checkpoint {
namespace {

using Type = JsonScalar::Type;

constexpr int kMaxDepth = 16;
constexpr std::size_t kMaxNameBytes = 255;
constexpr std::size_t kShardDigits = 5;

/// An index must not lead out of its folder.
bool is_plain_file_name(const std::string& name) {
  return !name.empty() && name.size() <= kMaxNameBytes && name.front() != '.' &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
}

class IndexEvents : public JsonEvents {
 public:
  explicit IndexEvents(const std::string& where) : JsonEvents(kMaxDepth, where) {}

  std::map<std::string, std::uint32_t> files;  // numbered as they come
  std::vector<SafetensorsIndex::Entry> entries;
  std::uint64_t total_bytes = 0;
  bool has_map = false;

 private:
  // Objects around a value.
  static constexpr int kRoot = 1;
  static constexpr int kInside = 2;

  void on_open(bool is_object) override {
    if (level() == kRoot && !is_object) throw_damaged(where(), "not an object");
    if (part_ != kMapKey) return;
    if (level() != kInside) throw_damaged(where(), "weight_map: a value that is no file name");
    if (!is_object) throw_damaged(where(), "weight_map: not an object");
    has_map = true;
  }

  void on_key(const std::string& key) override {
    if (level() == kRoot) {
      part_ = key;
    } else {
      name_ = key;
    }
  }

  void on_scalar(const JsonScalar& scalar) override {
    if (level() == 0) throw_damaged(where(), "not an object");
    if (part_ == kMapKey) {
      take_entry(scalar);
    } else if (part_ == "metadata" && level() == kInside && name_ == "total_size") {
      // Some writers have it as 1.5e9.
      const bool is_count = scalar.real >= 0 && scalar.real < 0x1p63;
      total_bytes = scalar.type == Type::natural ? scalar.natural
                    : is_count                   ? static_cast<std::uint64_t>(scalar.real)
                                                 : 0;
    }
  }

  void on_close() override {
    if (level() == kInside) part_.clear();
  }

  /// Tensors are compared when all are there.
  [[nodiscard]] bool are_keys_compared() const override { return part_ != kMapKey; }

  void take_entry(const JsonScalar& scalar) {
    if (level() != kInside) throw_damaged(where(), "weight_map: not an object");
    if (scalar.type != Type::text || !is_plain_file_name(*scalar.text)) {
      throw_damaged(where(), "weight_map: tensor \"" + name_ + "\" has no plain file name");
    }
    const auto file = files.emplace(*scalar.text, static_cast<std::uint32_t>(files.size())).first;
    entries.push_back({name_, file->second});
  }

  static constexpr const char* kMapKey = "weight_map";
  std::string part_;  // the key of the root that is open
  std::string name_;
};

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', /*ensure_ascii=*/true);
}

/// Takes "-NNNNN" off the end of `text`; 0 when it does not end so.
std::uint64_t take_number(std::string_view& text, std::string_view before) {
  const std::size_t length = before.size() + kShardDigits;
  if (text.size() < length) return 0;
  const std::string_view end = text.substr(text.size() - length);
  std::uint64_t number = 0;
  const auto [stop, error] =
      std::from_chars(end.data() + before.size(), end.data() + length, number);
  if (!end.starts_with(before) || error != std::errc() || stop != end.data() + length) return 0;
  text.remove_suffix(length);
  return number;
}

}  // namespace

SafetensorsIndex parse_safetensors_index(std::string_view text, const std::string& where) {
  IndexEvents events(where);
  events.read(text);
  if (!events.has_map) throw_damaged(where, "\"weight_map\" is missing");
  SafetensorsIndex index{{}, std::move(events.entries), events.total_bytes};
  std::vector<std::uint32_t> place(events.files.size());
  for (const auto& [name, number] : events.files) {
    place[number] = static_cast<std::uint32_t>(index.files.size());
    index.files.push_back(name);
  }
  for (SafetensorsIndex::Entry& entry : index.entries) entry.file = place[entry.file];
  std::sort(index.entries.begin(), index.entries.end(),
            [](const auto& a, const auto& b) { return a.tensor < b.tensor; });
  const auto twice =
      std::adjacent_find(index.entries.begin(), index.entries.end(),
                         [](const auto& a, const auto& b) { return a.tensor == b.tensor; });
  if (twice != index.entries.end()) throw_damaged(where, "key \"" + twice->tensor + "\" twice");
  return index;
}

std::string write_safetensors_index(const SafetensorsIndex& index) {
  std::string text =
      "{\n  \"metadata\": {\n    \"total_size\": " + std::to_string(index.total_bytes) +
      "\n  },\n  \"weight_map\": {";
  for (const SafetensorsIndex::Entry& entry : index.entries) {
    text += &entry == &index.entries.front() ? "\n    " : ",\n    ";
    text += quoted(entry.tensor) + ": " + quoted(index.files.at(entry.file));
  }
  return text + (index.entries.empty() ? "}\n}\n" : "\n  }\n}\n");
}

std::string shard_name(const std::string& stem, std::uint64_t shard, std::uint64_t shards) {
  const auto padded = [](std::uint64_t number) {
    const std::string digits = std::to_string(number);
    return std::string(kShardDigits - std::min(kShardDigits, digits.size()), '0') + digits;
  };
  return stem + "-" + padded(shard) + "-of-" + padded(shards) + std::string(kSafetensorsEnding);
}

ShardName parse_shard_name(std::string_view file_name) {
  if (!file_name.ends_with(kSafetensorsEnding)) return {};
  file_name.remove_suffix(kSafetensorsEnding.size());
  const std::uint64_t shards = take_number(file_name, "-of-");
  const std::uint64_t shard = shards == 0 ? 0 : take_number(file_name, "-");
  if (shard == 0 || shard > shards || file_name.empty()) return {};
  return {std::string(file_name), shard, shards};
}

}  // namespace lockstep::checkpoint
