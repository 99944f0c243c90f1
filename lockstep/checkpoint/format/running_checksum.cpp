#include "lockstep/checkpoint/format/running_checksum.h"

#include <algorithm>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace lockstep::checkpoint {

struct RunningChecksum::State {
  XXH3_state_t xxh3;
};

void RunningChecksum::Delete::operator()(State* state) const { delete state; }

RunningChecksum::RunningChecksum() : state_(new State) { XXH3_64bits_reset(&state_->xxh3); }

void RunningChecksum::add(std::span<const std::byte> bytes) {
  if (!bytes.empty()) XXH3_64bits_update(&state_->xxh3, bytes.data(), bytes.size());
}

std::uint64_t RunningChecksum::value() const { return XXH3_64bits_digest(&state_->xxh3); }

std::uint64_t checksum_of_range(const InputFile& file, std::uint64_t offset,
                                std::uint64_t byte_count) {
  constexpr std::uint64_t kPartBytes = 1U << 20;
  std::vector<std::byte> part(std::min(byte_count, kPartBytes));
  RunningChecksum sum;
  while (byte_count > 0) {
    const auto bytes = std::span(part).first(std::min(byte_count, kPartBytes));
    file.read(offset, bytes);
    sum.add(bytes);
    offset += bytes.size();
    byte_count -= bytes.size();
  }
  return sum.value();
}

}  // namespace lockstep::checkpoint
