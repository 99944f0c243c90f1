#include "lockstep/checkpoint/foreign/torch_file.h"

#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/foreign/torch_walk.h"

namespace lockstep::checkpoint {

TorchFileSource::TorchFileSource(const std::filesystem::path& path, const PickleGlobals& more)
    : file_(path), archive_(file_, more) {
  TorchContents contents = walk_torch_archive(archive_);
  tensors_ = std::move(contents.tensors);
  views_ = std::move(contents.views);
  skipped_ = std::move(contents.skipped);
  facts_ = std::move(contents.facts);
}

void TorchFileSource::read(std::size_t index, std::uint64_t begin, std::span<std::byte> out) const {
  LOCKSTEP_CHECK(index < views_.size(), "no such tensor");
  archive_.read(views_[index], begin, out);
}

}  // namespace lockstep::checkpoint
