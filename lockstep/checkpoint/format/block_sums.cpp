#include "lockstep/checkpoint/format/block_sums.h"

#include <algorithm>
#include <utility>

#include "lockstep/checkpoint/format/checksum.h"

namespace lockstep::checkpoint {

void BlockSums::add(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto part =
        static_cast<std::size_t>(std::min<std::uint64_t>(bytes.size(), block_bytes_ - in_block_));
    if (in_block_ == 0 && part == block_bytes_) {
      sums_.push_back(checksum(bytes.first(part)));
    } else {
      running_.add(bytes.first(part));
      in_block_ += part;
      if (in_block_ == block_bytes_) end_block();
    }
    bytes = bytes.subspan(part);
  }
}

std::vector<std::uint64_t> BlockSums::finish() {
  if (in_block_ > 0) end_block();
  return std::move(sums_);
}

void BlockSums::end_block() {
  sums_.push_back(running_.value());
  running_ = RunningChecksum();
  in_block_ = 0;
}

}  // namespace lockstep::checkpoint
