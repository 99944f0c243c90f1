#include "lockstep/comm/shm/standard_layout.h"

#include <algorithm>

namespace lockstep::comm::shm {
namespace {

constexpr std::size_t kLargestPieceBytes = std::size_t{32} << 10;
constexpr std::size_t kRingBytes = std::size_t{1} << 20;
constexpr std::size_t kStepsAtLeast = 4;

}  // namespace

Layout standard_layout(int ranks) {
  const std::size_t others = std::max<std::size_t>(1, static_cast<std::size_t>(ranks - 1));
  // With many ranks pieces shrink, so that memory grows with their number and not its square.
  const std::size_t share = kRingBytes / (kStepsAtLeast * others) / kPage * kPage;
  const std::size_t piece = std::clamp(share, kPage, kLargestPieceBytes);
  return {ranks, std::max(kRingBytes, kStepsAtLeast * others * piece), piece};
}

}  // namespace lockstep::comm::shm
