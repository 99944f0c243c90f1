#include "lockstep/checkpoint/format/safetensors_source.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/format/safetensors_files.h"

namespace lockstep::checkpoint {
namespace {

/// Places of the tensors in the order of their names.
std::vector<std::uint32_t> by_name(const std::vector<StoredTensor>& tensors) {
  std::vector<std::uint32_t> order(tensors.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(),
            [&](std::uint32_t a, std::uint32_t b) { return tensors[a].name < tensors[b].name; });
  return order;
}

}  // namespace

SafetensorsSource::SafetensorsSource(const std::filesystem::path& path,
                                     std::uint64_t max_header_bytes) {
  auto parts = open_safetensors(path, max_header_bytes);
  std::vector<std::map<std::string, std::string>> metadata;
  for (SafetensorsPart& part : parts) {
    metadata.push_back(std::move(part.header.metadata));
    take(static_cast<std::uint32_t>(files_.size()), std::move(part.header));
    files_.push_back(std::move(part.file));
  }
  take_metadata(metadata);
}

void SafetensorsSource::take(std::uint32_t file, SafetensorsHeader header) {
  tensors_.reserve(tensors_.size() + header.tensors.size());
  places_.reserve(places_.size() + header.tensors.size());
  for (TensorInfo& tensor : header.tensors) {
    places_.push_back({file, header.data_start + tensor.begin});
    tensors_.push_back({std::move(tensor.name), std::move(tensor.dtype), std::move(tensor.shape)});
  }
}

void SafetensorsSource::take_metadata(
    const std::vector<std::map<std::string, std::string>>& metadata) {
  const auto order = by_name(tensors_);
  const auto find = [&](const std::string& name) -> StoredTensor* {
    const auto at = std::lower_bound(
        order.begin(), order.end(), name,
        [&](std::uint32_t a, const std::string& wanted) { return tensors_[a].name < wanted; });
    return at == order.end() || tensors_[*at].name != name ? nullptr : &tensors_[*at];
  };
  for (const auto& entries : metadata) {
    for (const auto& [key, value] : entries) {
      StoredTensor* stored = key == "format" || find(key) != nullptr ? nullptr : find(value);
      if (stored != nullptr) {
        stored->aliases.push_back(key);
      } else {
        facts_.emplace(key, value);
      }
    }
  }
}

void SafetensorsSource::read(std::size_t index, std::uint64_t begin,
                             std::span<std::byte> out) const {
  LOCKSTEP_CHECK(index < tensors_.size(), "no such tensor");
  const std::uint64_t bytes = tensors_[index].bytes();
  LOCKSTEP_CHECK(begin <= bytes && out.size() <= bytes - begin,
                 "beyond the end of tensor " + tensors_[index].name);
  files_[places_[index].file].read(places_[index].offset + begin, out);
}

}  // namespace lockstep::checkpoint
