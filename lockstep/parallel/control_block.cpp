#include "lockstep/parallel/control_block.h"

#include <cmath>
#include <tuple>

#include "lockstep/optim/flat_layout.h"
#include "lockstep/parallel/plan/control_numbers.h"

namespace lockstep::parallel {
namespace {

// An fp32 sum is exact below 2^24, so a weight travels as two digits to this base.
constexpr std::int64_t kWeightBase = 4096;
constexpr std::int64_t kNotFiniteKinds = 4;
enum Field : std::size_t {
  kLoss,
  kWeightHigh,
  kWeightLow,
  kStopVotes,
  kRestoreVotes,
  kAbandonVotes,
  kMemoryVotes,
  kMemoryRanks,  // their sum
  kMicroBatches,
  kFieldCount
};

// Times, where it was not finite, breaches.
constexpr std::size_t kPerRank = std::tuple_size_v<RankTimes> + 2;

}  // namespace

float NotFiniteAt::to_number() const {
  return static_cast<float>(index * kNotFiniteKinds + static_cast<std::int64_t>(kind));
}

NotFiniteAt NotFiniteAt::from_number(float number) {
  const std::int64_t whole = std::llround(number);
  return {static_cast<Kind>(whole % kNotFiniteKinds), whole / kNotFiniteKinds};
}

ControlBlock::ControlBlock(int ranks, std::size_t parameters, std::int64_t buffer_floats)
    : ranks_(ranks),
      times_offset_(kFieldCount),
      not_finite_offset_(times_offset_ + static_cast<std::size_t>(ranks) * RankTimes{}.size()),
      breaches_offset_(not_finite_offset_ + static_cast<std::size_t>(ranks)),
      used_offset_(breaches_offset_ + static_cast<std::size_t>(ranks)),
      buffers_offset_(used_offset_ + parameters),
      buffer_floats_(static_cast<std::size_t>(buffer_floats)) {
  static_assert(kFieldCount == kControlFields && kPerRank == kControlOfARank);
  const auto raw = static_cast<std::int64_t>(buffers_offset_ + buffer_floats_);
  size_ = (raw + optim::kPadElements - 1) / optim::kPadElements * optim::kPadElements;
}

void ControlBlock::set_loss(std::span<float> block, double loss_sum, std::int64_t weight) const {
  block[kLoss] = static_cast<float>(loss_sum);
  block[kWeightHigh] = static_cast<float>(weight / kWeightBase);
  block[kWeightLow] = static_cast<float>(weight % kWeightBase);
  block[kMicroBatches] = weight > 0 ? 1.0F : 0.0F;
}

void ControlBlock::set_control(std::span<float> block, int rank, const StepControl& control) const {
  block[kStopVotes] = static_cast<float>(control.stop_votes);
  block[kRestoreVotes] = static_cast<float>(control.restore_votes);
  block[kAbandonVotes] = static_cast<float>(control.abandon_votes);
  block[kMemoryVotes] = static_cast<float>(control.memory_votes);
  block[kMemoryRanks] = static_cast<float>(control.memory_votes * rank);
  const std::size_t begin = times_offset_ + static_cast<std::size_t>(rank) * control.times.size();
  for (std::size_t i = 0; i < control.times.size(); ++i) block[begin + i] = control.times[i];
  block[not_finite_offset_ + static_cast<std::size_t>(rank)] = control.not_finite.to_number();
  block[breaches_offset_ + static_cast<std::size_t>(rank)] = control.breach;
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
  sums.memory_votes = static_cast<int>(std::lround(block[kMemoryVotes]));
  if (sums.memory_votes == 1) sums.memory_rank = static_cast<int>(std::lround(block[kMemoryRanks]));
  sums.micro_batches = std::llround(block[kMicroBatches]);
  sums.times.resize(static_cast<std::size_t>(ranks_));
  std::size_t at = times_offset_;
  for (RankTimes& times : sums.times) {
    for (float& value : times) value = block[at++];
  }
  for (at = not_finite_offset_; at < breaches_offset_; ++at) {
    sums.not_finite.push_back(NotFiniteAt::from_number(block[at]));
  }
  return sums;
}

bool ControlBlock::used(std::span<const float> block, std::size_t parameter) const {
  return block[used_offset_ + parameter] > 0;
}

std::span<const float> ControlBlock::uses(std::span<const float> block) const {
  return block.subspan(used_offset_, buffers_offset_ - used_offset_);
}

std::span<const float> ControlBlock::breaches(std::span<const float> block) const {
  return block.subspan(breaches_offset_, static_cast<std::size_t>(ranks_));
}

std::span<float> ControlBlock::buffers(std::span<float> block) const {
  return block.subspan(buffers_offset_, buffer_floats_);
}

}  // namespace lockstep::parallel
