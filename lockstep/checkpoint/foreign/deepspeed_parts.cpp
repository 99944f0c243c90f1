#include "lockstep/checkpoint/foreign/deepspeed_parts.h"

#include <algorithm>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/foreign/misfit.h"

namespace lockstep::checkpoint {

std::uint64_t elements_of(const Shape& shape) {
  std::uint64_t elements = 1;
  for (const std::int64_t dim : shape) elements *= static_cast<std::uint64_t>(dim);
  return elements;
}

std::uint64_t JoinedTensors::file_bytes() const {
  std::uint64_t bytes = 0;
  for (const OpenTorchFile& file : files_) bytes += file.file.size_bytes();
  return bytes;
}

std::uint32_t JoinedTensors::add_whole(const OpenTorchFile& file, TensorView view) {
  wholes_.push_back({&file, std::move(view)});
  return static_cast<std::uint32_t>(wholes_.size() - 1);
}

std::uint64_t JoinedTensors::elements(std::uint32_t whole) const {
  return elements_of(wholes_[whole].view.shape);
}

void JoinedTensors::take_name(const std::string& name, std::size_t index,
                              const std::string& where) {
  if (!places_.emplace(name, index).second) throw_misfit(where, "two tensors are named " + name);
}

void JoinedTensors::add(StoredTensor tensor, std::vector<Run> runs, const std::string& where) {
  std::uint64_t elements = 0;
  for (const Run& run : runs) elements += run.count;
  LOCKSTEP_CHECK(elements == elements_of(tensor.shape), "runs that are no whole tensor");
  take_name(tensor.name, tensors_.size(), where);
  tensors_.push_back(std::move(tensor));
  runs_.push_back(std::move(runs));
}

bool JoinedTensors::add_alias(const std::string& alias, const std::string& name,
                              const std::string& where) {
  const auto found = places_.find(name);
  if (found == places_.end()) return false;
  take_name(alias, found->second, where);
  tensors_[found->second].aliases.push_back(alias);
  return true;
}

void JoinedTensors::read(std::size_t index, std::uint64_t begin, std::span<std::byte> out) const {
  LOCKSTEP_CHECK(index < tensors_.size(), "no such tensor");
  const StoredTensor& tensor = tensors_[index];
  LOCKSTEP_CHECK(begin <= tensor.bytes() && out.size() <= tensor.bytes() - begin,
                 "beyond the end of tensor " + tensor.name);
  const auto width = static_cast<std::uint64_t>(element_bits(tensor.dtype)) / 8;
  std::uint64_t run_begin = 0;  // bytes of the tensor
  for (const Run& run : runs_[index]) {
    if (out.empty()) return;
    const std::uint64_t run_bytes = run.count * width;
    if (begin < run_begin + run_bytes) {
      const std::uint64_t skipped = begin - run_begin;
      const std::size_t part = std::min<std::uint64_t>(out.size(), run_bytes - skipped);
      const Whole& whole = wholes_[run.whole];
      whole.file->archive.read(whole.view, run.begin * width + skipped, out.first(part));
      out = out.subspan(part);
      begin += part;
    }
    run_begin += run_bytes;
  }
}

}  // namespace lockstep::checkpoint
