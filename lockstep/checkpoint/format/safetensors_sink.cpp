#include "lockstep/checkpoint/format/safetensors_sink.h"

#include <algorithm>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/units.h"
#include "lockstep/checkpoint/format/json_events.h"
#include "lockstep/checkpoint/format/safetensors.h"
#include "lockstep/checkpoint/format/safetensors_json.h"
#include "lockstep/checkpoint/format/utf8.h"

namespace lockstep::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kNotedHeaderBytes = 90'000'000;

void check_names(const std::vector<StoredTensor>& tensors, const fs::path& target) {
  std::vector<const std::string*> names;
  for (const StoredTensor& tensor : tensors) {
    names.push_back(&tensor.name);
    bool can_hold = tensor.name != kMetadataKey && is_utf8(tensor.name);
    for (const std::string& alias : tensor.aliases) can_hold = can_hold && is_utf8(alias);
    if (can_hold) continue;
    throw BadData({"LS-5004", target.string(),
                   "safetensors cannot hold a tensor or alias of this name: tensor " +
                       std::to_string(&tensor - tensors.data()),
                   "give it another name: plain UTF-8, not __metadata__"});
  }
  LOCKSTEP_CHECK(first_twice(std::move(names)) == nullptr, "a name of a tensor given twice");
}

std::string stem_of(const fs::path& target) {
  std::string name = target.filename().string();
  if (name.ends_with(kSafetensorsEnding)) name.resize(name.size() - kSafetensorsEnding.size());
  return name;
}

/// How many tensors each shard takes, in the order given.
std::vector<std::size_t> shard_counts(const std::vector<StoredTensor>& tensors,
                                      std::uint64_t max_bytes) {
  std::vector<std::size_t> counts{0};
  std::uint64_t filled = 0;
  for (const StoredTensor& tensor : tensors) {
    const std::uint64_t bytes = tensor.bytes();
    if (max_bytes > 0 && counts.back() > 0 && (bytes > max_bytes || filled > max_bytes - bytes)) {
      counts.push_back(0);
      filled = 0;
    }
    ++counts.back();
    filled += bytes;
  }
  return counts;
}

std::vector<TensorInfo> infos_of(const std::vector<StoredTensor>& tensors) {
  std::vector<TensorInfo> infos;
  infos.reserve(tensors.size());
  for (const StoredTensor& tensor : tensors) {
    infos.push_back({tensor.name, tensor.dtype, tensor.shape});
  }
  return infos;
}

/// The same as lay_out() orders them.
std::vector<StoredTensor> laid_out(std::vector<StoredTensor> tensors) {
  std::sort(tensors.begin(), tensors.end(), [](const StoredTensor& a, const StoredTensor& b) {
    const int order_a = element_order(a.dtype);
    const int order_b = element_order(b.dtype);
    return order_a != order_b ? order_a > order_b : a.name < b.name;
  });
  return tensors;
}

}  // namespace

SafetensorsSink::SafetensorsSink(const fs::path& target, std::vector<StoredTensor> tensors,
                                 const SafetensorsSinkOptions& options) {
  check_names(tensors, target);
  make_shards(target, std::move(tensors), options);
  note_strangers(target);
  skip_empty();
}

void SafetensorsSink::make_shards(const fs::path& target, std::vector<StoredTensor> tensors,
                                  const SafetensorsSinkOptions& options) {
  const auto counts = shard_counts(tensors, options.max_shard_bytes);
  auto first = tensors.begin();
  for (const std::size_t count : counts) {
    const auto end = first + static_cast<std::ptrdiff_t>(count);
    const fs::path path =
        counts.size() == 1
            ? target
            : target.parent_path() / shard_name(stem_of(target), paths_.size() + 1, counts.size());
    start_file(path, laid_out({std::move_iterator(first), std::move_iterator(end)}),
               options.metadata);
    first = end;
  }
  if (counts.size() == 1) return;
  for (const fs::path& path : paths_) index_.files.push_back(path.filename().string());
  for (std::size_t i = 0; i < order_.size(); ++i) {
    index_.entries.push_back({order_[i].name, file_of_[i]});
    index_.total_bytes += order_[i].bytes();
  }
  std::sort(index_.entries.begin(), index_.entries.end(),
            [](const auto& a, const auto& b) { return a.tensor < b.tensor; });
  const fs::path path = target.parent_path() / (stem_of(target) + std::string(kIndexEnding));
  files_.push_back(std::make_unique<AtomicFile>(path));
  paths_.push_back(path);
}

void SafetensorsSink::start_file(const fs::path& path, std::vector<StoredTensor> tensors,
                                 std::map<std::string, std::string> metadata) {
  for (const StoredTensor& tensor : tensors) {
    for (const std::string& alias : tensor.aliases) {
      if (metadata.emplace(alias, tensor.name).second) continue;
      notes_.push_back("alias \"" + alias + "\" of \"" + tensor.name +
                       "\" is not noted: the metadata has an entry of that name");
    }
  }
  const std::string header = write_safetensors_header(lay_out(infos_of(tensors)), metadata);
  if (header.size() > kNotedHeaderBytes) {
    notes_.push_back(path.filename().string() + " has a header of " +
                     format_count(static_cast<std::int64_t>(header.size() - kLengthBytes)) +
                     " bytes; readers refuse more than " +
                     format_count(static_cast<std::int64_t>(kMaxHeaderBytes)) +
                     ": smaller shards have shorter ones");
  }
  file_of_.resize(file_of_.size() + tensors.size(), static_cast<std::uint32_t>(files_.size()));
  order_.insert(order_.end(), std::move_iterator(tensors.begin()),
                std::move_iterator(tensors.end()));
  files_.push_back(std::make_unique<AtomicFile>(path));
  files_.back()->write(std::as_bytes(std::span(header)));
  paths_.push_back(path);
}

void SafetensorsSink::note_strangers(const fs::path& target) {
  const std::string stem = stem_of(target);
  const fs::path folder = target.has_parent_path() ? target.parent_path() : fs::path(".");
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    const bool is_ours = std::any_of(paths_.begin(), paths_.end(),
                                     [&](const fs::path& path) { return path.filename() == name; });
    const ShardName shard = parse_shard_name(name);
    const bool is_alike = name == stem + std::string(kSafetensorsEnding) ||
                          name == stem + std::string(kIndexEnding) ||
                          (shard.shards > 0 && shard.stem == stem);
    if (is_alike && !is_ours) {
      notes_.push_back(name + " is in the folder already and belongs to another checkpoint");
    }
  }
}

void SafetensorsSink::skip_empty() {
  while (next_ < order_.size() && written_ == order_[next_].bytes()) {
    ++next_;
    written_ = 0;
  }
}

void SafetensorsSink::write(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  LOCKSTEP_CHECK(next_ < order_.size(), "more tensors written than announced");
  LOCKSTEP_CHECK(bytes.size() <= order_[next_].bytes() - written_,
                 "more bytes than tensor " + order_[next_].name + " has");
  files_[file_of_[next_]]->write(bytes);
  written_ += bytes.size();
  skip_empty();
}

void SafetensorsSink::commit() {
  LOCKSTEP_CHECK(next_ == order_.size(), "fewer tensors written than announced");
  if (!index_.files.empty()) {
    const std::string text = write_safetensors_index(index_);
    files_.back()->write(std::as_bytes(std::span(text)));
  }
  for (const auto& file : files_) file->commit();
}

}  // namespace lockstep::checkpoint
