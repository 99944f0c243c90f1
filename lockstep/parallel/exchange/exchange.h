// How the gradients of a bucket are summed over the ranks: plain, in fewer bits, or compressed.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/comm/group.h"

namespace lockstep::parallel {

/// Consecutive elements of a bucket that are a matrix, row after row.
struct BucketMatrix {
  std::int64_t offset = 0;  // elements from the start of the bucket
  std::int64_t rows = 0;
  std::int64_t columns = 0;
};

/// What lies in a bucket. All else than its matrices are vectors and control numbers.
struct BucketContent {
  std::string name;        // "bucket 4: layer3.0.conv1.weight .. layer3.1.bn2.bias"
  std::int64_t count = 0;  // elements
  std::vector<BucketMatrix> matrices;
  bool has_control = false;  // the last bucket: control numbers, which need fp32, at its end
};

struct ExchangeSetting {
  comm::Group& group;  // outlives the exchange; more than one rank
  comm::Order order = comm::Order::any;
  /// A power of two about the samples or tokens of the global batch, which gradients are summed
  /// over: what travels in fp16 is divided by it.
  double weight = 1;
  std::int64_t powersgd_rank = 4;
  std::int64_t powersgd_from = 0;  // updates made before; earlier steps are exchanged whole
  std::uint64_t seed = 0;          // of the first matrices of PowerSGD; equal on all ranks
};

/// Sums buckets in place over all ranks of the group; a bucket is an fp32 array that nobody else
/// touches between start() and finish(). Errors are those of comm::Group.
class Exchange {
 public:
  virtual ~Exchange() = default;
  /// Collective. Before the first step, and whenever buckets have changed.
  virtual void adopt(const std::vector<BucketContent>& buckets) = 0;
  /// \param updates made before this step; the same on all ranks.
  virtual void begin_step(std::int64_t /*updates*/) {}
  /// Collective, in the order of the buckets. When it throws for want of memory the bucket's
  /// collective was not entered: it may be called again, and must be, or the others wait. What the
  /// bucket holds then means nothing, so the step must be dropped.
  virtual void start(std::size_t bucket, const at::Tensor& gradients) = 0;
  /// Collective, in the order of the buckets, after all were started: the bucket holds its sum.
  /// \returns when the last collective of it ended: comm::Work::ended_ns().
  virtual std::int64_t finish(std::size_t bucket) = 0;
  /// The first bucket of the step whose sum left the range of the type that it travelled in, where
  /// that is less than fp32's. The same on all ranks. After all were finished.
  [[nodiscard]] virtual std::optional<std::size_t> overflown() const { return std::nullopt; }
  /// The step just finished does not count, on any rank: nothing of it is carried on.
  virtual void drop_step() {}
};

}  // namespace lockstep::parallel
