// The checksums of a piece: one for each block of it, so that a part of the piece can be verified
// without reading all.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "lockstep/checkpoint/format/running_checksum.h"

namespace lockstep::checkpoint {

inline constexpr std::uint64_t kBlockBytes = std::uint64_t{4} << 20;

/// Blocks that `byte_count` bytes make; the last one may be shorter.
[[nodiscard]] constexpr std::uint64_t block_count(std::uint64_t byte_count,
                                                  std::uint64_t block_bytes) {
  return byte_count / block_bytes + (byte_count % block_bytes > 0 ? 1 : 0);
}

/// Of bytes that come in order, in parts of any size.
class BlockSums {
 public:
  explicit BlockSums(std::uint64_t block_bytes = kBlockBytes) : block_bytes_(block_bytes) {}

  void add(std::span<const std::byte> bytes);
  /// Of all bytes so far; call it once.
  [[nodiscard]] std::vector<std::uint64_t> finish();

 private:
  void end_block();

  const std::uint64_t block_bytes_;
  std::vector<std::uint64_t> sums_;
  RunningChecksum running_{};
  std::uint64_t in_block_ = 0;  // bytes
};

}  // namespace lockstep::checkpoint
