#include "lockstep/checkpoint/tools/tensor_stats.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>

#include "lockstep/checkpoint/tools/chunks.h"
#include "lockstep/checkpoint/tools/elements.h"
#include "lockstep/checkpoint/tools/stats_kernel.h"

namespace lockstep::checkpoint {
namespace {

// Whole elements of every width, and whole blocks of our own format, which are verified as such.
constexpr std::uint64_t kChunkBytes = 4U << 20;
constexpr std::size_t kSideBuckets = 15;
constexpr int kBias = 1023;

/// The lower end of the values with this exponent field.
double power_of(std::size_t field) {
  const double power = std::ldexp(1.0, static_cast<int>(field) - kBias);
  return std::min(power, std::numeric_limits<double>::max());
}

/// The highest exponent field that occurs; 0 when there is none above the zeros.
std::size_t highest_field(const Tallies& tallies) {
  std::size_t field = tallies.positive.size() - 1;
  while (field > 0 && tallies.positive[field] + tallies.negative[field] == 0) --field;
  return field;
}

std::uint64_t sum_of(const Tallies::Exponents& counts, std::size_t first, std::size_t end) {
  std::uint64_t sum = 0;
  for (std::size_t field = first; field < end; ++field) sum += counts[field];
  return sum;
}

std::vector<HistogramBucket> histogram_of(const Tallies& t) {
  const std::uint64_t finite = t.elements - t.nans - t.infinities;
  const std::size_t highest = highest_field(t);
  if (finite == 0) return {};
  if (highest == 0) return {{t.min, t.max, finite}};
  const std::size_t lowest = highest >= kSideBuckets ? highest - kSideBuckets + 1 : 1;
  const bool has_negative = t.min < 0;
  const bool has_positive = t.max > 0;
  std::vector<HistogramBucket> buckets;
  for (std::size_t field = highest; has_negative && field >= lowest; --field) {
    buckets.push_back({-power_of(field + 1), -power_of(field), t.negative[field]});
  }
  buckets.push_back({has_negative ? -power_of(lowest) : 0, has_positive ? power_of(lowest) : 0,
                     sum_of(t.negative, 0, lowest) + sum_of(t.positive, 0, lowest)});
  for (std::size_t field = lowest; has_positive && field <= highest; ++field) {
    buckets.push_back({power_of(field), power_of(field + 1), t.positive[field]});
  }
  return buckets;
}

TensorStats finish(const Tallies& tallies, const Moments& moments) {
  TensorStats stats;
  stats.elements = tallies.elements;
  stats.nans = tallies.nans;
  stats.infinities = tallies.infinities;
  stats.zeros = tallies.zeros;
  stats.min = stats.max = stats.mean = stats.std = std::numeric_limits<double>::quiet_NaN();
  if (moments.count > 0) {
    stats.min = tallies.min;
    stats.max = tallies.max;
    stats.mean = static_cast<double>(moments.mean);
    stats.std =
        static_cast<double>(std::sqrt(moments.squares / static_cast<long double>(moments.count)));
  }
  stats.histogram = histogram_of(tallies);
  return stats;
}

/// What one thread needs.
struct Worker {
  std::vector<std::byte> bytes;
  Tallies tallies;
};

template <typename Read>
TensorStats stats_of_chunks(ElementKind kind, std::uint64_t bytes, int threads, const Read& read) {
  const std::uint64_t chunks = (bytes + kChunkBytes - 1) / kChunkBytes;
  std::vector<Moments> moments(chunks);  // merged in their order whoever makes them
  std::vector<std::unique_ptr<Worker>> workers;
  for (int i = 0; i < workers_of(chunks, threads); ++i) {
    workers.push_back(std::make_unique<Worker>());
  }
  for_each_chunk(chunks, threads, [&](int number, std::uint64_t chunk) {
    Worker& worker = *workers[static_cast<std::size_t>(number)];
    const std::uint64_t begin = chunk * kChunkBytes;
    const std::uint64_t length = std::min(kChunkBytes, bytes - begin);
    gather(kind, read(worker.bytes, begin, length), worker.tallies, moments[chunk]);
  });
  for (std::size_t i = 1; i < workers.size(); ++i) workers[0]->tallies.merge(workers[i]->tallies);
  Moments all;
  for (const Moments& part : moments) all.merge(part);
  return finish(workers[0]->tallies, all);
}

}  // namespace

std::optional<TensorStats> tensor_stats(const TensorSource& source, std::size_t index,
                                        int threads) {
  const StoredTensor& tensor = source.tensors()[index];
  const auto kind = element_kind(tensor.dtype);
  if (!kind) return std::nullopt;
  return stats_of_chunks(
      *kind, tensor.bytes(), threads,
      [&](std::vector<std::byte>& buffer, std::uint64_t begin, std::uint64_t length) {
        buffer.resize(length);
        source.read(index, begin, buffer);
        return std::span<const std::byte>(buffer);
      });
}

std::optional<TensorStats> stats_of(std::string_view dtype, std::span<const std::byte> bytes) {
  const auto kind = element_kind(dtype);
  if (!kind) return std::nullopt;
  return stats_of_chunks(*kind, bytes.size(), 1,
                         [&](std::vector<std::byte>&, std::uint64_t begin, std::uint64_t length) {
                           return bytes.subspan(begin, length);
                         });
}

std::string sparkline(const TensorStats& stats, bool utf8) {
  constexpr std::array<const char*, 8> kBlocks{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  constexpr std::array<const char*, 8> kAscii{"_", ".", ",", "-", "~", "=", "*", "#"};
  std::uint64_t most = 1;
  for (const HistogramBucket& bucket : stats.histogram) most = std::max(most, bucket.count);
  std::string line;
  for (const HistogramBucket& bucket : stats.histogram) {
    if (bucket.count == 0) {
      line += ' ';
      continue;
    }
    const double share = static_cast<double>(bucket.count) / static_cast<double>(most);
    const auto level = static_cast<std::size_t>(std::lround(share * 7));
    line += utf8 ? kBlocks.at(level) : kAscii.at(level);
  }
  return line;
}

}  // namespace lockstep::checkpoint
