#include "lockstep/parallel/control_block.h"

#include <cmath>

#include "lockstep/optim/flat_layout.h"

namespace lockstep::parallel {
namespace {

// An fp32 sum is exact below 2^24, so a weight travels as two digits to this base.
constexpr std::int64_t kWeightBase = 4096;
enum Field : std::size_t {
  kLoss,
  kWeightHigh,
  kWeightLow,
  kStopVotes,
  kRestoreVotes,
  kAbandonVotes,
  kFieldCount
};

}  // namespace

ControlBlock::ControlBlock(int ranks, std::size_t parameters, std::int64_t buffer_floats)
    : ranks_(ranks),
      times_offset_(kFieldCount),
      used_offset_(times_offset_ + static_cast<std::size_t>(ranks) * RankTimes{}.size()),
      buffers_offset_(used_offset_ + parameters),
      buffer_floats_(static_cast<std::size_t>(buffer_floats)) {
  const auto raw = static_cast<std::int64_t>(buffers_offset_ + buffer_floats_);
  size_ = (raw + optim::kPadElements - 1) / optim::kPadElements * optim::kPadElements;
}

void ControlBlock::set_loss(std::span<float> block, double loss_sum, std::int64_t weight) const {
  block[kLoss] = static_cast<float>(loss_sum);
  block[kWeightHigh] = static_cast<float>(weight / kWeightBase);
  block[kWeightLow] = static_cast<float>(weight % kWeightBase);
}

void ControlBlock::set_control(std::span<float> block, int rank, const StepControl& control) const {
  block[kStopVotes] = static_cast<float>(control.stop_votes);
  block[kRestoreVotes] = static_cast<float>(control.restore_votes);
  block[kAbandonVotes] = static_cast<float>(control.abandon_votes);
  const std::size_t begin = times_offset_ + static_cast<std::size_t>(rank) * control.times.size();
  for (std::size_t i = 0; i < control.times.size(); ++i) block[begin + i] = control.times[i];
}

void ControlBlock::set_used(std::span<float> block, std::size_t parameter, bool used) const {
  block[used_offset_ + parameter] = used ? 1.0F : 0.0F;
}

StepSums ControlBlock::sums(std::span<const float> block) const {
  StepSums sums;
  sums.loss_sum = block[kLoss];
  sums.weight = std::llround(block[kWeightHigh]) * kWeightBase + std::llround(block[kWeightLow]);
  sums.stop_votes = static_cast<int>(std::lround(block[kStopVotes]));
  sums.restore_votes = static_cast<int>(std::lround(block[kRestoreVotes]));
  sums.abandon_votes = static_cast<int>(std::lround(block[kAbandonVotes]));
  sums.times.resize(static_cast<std::size_t>(ranks_));
  std::size_t at = times_offset_;
  for (RankTimes& times : sums.times) {
    for (float& value : times) value = block[at++];
  }
  return sums;
}

bool ControlBlock::used(std::span<const float> block, std::size_t parameter) const {
  return block[used_offset_ + parameter] > 0;
}

std::span<float> ControlBlock::buffers(std::span<float> block) const {
  return block.subspan(buffers_offset_, buffer_floats_);
}

}  // namespace lockstep::parallel
