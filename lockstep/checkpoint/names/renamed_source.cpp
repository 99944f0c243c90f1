#include "lockstep/checkpoint/names/renamed_source.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/names/turn.h"

namespace lockstep::checkpoint {
namespace {

std::size_t element_bytes(const StoredTensor& tensor) {
  return static_cast<std::size_t>(element_bits(tensor.dtype)) / 8;
}

void check_part(const TensorSource& source, const Part& part) {
  LOCKSTEP_CHECK(part.source < source.tensors().size(), "a part of no tensor");
  const StoredTensor& tensor = source.tensors()[part.source];
  const std::uint64_t whole = tensor.bytes();
  LOCKSTEP_CHECK(part.begin <= whole && part.bytes <= whole - part.begin,
                 "a part outside its tensor");
  if (part.turned_columns == 0) return;
  const std::size_t element = element_bytes(tensor);
  const bool has_rows = element > 0 && part.turned_columns > 0 &&
                        part.bytes % static_cast<std::uint64_t>(part.turned_columns) == 0 &&
                        part.bytes / static_cast<std::uint64_t>(part.turned_columns) % element == 0;
  LOCKSTEP_CHECK(has_rows, "a turned part that is no matrix");
}

void check_view(const TensorSource& source, const NamedView& view) {
  std::uint64_t bytes = 0;
  for (const Part& part : view.parts) {
    check_part(source, part);
    bytes += part.bytes;
  }
  LOCKSTEP_CHECK(view.parts.empty() || bytes == view.tensor.bytes(),
                 "parts that do not make a tensor");
}

}  // namespace

RenamedSource::RenamedSource(std::unique_ptr<const TensorSource> source, Renaming renaming)
    : source_(std::move(source)),
      skipped_(source_->skipped().begin(), source_->skipped().end()),
      notes_(std::move(renaming.notes)) {
  for (NamedView& view : renaming.views) {
    check_view(*source_, view);
    tensors_.push_back(std::move(view.tensor));
    parts_.push_back(std::move(view.parts));
  }
  std::move(renaming.left_out.begin(), renaming.left_out.end(), std::back_inserter(skipped_));
}

void RenamedSource::read(std::size_t index, std::uint64_t begin, std::span<std::byte> out) const {
  const std::vector<Part>& parts = parts_.at(index);
  if (parts.empty()) std::fill(out.begin(), out.end(), std::byte{0});
  for (const Part& part : parts) {
    if (out.empty()) return;
    if (begin >= part.bytes) {
      begin -= part.bytes;
      continue;
    }
    const std::uint64_t count = std::min<std::uint64_t>(out.size(), part.bytes - begin);
    read_part(part, begin, out.first(count));
    out = out.subspan(count);
    begin = 0;
  }
}

void RenamedSource::read_part(const Part& part, std::uint64_t begin,
                              std::span<std::byte> out) const {
  if (part.turned_columns > 0) {
    read_turned(part, begin, out);
  } else {
    source_->read(part.source, part.begin + begin, out);
  }
}

void RenamedSource::read_turned(const Part& part, std::uint64_t begin,
                                std::span<std::byte> out) const {
  const std::lock_guard lock(mutex_);
  if (held_ != &part) {
    held_ = nullptr;
    turned_ = {};  // before the next one is made
    turned_ = read_turned_matrix(*source_, part, element_bytes(source_->tensors()[part.source]));
    held_ = &part;
  }
  std::memcpy(out.data(), &turned_[begin], out.size());
  if (begin + out.size() < part.bytes) return;
  held_ = nullptr;
  turned_ = {};
}

}  // namespace lockstep::checkpoint
