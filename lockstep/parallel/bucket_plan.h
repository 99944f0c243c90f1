// Which gradients travel together: the order and the cuts of the buckets. Pure arithmetic.
#pragma once
#include <cstdint>
#include <vector>

namespace lockstep::parallel {

/// Bytes of fp32 gradients per bucket. A bucket closes once it reaches its size.
struct BucketSizes {
  std::int64_t first_bytes = 1 << 20;  // small: the first reduction starts early in backward
  std::int64_t cap_bytes = 25 << 20;
  std::int64_t last_bytes = 2 << 20;  // small: little is left to wait for after backward
};

/// A gradient's place in the flat gradient buffer.
struct GradientSlot {
  std::size_t parameter = 0;  // index into the parameter list
  std::int64_t offset = 0;    // elements from the start of the flat gradient buffer
  std::int64_t count = 0;     // elements
};

struct BucketRange {
  std::size_t first_slot = 0;  // slots [first_slot, first_slot + slots)
  std::size_t slots = 0;
  std::int64_t offset = 0;  // elements; of the bucket in the flat gradient buffer
  std::int64_t count = 0;   // elements, padding included
};

/// Slots in the order gradients become ready; buckets are consecutive runs of slots.
struct BucketPlan {
  std::vector<GradientSlot> slots;
  std::vector<BucketRange> buckets;  // at least one, also without parameters
  std::int64_t total = 0;            // elements, padding included, control block not
};

/// \param counts elements of each parameter; \param ready_order indices into counts, each once.
/// Method: Li et al. 2020, PyTorch Distributed (section 3.2.3), with a small first and last bucket.
[[nodiscard]] BucketPlan plan_buckets(const std::vector<std::int64_t>& counts,
                                      const std::vector<std::size_t>& ready_order,
                                      const BucketSizes& sizes);

}  // namespace lockstep::parallel
