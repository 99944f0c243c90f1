#include "lockstep/checkpoint/format/step_sink.h"

#include <algorithm>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/format/share_out.h"
#include "lockstep/checkpoint/format/utf8.h"

namespace lockstep::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr const char* kOptimizer = "optimizer";
constexpr const char* kMetadataName = "__metadata__";

bool is_optimizer(const StoredTensor& tensor) { return tensor.kind == kOptimizer; }

std::vector<StoredTensor> checked(std::vector<StoredTensor> tensors, const fs::path& where) {
  for (StoredTensor& tensor : tensors) {
    bool can_hold = tensor.name != kMetadataName && is_utf8(tensor.name);
    for (const std::string& alias : tensor.aliases) can_hold = can_hold && is_utf8(alias);
    if (!can_hold) {
      throw BadData({"LS-5004", where.string(),
                     "a checkpoint cannot hold a tensor or alias of this name: tensor " +
                         std::to_string(&tensor - tensors.data()),
                     "give it another name: plain UTF-8, not __metadata__"});
    }
    if (!is_utf8(tensor.kind) || tensor.kind.empty()) tensor.kind = "parameter";
  }
  return tensors;
}

/// Weights before optimizer state, and in each of the two the order of bytes in a file: as
/// lay_out().
std::vector<StoredTensor> in_order(std::vector<StoredTensor> tensors) {
  std::sort(tensors.begin(), tensors.end(), [](const StoredTensor& a, const StoredTensor& b) {
    if (is_optimizer(a) != is_optimizer(b)) return is_optimizer(b);
    const int order_a = element_order(a.dtype);
    const int order_b = element_order(b.dtype);
    return order_a != order_b ? order_a > order_b : a.name < b.name;
  });
  const auto twice =
      std::adjacent_find(tensors.begin(), tensors.end(),
                         [](const auto& a, const auto& b) { return a.name == b.name; });
  LOCKSTEP_CHECK(twice == tensors.end(), "a name of a tensor given twice");
  return tensors;
}

std::string five_digits(int number) {
  const std::string digits = std::to_string(number);
  return std::string(digits.size() < 5 ? 5 - digits.size() : 0, '0') + digits;
}

/// As ranks that save name their files.
std::string file_name(const std::string& stem, int rank, int ranks) {
  if (ranks == 1) return stem + ".safetensors";
  return stem + "-" + five_digits(rank + 1) + "-of-" + five_digits(ranks) + ".safetensors";
}

Box whole(const StoredTensor& tensor) { return {Shape(tensor.shape.size(), 0), tensor.shape}; }

/// Elements below one byte are not cut: a row may end inside a byte.
bool may_be_cut(const StoredTensor& tensor) { return element_bits(tensor.dtype) % 8 == 0; }

Manifest described_by(StepSinkOptions options, const std::vector<StoredTensor>& tensors) {
  Manifest manifest = std::move(options.described);
  if (manifest.config_json.empty()) manifest.config_json = "{}";
  manifest.world_size = options.ranks;
  manifest.layout = "data=" + std::to_string(options.ranks);
  manifest.file_bytes.clear();
  manifest.tensors.clear();
  for (const StoredTensor& tensor : tensors) {
    manifest.tensors.push_back(
        {tensor.name, tensor.kind, tensor.dtype, tensor.shape, tensor.aliases, {}});
  }
  return manifest;
}

}  // namespace

StepSink::StepSink(fs::path checkpoints_dir, std::vector<StoredTensor> tensors,
                   StepSinkOptions options)
    : order_(in_order(checked(std::move(tensors), checkpoints_dir))),
      manifest_(described_by(options, order_)),
      draft_(checkpoints_dir, manifest_.step),
      path_(checkpoints_dir / ("step-" + std::to_string(manifest_.step))) {
  LOCKSTEP_CHECK(options.ranks >= 1 && options.ranks <= kMostSinkRanks, "ranks out of range");
  const auto state = std::find_if(order_.begin(), order_.end(), is_optimizer);
  const auto weights = static_cast<std::size_t>(state - order_.begin());
  cut(0, weights, options.ranks);
  cut(weights, order_.size(), options.ranks);
  begin_next();
}

/// Plans the files of order_[first, end). All ranks hold all of it, so it is laid end to end and
/// cut: what a rank has is one stretch, and files follow each other as their bytes do.
void StepSink::cut(std::size_t first, std::size_t end, int ranks) {
  if (first == end) return;
  std::vector<int> all(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) all[static_cast<std::size_t>(rank)] = rank;
  std::vector<HeldBox> held;
  for (std::size_t i = first; i < end; ++i) {
    const Box box = may_be_cut(order_[i]) ? whole(order_[i]) : Box{};
    held.push_back({i, box, order_[i].bytes(), all});
  }
  const std::string stem = is_optimizer(order_[first]) ? kOptimizer : "model";
  const auto written = share_out(held, ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    const auto& boxes = written[static_cast<std::size_t>(rank)];
    if (boxes.empty()) continue;
    File file{file_name(stem, rank, ranks), {}};
    for (const WrittenBox& one : boxes) {
      const StoredTensor& tensor = order_[one.tensor];
      const Box box = may_be_cut(tensor) ? one.box : whole(tensor);
      LOCKSTEP_CHECK(parts_.empty() || parts_.back().tensor <= one.tensor, "files out of order");
      parts_.push_back({one.tensor, box, files_.size(), file.infos.size()});
      file.infos.push_back({tensor.name, tensor.dtype, box.shape});
    }
    file.infos = lay_out(std::move(file.infos));
    for (std::size_t i = 0; i < boxes.size(); ++i) {
      LOCKSTEP_CHECK(file.infos[i].name == order_[boxes[i].tensor].name, "another order in a file");
    }
    files_.push_back(std::move(file));
  }
}

/// Goes on to the next part that has bytes.
void StepSink::begin_next() {
  for (; next_ < parts_.size(); ++next_) {
    const Part& part = parts_[next_];
    if (!open_ || open_file_ != part.file) open_file(part.file);
    const TensorInfo& info = files_[part.file].infos[part.info];
    left_ = info.end - info.begin;
    if (left_ > 0) return;
    end_part();
  }
}

void StepSink::open_file(std::size_t file) {
  close_file();
  open_ = std::make_unique<AtomicFile>(draft_.path() / files_[file].name);
  open_file_ = file;
  const std::string header = write_safetensors_header(files_[file].infos, {{"format", "pt"}});
  open_->write(std::as_bytes(std::span(header)));
  data_start_ = header.size();
}

void StepSink::close_file() {
  if (!open_) return;
  open_->commit();
  open_.reset();
  const File& file = files_[open_file_];
  manifest_.file_bytes[file.name] = data_start_ + file.infos.back().end;
}

void StepSink::end_part() {
  const Part& part = parts_[next_];
  const TensorInfo& info = files_[part.file].infos[part.info];
  manifest_.tensors[part.tensor].pieces.push_back({files_[part.file].name, part.box.offset,
                                                   part.box.shape, data_start_ + info.begin,
                                                   info.end - info.begin, sums_->finish()});
  sums_.emplace();
}

void StepSink::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    LOCKSTEP_CHECK(next_ < parts_.size(), "more bytes written than announced");
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(bytes.size(), left_));
    for (std::size_t at = 0; at < count; at += kBlockBytes) {  // while it is in the cache
      const auto block = bytes.subspan(at, std::min<std::size_t>(kBlockBytes, count - at));
      sums_->add(block);
      open_->write(block);
    }
    bytes = bytes.subspan(count);
    left_ -= count;
    if (left_ > 0) return;
    end_part();
    ++next_;
    begin_next();
  }
}

void StepSink::commit() {
  LOCKSTEP_CHECK(next_ == parts_.size(), "fewer bytes written than announced");
  close_file();
  std::sort(manifest_.tensors.begin(), manifest_.tensors.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  AtomicFile file(draft_.path() / kManifestName);
  const std::string text = write_manifest(manifest_);
  file.write(std::as_bytes(std::span(text)));
  file.commit();
  path_ = draft_.commit();
}

}  // namespace lockstep::checkpoint
