#include "lockstep/checkpoint/foreign/dcp_folder.h"

#include <algorithm>
#include <system_error>
#include <tuple>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/units.h"
#include "lockstep/checkpoint/foreign/claimed_bytes.h"
#include "lockstep/checkpoint/foreign/misfit.h"
#include "lockstep/checkpoint/format/box_runs.h"

namespace lockstep::checkpoint {
namespace {

/// What two names must have in common to be one tensor.
using Identity = std::tuple<std::string, Shape, std::vector<std::pair<Shape, DcpItem>>>;

Identity identity_of(const DcpTensor& tensor) {
  std::vector<std::pair<Shape, DcpItem>> items;
  for (const DcpChunk& chunk : tensor.chunks) items.emplace_back(chunk.box.offset, chunk.item);
  return {tensor.dtype, tensor.shape, std::move(items)};
}

std::string count_text(std::uint64_t count) {
  return format_count(static_cast<std::int64_t>(count));
}

}  // namespace

DcpSource::DcpSource(const std::filesystem::path& dir) : dir_(dir) {
  DcpMetadata metadata = read_dcp_metadata(dir);
  std::map<Identity, std::size_t> known;
  for (const DcpTensor& tensor : metadata.tensors) {
    if (!tensor.chunks.empty()) {
      const auto [same, is_new] = known.try_emplace(identity_of(tensor), tensors_.size());
      if (!is_new) {
        tensors_[same->second].aliases.push_back(tensor.name);
        continue;
      }
    }
    add(tensor);
  }
  std::uint64_t file_bytes = 0;
  for (const auto& [name, opened] : files_) file_bytes += opened.size_bytes();
  check_claims(tensors_, file_bytes, dir.string());
  skipped_ = std::move(metadata.skipped);
  if (!metadata.version.empty()) facts_["dcp_version"] = metadata.version;
}

void DcpSource::add(const DcpTensor& tensor) {
  std::vector<Chunk> chunks;
  for (const DcpChunk& chunk : tensor.chunks) chunks.push_back(open_chunk(tensor, chunk));
  tensors_.push_back({tensor.name, tensor.dtype, tensor.shape});
  chunks_.push_back(std::move(chunks));
}

/// The file of an item, which lies within it.
const InputFile& DcpSource::file(const DcpTensor& tensor, const DcpItem& item) {
  auto found = files_.find(item.file);
  if (found == files_.end()) {
    const std::filesystem::path path = dir_ / item.file;
    std::error_code error;
    if (!std::filesystem::is_regular_file(path, error)) {
      throw_misfit(path.string(), "it is missing; \"" + tensor.name + "\" has a chunk of " +
                                      count_text(item.bytes) + " bytes in it");
    }
    found = files_.try_emplace(item.file, path).first;
  }
  const std::uint64_t size = found->second.size_bytes();
  if (item.offset > size || item.bytes > size - item.offset) {
    throw_misfit(found->second.path().string(), "it has " + count_text(size) + " bytes; \"" +
                                                    tensor.name + "\" should have " +
                                                    count_text(item.bytes) + " bytes from byte " +
                                                    count_text(item.offset) + " on in it");
  }
  return found->second;
}

DcpSource::Chunk DcpSource::open_chunk(const DcpTensor& tensor, const DcpChunk& chunk) {
  const InputFile& in = file(tensor, chunk.item);
  const TorchArchive& archive =
      archives_.try_emplace(chunk.item, in, chunk.item.offset, chunk.item.bytes).first->second;
  const std::string name = "\"" + tensor.name + "\" at " + to_text(chunk.box.offset);
  auto view = archive.tensor_of(archive.root(), tensor.name);
  if (!view) throw_misfit(archive.zip().where(), name + ": the item is no tensor");
  if (view->dtype != tensor.dtype || view->shape != chunk.box.shape) {
    throw_misfit(archive.zip().where(), name + ": the item is " + view->dtype + " " +
                                            to_text(view->shape) + ", .metadata says " +
                                            tensor.dtype + " " + to_text(chunk.box.shape));
  }
  return {chunk.box, &archive, *std::move(view)};
}

void DcpSource::read(std::size_t index, std::uint64_t begin, std::span<std::byte> out) const {
  LOCKSTEP_CHECK(index < tensors_.size(), "no such tensor");
  const StoredTensor& tensor = tensors_[index];
  LOCKSTEP_CHECK(begin <= tensor.bytes() && out.size() <= tensor.bytes() - begin,
                 "beyond the end of tensor " + tensor.name);
  if (out.empty()) return;
  const auto width = static_cast<std::uint64_t>(element_bits(tensor.dtype)) / 8;
  const std::uint64_t end = begin + out.size();
  for (const Chunk& chunk : chunks_[index]) {
    const BoxRuns runs(tensor.shape, chunk.box);
    const std::uint64_t run_bytes = runs.elements() * width;
    for (auto run = runs.first_behind(begin / width); run < runs.count(); ++run) {
      const std::uint64_t start = runs.start(run) * width;
      if (start >= end) break;
      const std::uint64_t from = std::max(start, begin);
      const std::uint64_t to = std::min(start + run_bytes, end);
      if (from >= to) continue;
      chunk.archive->read(chunk.view, run * run_bytes + (from - start),
                          out.subspan(from - begin, to - from));
    }
  }
}

}  // namespace lockstep::checkpoint
