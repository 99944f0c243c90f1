#include "lockstep/checkpoint/tools/stats_kernel.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "lockstep/base/error.h"

namespace lockstep::checkpoint {
namespace {

constexpr std::size_t kBlock = 4096;  // elements
constexpr int kDoubleBias = 1023;

template <typename Value>
struct Format;
template <>
struct Format<float> {
  using Bits = std::uint32_t;
  static constexpr unsigned kExponentShift = 23;
  static constexpr std::size_t kFields = 256;  // of the exponent
  static constexpr int kBias = 127;
};
template <>
struct Format<double> {
  using Bits = std::uint64_t;
  static constexpr unsigned kExponentShift = 52;
  static constexpr std::size_t kFields = 2048;
  static constexpr int kBias = kDoubleBias;
};

/// Of a block without NaN and infinity; sums are of distances from a pivot.
struct BlockSums {
  double sum = 0;
  double squares = 0;
  double min = 0;
  double max = 0;
  std::uint64_t zeros = 0;
};

/// In vectors of four, two at a time so that sums do not wait for each other. Inlined into the
/// entry point of an instruction set to be compiled for it; the sums are the same for all.
template <typename Value>
[[gnu::always_inline]] inline BlockSums sums_any(const Value* values, std::size_t count) {
  typedef Value Four __attribute__((vector_size(4 * sizeof(Value))));
  typedef double Wide __attribute__((vector_size(4 * sizeof(double))));
  const double pivot = values[0];
  Wide sum[2] = {};
  Wide squares[2] = {};
  Four low = Four{} + values[0];
  Four high = low;
  decltype(low == high) zeros = {};
  std::size_t at = 0;
  for (; at + 8 <= count; at += 8) {
    Four four[2];
    std::memcpy(four, values + at, sizeof four);
    for (int i = 0; i < 2; ++i) {
      const Wide distance = __builtin_convertvector(four[i], Wide) - pivot;
      sum[i] += distance;
      squares[i] += distance * distance;
      low = four[i] < low ? four[i] : low;
      high = four[i] > high ? four[i] : high;
      zeros -= four[i] == Four{};
    }
  }
  sum[0] += sum[1];
  squares[0] += squares[1];
  BlockSums total{0, 0, low[0], high[0], 0};
  for (int i = 0; i < 4; ++i) {
    total.sum += sum[0][i];
    total.squares += squares[0][i];
    total.min = std::min<double>(total.min, low[i]);
    total.max = std::max<double>(total.max, high[i]);
    total.zeros += static_cast<std::uint64_t>(zeros[i]);
  }
  for (; at < count; ++at) {
    const double distance = values[at] - pivot;
    total.sum += distance;
    total.squares += distance * distance;
    total.min = std::min<double>(total.min, values[at]);
    total.max = std::max<double>(total.max, values[at]);
    total.zeros += values[at] == 0 ? 1U : 0U;
  }
  return total;
}

template <typename Value>
BlockSums sums_portable(const Value* values, std::size_t count) {
  return sums_any(values, count);
}

#if defined(__x86_64__)
template <typename Value>
[[gnu::target("avx2")]] BlockSums sums_avx2(const Value* values, std::size_t count) {
  return sums_any(values, count);
}
#endif

template <typename Value>
BlockSums sums(const Value* values, std::size_t count) {
#if defined(__x86_64__)
  static const bool has_avx2 = __builtin_cpu_supports("avx2") != 0;
  if (has_avx2) return sums_avx2(values, count);
#endif
  return sums_portable(values, count);
}

/// Adds a chunk block by block.
template <typename Value>
class Gatherer {
 public:
  Gatherer(Tallies& tallies, Moments& moments) : tallies_(tallies), moments_(moments) {}

  /// At most kBlock values.
  void add(std::span<const Value> block) {
    const std::uint64_t before = not_finite();
    count_exponents(block);
    tallies_.elements += block.size();
    if (not_finite() != before || !add_finite(block)) add_slowly(block);
  }

  void finish() {
    using F = Format<Value>;
    for (std::size_t field = 0; field + 1 < F::kFields; ++field) {  // the last is no number
      const std::size_t slot =
          field == 0 ? 0 : field + static_cast<std::size_t>(kDoubleBias - F::kBias);
      for (const auto& table : counts_) {
        tallies_.positive[slot] += table[field];
        tallies_.negative[slot] += table[F::kFields + field];
      }
    }
  }

 private:
  // One value often has the exponent of the one before: several tables keep their additions from
  // waiting for each other.
  static constexpr std::size_t kTables = 4;

  void count_exponents(std::span<const Value> block) {
    using F = Format<Value>;
    const auto slot = [](Value value) {
      return std::bit_cast<typename F::Bits>(value) >> F::kExponentShift;
    };
    std::size_t at = 0;
    for (; at + kTables <= block.size(); at += kTables) {
      for (std::size_t i = 0; i < kTables; ++i) ++counts_[i][slot(block[at + i])];
    }
    for (; at < block.size(); ++at) ++counts_[0][slot(block[at])];
  }

  [[nodiscard]] std::uint64_t not_finite() const {
    std::uint64_t count = 0;
    for (const auto& table : counts_) {
      count += table[Format<Value>::kFields - 1] + table[2 * Format<Value>::kFields - 1];
    }
    return count;
  }

  /// \returns false when squares are too large for a double, or so small that they lose digits.
  bool add_finite(std::span<const Value> block) {
    const BlockSums block_sums = sums(block.data(), block.size());
    constexpr double kLeastSquares = 1e-280;
    const bool is_constant = block_sums.min == block_sums.max;
    if (!std::isfinite(block_sums.squares)) return false;
    if (block_sums.squares < kLeastSquares && !is_constant) return false;
    const auto count = static_cast<double>(block.size());
    const double mean = block_sums.sum / count;
    moments_.merge({block.size(), static_cast<long double>(block[0]) + mean,
                    std::max(block_sums.squares - block_sums.sum * mean, 0.0)});
    tallies_.min = std::min(tallies_.min, block_sums.min);
    tallies_.max = std::max(tallies_.max, block_sums.max);
    tallies_.zeros += block_sums.zeros;
    return true;
  }

  void add_slowly(std::span<const Value> block) {
    Moments finite;
    long double sum = 0;
    for (const Value value : block) {
      tallies_.nans += std::isnan(value) ? 1U : 0U;
      tallies_.infinities += std::isinf(value) ? 1U : 0U;
      if (!std::isfinite(value)) continue;
      tallies_.zeros += value == 0 ? 1U : 0U;
      tallies_.min = std::min<double>(tallies_.min, value);
      tallies_.max = std::max<double>(tallies_.max, value);
      sum += value;
      ++finite.count;
    }
    if (finite.count == 0) return;
    finite.mean = sum / static_cast<long double>(finite.count);
    for (const Value value : block) {
      const long double distance = value - finite.mean;
      if (std::isfinite(value)) finite.squares += distance * distance;
    }
    moments_.merge(finite);
  }

  Tallies& tallies_;
  Moments& moments_;
  std::array<std::array<std::uint32_t, 2 * Format<Value>::kFields>, kTables> counts_{};
};

template <typename Value>
void gather_blocks(ElementKind kind, std::span<const std::byte> bytes, Tallies& tallies,
                   Moments& moments) {
  Gatherer<Value> gatherer(tallies, moments);
  std::array<Value, kBlock> values;
  const std::size_t width = element_bytes(kind);
  while (!bytes.empty()) {
    const std::size_t count = std::min(kBlock, bytes.size() / width);
    const auto block = std::span(values).first(count);
    if constexpr (std::is_same_v<Value, float>) {
      to_floats(kind, bytes.first(count * width), block);
    } else {
      to_doubles(kind, bytes.first(count * width), block);
    }
    gatherer.add(block);
    bytes = bytes.subspan(count * width);
  }
  gatherer.finish();
}

using ByteCounts = std::array<std::uint64_t, 256>;

ByteCounts count_bytes(std::span<const std::byte> bytes) {
  constexpr std::size_t kTables = 4;
  std::array<std::array<std::uint32_t, 256>, kTables> tables{};
  std::size_t at = 0;
  for (; at + kTables <= bytes.size(); at += kTables) {
    for (std::size_t i = 0; i < kTables; ++i)
      ++tables[i][std::to_integer<std::size_t>(bytes[at + i])];
  }
  for (; at < bytes.size(); ++at) ++tables[0][std::to_integer<std::size_t>(bytes[at])];
  ByteCounts counts{};
  for (const auto& table : tables) {
    for (std::size_t i = 0; i < counts.size(); ++i) counts[i] += table[i];
  }
  return counts;
}

/// `times` elements of one value.
void tally(double value, std::uint64_t times, Tallies& tallies) {
  tallies.elements += times;
  tallies.nans += std::isnan(value) ? times : 0U;
  tallies.infinities += std::isinf(value) ? times : 0U;
  if (!std::isfinite(value)) return;
  tallies.zeros += value == 0 ? times : 0U;
  tallies.min = std::min(tallies.min, value);
  tallies.max = std::max(tallies.max, value);
  auto& exponents = std::signbit(value) ? tallies.negative : tallies.positive;
  exponents[std::bit_cast<std::uint64_t>(value) >> 52U & 0x7ffU] += times;
}

/// Elements of one byte are counted by value; the rest is arithmetic on 256 numbers.
void gather_bytes(ElementKind kind, std::span<const std::byte> bytes, Tallies& tallies,
                  Moments& moments) {
  const ByteCounts counts = count_bytes(bytes);
  const std::array<double, 256>& values = byte_values(kind);
  Moments finite;
  long double sum = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    tally(values[i], counts[i], tallies);
    if (!std::isfinite(values[i])) continue;
    finite.count += counts[i];
    sum += static_cast<long double>(counts[i]) * values[i];
  }
  if (finite.count == 0) return;
  finite.mean = sum / static_cast<long double>(finite.count);
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0 || !std::isfinite(values[i])) continue;
    const long double distance = values[i] - finite.mean;
    finite.squares += static_cast<long double>(counts[i]) * distance * distance;
  }
  moments.merge(finite);
}

}  // namespace

void Moments::merge(const Moments& other) {
  if (other.count == 0) return;
  const auto here = static_cast<long double>(count);
  const auto there = static_cast<long double>(other.count);
  const long double distance = other.mean - mean;
  mean += distance * there / (here + there);
  squares += other.squares + distance * distance * here * there / (here + there);
  count += other.count;
}

void Tallies::merge(const Tallies& other) {
  elements += other.elements;
  nans += other.nans;
  infinities += other.infinities;
  zeros += other.zeros;
  min = std::min(min, other.min);
  max = std::max(max, other.max);
  for (std::size_t i = 0; i < positive.size(); ++i) {
    positive[i] += other.positive[i];
    negative[i] += other.negative[i];
  }
}

void gather(ElementKind kind, std::span<const std::byte> bytes, Tallies& tallies,
            Moments& moments) {
  constexpr std::size_t kMostBytes = 1U << 30;  // counters have 32 bits
  LOCKSTEP_CHECK(bytes.size() <= kMostBytes && bytes.size() % element_bytes(kind) == 0,
                 "wrong number of bytes");
  if (element_bytes(kind) == 1) {
    gather_bytes(kind, bytes, tallies, moments);
  } else if (element_bytes(kind) == 2 || kind == ElementKind::f32) {
    gather_blocks<float>(kind, bytes, tallies, moments);
  } else {
    gather_blocks<double>(kind, bytes, tallies, moments);
  }
}

}  // namespace lockstep::checkpoint
