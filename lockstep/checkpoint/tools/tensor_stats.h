// What the values of a tensor look like, from one pass over its bytes.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/checkpoint/format/tensor_source.h"

namespace lockstep::checkpoint {

struct HistogramBucket {
  double low = 0;
  double high = 0;
  std::uint64_t count = 0;
};

struct TensorStats {
  std::uint64_t elements = 0;
  std::uint64_t nans = 0;
  std::uint64_t infinities = 0;  // of both signs
  std::uint64_t zeros = 0;       // of both signs
  // Of the finite elements; NaN when there is none.
  double min = 0;
  double max = 0;
  double mean = 0;
  double std = 0;  // of the population: divided by their number
  /// All finite elements, ascending: each power of two a bucket, of both signs 15 up to the highest
  /// that occurs; what is nearer to zero is the bucket in the middle. 31 buckets; 16 when none is
  /// below zero, or none above; 1 when all are zero or subnormal; none when none is finite.
  std::vector<HistogramBucket> histogram;
};

/// The same numbers for any number of threads; 64-bit integers count as the nearest double. Takes
/// 4 MiB of memory a thread. \returns nothing when the elements are no numbers of whole bytes
/// (complex, F4, F6). \throws as TensorSource::read().
[[nodiscard]] std::optional<TensorStats> tensor_stats(const TensorSource& source, std::size_t index,
                                                      int threads = 2);

/// Of elements in memory.
[[nodiscard]] std::optional<TensorStats> stats_of(std::string_view dtype,
                                                  std::span<const std::byte> bytes);

/// The histogram as one character a bucket, its height the count: "  ▂▅█▅▂  ". A blank is an empty
/// bucket.
[[nodiscard]] std::string sparkline(const TensorStats& stats, bool utf8);

}  // namespace lockstep::checkpoint
