#include "lockstep/checkpoint/format/tensor_file.h"

#include <algorithm>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/format/block_sums.h"

namespace lockstep::checkpoint {

TensorFile::TensorFile(const std::filesystem::path& path, std::vector<TensorInfo> tensors,
                       const std::map<std::string, std::string>& metadata)
    : name_(path.filename().string()), tensors_(lay_out(std::move(tensors))), file_(path) {
  const std::string header = write_safetensors_header(tensors_, metadata);
  file_.write(std::as_bytes(std::span(header)));
  data_start_ = header.size();
}

Piece TensorFile::write(std::span<const std::byte> bytes) {
  LOCKSTEP_CHECK(next_ < tensors_.size(), "more tensors written than announced");
  const TensorInfo& tensor = tensors_[next_++];
  LOCKSTEP_CHECK(bytes.size() == tensor.end - tensor.begin, "wrong size of " + tensor.name);
  BlockSums sums;
  for (std::size_t at = 0; at < bytes.size(); at += kBlockBytes) {  // while it is in the cache
    const auto block = bytes.subspan(at, std::min<std::size_t>(kBlockBytes, bytes.size() - at));
    sums.add(block);
    file_.write(block);
  }
  return {name_,        Shape(tensor.shape.size(), 0),
          tensor.shape, data_start_ + tensor.begin,
          bytes.size(), sums.finish()};
}

std::uint64_t TensorFile::commit() {
  LOCKSTEP_CHECK(next_ == tensors_.size(), "fewer tensors written than announced");
  file_.commit();
  return data_start_ + (tensors_.empty() ? 0 : tensors_.back().end);
}

}  // namespace lockstep::checkpoint
