// The data ranks' exchange of gradients beside backward, bucket by bucket: gradients become ready
// in backward's order, and a bucket starts when its last one is there and the bucket before it has
// ended (Li et al. 2020, arXiv:2006.15704, section 3.2.3).
#pragma once
#include <cstdint>
#include <vector>

#include "lockstep/parallel/cost/collective_time.h"

namespace lockstep::parallel {

/// What one collective over the data ranks costs.
struct ExchangePrice {
  Collective collective = Collective::all_reduce;
  Group group{};
  const Machine* machine = nullptr;  // outlives this
  Algorithm algorithm = Algorithm::best;
  [[nodiscard]] double seconds(double bytes) const {
    return machine == nullptr ? 0 : collective_time(collective, bytes, group, *machine, algorithm);
  }
};

/// Equal blocks, one after the other in backward; gradients become ready evenly while they last.
struct GradientPart {
  std::int64_t count = 1;
  double seconds = 0;  // of one block
  double bytes = 0;
};

/// The same parts cut into `pieces` of equal time.
[[nodiscard]] std::vector<std::vector<GradientPart>> cut_by_time(
    const std::vector<GradientPart>& parts, int pieces);

struct Bucket {
  double begin_s = 0;
  double end_s = 0;
  double bytes = 0;
};

class BucketQueue {
 public:
  /// \param bucket_bytes 0 = each block is one. \param list gets every bucket; null = only the end
  /// is asked for, which then takes no longer for many.
  BucketQueue(const ExchangePrice& price, double bucket_bytes, std::vector<Bucket>* list = nullptr)
      : price_(price), bucket_bytes_(bucket_bytes), list_(list) {}

  /// Backward goes on at that time, or now if that is later.
  void wait_until(double clock_s) { clock_s_ = clock_s > clock_s_ ? clock_s : clock_s_; }
  void add(const GradientPart& part);
  /// What waits in a bucket that is not full is exchanged too.
  void flush();

  [[nodiscard]] double clock_s() const { return clock_s_; }
  [[nodiscard]] double end_s() const { return end_s_; }    // of the last bucket
  [[nodiscard]] double busy_s() const { return busy_s_; }  // of all buckets
  /// What nothing hides: from the end of backward to that of the last bucket.
  [[nodiscard]] double exposed_s() const { return end_s_ > clock_s_ ? end_s_ - clock_s_ : 0; }

 private:
  void exchange(double first_ready_s, double every_s, std::int64_t count, double bytes);

  ExchangePrice price_;
  double bucket_bytes_;
  std::vector<Bucket>* list_;
  double waiting_bytes_ = 0;
  double clock_s_ = 0;
  double end_s_ = 0;
  double busy_s_ = 0;
};

}  // namespace lockstep::parallel
