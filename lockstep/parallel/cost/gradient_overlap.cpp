#include "lockstep/parallel/cost/gradient_overlap.h"

#include <algorithm>
#include <cmath>

namespace lockstep::parallel {

std::vector<std::vector<GradientPart>> cut_by_time(const std::vector<GradientPart>& parts,
                                                   int pieces) {
  if (pieces <= 1) return {parts};
  double all = 0;
  for (const GradientPart& part : parts) all += static_cast<double>(part.count) * part.seconds;
  const double each = all / pieces;
  std::vector<std::vector<GradientPart>> cut(static_cast<std::size_t>(pieces));
  std::size_t piece = 0;
  double room = each;
  for (const GradientPart& part : parts) {
    GradientPart whole{1, static_cast<double>(part.count) * part.seconds,
                       static_cast<double>(part.count) * part.bytes};
    while (whole.seconds > room && piece + 1 < cut.size()) {
      const double share = room / whole.seconds;
      cut[piece].push_back({1, room, share * whole.bytes});
      whole.bytes -= share * whole.bytes;
      whole.seconds -= room;
      room = each;
      ++piece;
    }
    cut[piece].push_back(whole);
    room -= whole.seconds;
  }
  return cut;
}

void BucketQueue::add(const GradientPart& part) {
  const auto blocks = static_cast<double>(part.count);
  const double seconds = blocks * part.seconds;
  const double bytes = blocks * part.bytes;
  const double size = bucket_bytes_ > 0 ? bucket_bytes_ : part.bytes;
  const double have = waiting_bytes_ + bytes;
  const double full = bucket_bytes_ > 0 ? std::floor(have / size) : blocks;
  if (!(bytes > 0) || full < 1) {
    waiting_bytes_ = have;
    clock_s_ += seconds;
    return;
  }
  const double a_byte = seconds / bytes;
  exchange(clock_s_ + (size - waiting_bytes_) * a_byte, size * a_byte,
           static_cast<std::int64_t>(full), size);
  waiting_bytes_ = bucket_bytes_ > 0 ? std::max(0.0, have - full * size) : 0;
  clock_s_ += seconds;
}

void BucketQueue::flush() {
  if (waiting_bytes_ > 0) exchange(clock_s_, 0, 1, waiting_bytes_);
  waiting_bytes_ = 0;
}

/// Times at which buckets are ready grow evenly, so the last one ends as if the queue had been busy
/// from before, from the first bucket on, or not before the last: whichever is latest.
void BucketQueue::exchange(double first_ready_s, double every_s, std::int64_t count, double bytes) {
  const double each = price_.seconds(bytes);
  const auto all = static_cast<double>(count);
  busy_s_ += all * each;
  for (std::int64_t i = 0; list_ != nullptr && i < count; ++i) {
    const double begin = std::max(first_ready_s + static_cast<double>(i) * every_s, end_s_);
    end_s_ = begin + each;
    list_->push_back({begin, end_s_, bytes});
  }
  if (list_ != nullptr) return;
  end_s_ = std::max(std::max(end_s_, first_ready_s) + all * each,
                    first_ready_s + (all - 1) * every_s + each);
}

}  // namespace lockstep::parallel
