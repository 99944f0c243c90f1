#include "lockstep/checkpoint/tools/tensor_stats.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

#include "lockstep/base/error.h"
#include "lockstep/base/float16.h"
#include "lockstep/checkpoint/tools/elements.h"
#include "lockstep/checkpoint/tools/memory_source_testing.h"
#include "lockstep/checkpoint/tools/stats_kernel.h"

namespace lockstep::checkpoint {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

template <typename Stored>
TensorStats stats(const char* dtype, const std::vector<Stored>& elements) {
  return stats_of(dtype, bytes_of(elements)).value();
}

/// The same by the definitions, in long double.
void expect_by_definition(const TensorStats& stats, const std::vector<double>& values) {
  std::vector<long double> finite;
  std::uint64_t nans = 0;
  std::uint64_t zeros = 0;
  for (const double value : values) {
    if (std::isfinite(value)) finite.push_back(value);
    nans += std::isnan(value) ? 1U : 0U;
    zeros += value == 0 ? 1U : 0U;
  }
  ASSERT_FALSE(finite.empty());
  long double sum = 0;
  for (const long double value : finite) sum += value;
  const long double mean = sum / static_cast<long double>(finite.size());
  long double squares = 0;
  for (const long double value : finite) squares += (value - mean) * (value - mean);
  const auto std =
      static_cast<double>(std::sqrt(squares / static_cast<long double>(finite.size())));
  EXPECT_EQ(stats.elements, values.size());
  EXPECT_EQ(stats.nans, nans);
  EXPECT_EQ(stats.infinities, values.size() - finite.size() - nans);
  EXPECT_EQ(stats.zeros, zeros);
  EXPECT_EQ(stats.min, static_cast<double>(*std::min_element(finite.begin(), finite.end())));
  EXPECT_EQ(stats.max, static_cast<double>(*std::max_element(finite.begin(), finite.end())));
  // Sums in double of blocks of 4096: a few last places.
  EXPECT_NEAR(stats.mean, static_cast<double>(mean), 1e-13 * (std + std::abs(stats.mean)));
  EXPECT_NEAR(stats.std, std, 1e-11 * std);
  std::uint64_t counted = 0;
  for (const HistogramBucket& bucket : stats.histogram) {
    EXPECT_LE(bucket.low, bucket.high);
    counted += bucket.count;
  }
  EXPECT_EQ(counted, finite.size());
}

std::vector<float> normal(std::size_t count, float mean, float std) {
  std::mt19937 generator(7);
  std::normal_distribution<float> draw(mean, std);
  std::vector<float> values(count);
  for (float& value : values) value = draw(generator);
  return values;
}

TEST(TensorStats, OfFloatsAreWhatTheDefinitionsSay) {
  for (const std::size_t count : {1U, 7U, 8U, 9U, 4095U, 4096U, 4097U, 300'000U}) {
    for (const float mean : {0.0F, 1e6F}) {
      const auto values = normal(count, mean, 0.02F);
      expect_by_definition(stats("F32", values), std::vector<double>(values.begin(), values.end()));
    }
  }
}

TEST(TensorStats, OfDoublesAreWhatTheDefinitionsSay) {
  std::vector<double> values;
  for (const float value : normal(10'000, 3, 2))
    values.push_back(value * 1e-200);  // squares are no doubles
  expect_by_definition(stats("F64", values), values);
}

TEST(TensorStats, SquaresBeyondADoubleAreTakenToo) {
  const std::vector<double> values{1e308, -1e308, 1e308, 5e-324, 0};
  const TensorStats s = stats("F64", values);
  EXPECT_EQ(s.max, 1e308);
  EXPECT_NEAR(s.mean, 2e307, 1e294);
  EXPECT_NEAR(s.std, 7.483314773547882e307, 1e295);
  expect_by_definition(stats("F64", std::vector<double>{1e200, 3e200}), {1e200, 3e200});
}

TEST(TensorStats, NanAndInfinityAreCountedAndLeftOut) {
  std::vector<float> values = normal(9000, 0, 1);
  std::vector<double> expected(values.begin(), values.end());
  for (const std::size_t at : {0U, 5000U, 8999U}) {
    values[at] = std::numeric_limits<float>::quiet_NaN();
    values[at == 0 ? 1 : at - 1] = -std::numeric_limits<float>::infinity();
    expected[at] = kNan;
    expected[at == 0 ? 1 : at - 1] = -kInfinity;
  }
  values[100] = 0;
  expected[100] = 0;
  values[101] = -0.0F;
  expected[101] = 0;
  expect_by_definition(stats("F32", values), expected);
}

TEST(TensorStats, WithoutAFiniteElementThereIsNothingButCounts) {
  const TensorStats s = stats("F32", std::vector<float>{NAN, INFINITY, -INFINITY, -NAN});
  EXPECT_EQ(s.nans, 2U);
  EXPECT_EQ(s.infinities, 2U);
  for (const double value : {s.min, s.max, s.mean, s.std}) EXPECT_TRUE(std::isnan(value));
  EXPECT_TRUE(s.histogram.empty());
  EXPECT_EQ(sparkline(s, true), "");
}

TEST(TensorStats, OfNoElementsAreEmpty) {
  for (const char* dtype : {"F32", "F64", "U8", "BF16", "I64"}) {
    const TensorStats s = stats(dtype, std::vector<std::uint8_t>{});
    EXPECT_EQ(s.elements, 0U);
    EXPECT_TRUE(std::isnan(s.mean));
    EXPECT_TRUE(s.histogram.empty());
  }
}

TEST(TensorStats, OfOneNumberAreThatNumber) {
  const TensorStats s = stats("F32", std::vector<float>{-2.5F});
  EXPECT_EQ(s.min, -2.5);
  EXPECT_EQ(s.max, -2.5);
  EXPECT_EQ(s.mean, -2.5);
  EXPECT_EQ(s.std, 0);
}

TEST(TensorStats, OfSixteenBitFloatsCountTheirNans) {
  std::vector<std::uint16_t> bf16;
  std::vector<std::uint16_t> f16;
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    bf16.push_back(static_cast<std::uint16_t>(bits));
    f16.push_back(static_cast<std::uint16_t>(bits));
  }
  const TensorStats half = stats("F16", f16);
  EXPECT_EQ(half.nans, 2046U);  // 1,023 of each sign
  EXPECT_EQ(half.infinities, 2U);
  EXPECT_EQ(half.zeros, 2U);
  EXPECT_EQ(half.max, 65504);
  const TensorStats brain = stats("BF16", bf16);
  EXPECT_EQ(brain.nans, 254U);
  EXPECT_EQ(brain.infinities, 2U);
  EXPECT_EQ(brain.min, -0x1.fep127);
  std::vector<double> values;
  for (const std::uint16_t bits : f16) {
    values.push_back(to_fp32(static_cast<Fp16Bits>(bits)));
  }
  expect_by_definition(half, values);
}

TEST(TensorStats, OfEveryByteAreThoseOfItsValues) {
  for (const char* dtype : {"F8_E4M3", "F8_E5M2", "F8_E8M0", "I8", "U8", "BOOL"}) {
    std::vector<std::uint8_t> bytes(5000);
    std::vector<double> values;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] = static_cast<std::uint8_t>(i * 7);
      values.push_back(byte_values(*element_kind(dtype))[bytes[i]]);
    }
    SCOPED_TRACE(dtype);
    expect_by_definition(stats(dtype, bytes), values);
  }
  EXPECT_EQ(stats("F8_E4M3", std::vector<std::uint8_t>{0x7f, 0xff, 0x38}).nans, 2U);
  EXPECT_EQ(stats("F8_E5M2", std::vector<std::uint8_t>{0x7c, 0xfc, 0x7d}).infinities, 2U);
  EXPECT_EQ(stats("BOOL", std::vector<std::uint8_t>{1, 0, 1, 1}).mean, 0.75);
}

TEST(TensorStats, OfWholeNumbersAreExact) {
  const TensorStats s = stats("I64", std::vector<std::int64_t>{-3, 0, 1LL << 50});
  EXPECT_EQ(s.min, -3);
  EXPECT_EQ(s.max, 0x1p50);
  EXPECT_EQ(s.zeros, 1U);
  EXPECT_EQ(stats("U64", std::vector<std::uint64_t>{~0ULL}).max, 0x1p64);
  EXPECT_EQ(stats("I32", std::vector<std::int32_t>{INT32_MIN}).min, -0x1p31);
  EXPECT_EQ(stats("U32", std::vector<std::uint32_t>{UINT32_MAX}).max, 4294967295.0);
  EXPECT_EQ(stats("I16", std::vector<std::int16_t>{INT16_MIN, 1}).mean, -16383.5);
  EXPECT_EQ(stats("U16", std::vector<std::uint16_t>{65535}).max, 65535);
  // Large numbers close together: the pivot keeps the differences.
  EXPECT_EQ(stats("I64", std::vector<std::int64_t>{1LL << 50, (1LL << 50) + 2}).std, 1);
}

TEST(TensorStats, ElementsThatAreNoNumbersHaveNone) {
  for (const char* dtype : {"C64", "F4", "F6_E2M3"}) {
    EXPECT_FALSE(stats_of(dtype, std::vector<std::byte>(48))) << dtype;
  }
}

TEST(TensorStats, AreTheSameForAnyNumberOfThreads) {
  MemorySource source;
  std::vector<float> values = normal(3'000'001, 0.1F, 2);
  values[77] = NAN;
  source.add({"w", "F32", {3'000'001}}, bytes_of(values));
  source.add({"s", "F32", {}}, bytes_of(std::vector<float>{4}));
  source.add({"c", "C64", {1}}, std::vector<std::byte>(8));
  const TensorStats alone = stats("F32", values);
  for (const int threads : {1, 2, 5}) {
    const TensorStats s = tensor_stats(source, 0, threads).value();
    EXPECT_EQ(s.nans, 1U);
    EXPECT_EQ(s.mean, alone.mean);  // bit for bit
    EXPECT_EQ(s.std, alone.std);
    EXPECT_EQ(s.histogram.size(), alone.histogram.size());
    for (std::size_t i = 0; i < s.histogram.size(); ++i) {
      EXPECT_EQ(s.histogram[i].count, alone.histogram[i].count);
    }
  }
  EXPECT_EQ(tensor_stats(source, 1, 2).value().mean, 4);
  EXPECT_FALSE(tensor_stats(source, 2, 2));
}

TEST(TensorStats, AFileThatCannotBeReadIsTheCallersProblem) {
  MemorySource source;
  source.add({"w", "U8", {12 << 20}}, std::vector<std::byte>(std::size_t{12} << 20U));
  source.fail_at(0, 10'000'000);
  EXPECT_THROW((void)tensor_stats(source, 0, 1), BadData);
  EXPECT_THROW((void)tensor_stats(source, 0, 3), BadData);
}

TEST(Histogram, HasABucketForEachPowerOfTwo) {
  const TensorStats s = stats("F32", std::vector<float>{1, 1.5F, -2, 0, 1e-30F, -0.75F, 3.99F});
  ASSERT_EQ(s.histogram.size(), 31U);
  EXPECT_EQ(s.histogram.front().low, -4);
  EXPECT_EQ(s.histogram.front().count, 1U);  // -2
  EXPECT_EQ(s.histogram[2].low, -1);
  EXPECT_EQ(s.histogram[2].count, 1U);  // -0.75
  EXPECT_EQ(s.histogram[15].low, -0x1p-13);
  EXPECT_EQ(s.histogram[15].high, 0x1p-13);
  EXPECT_EQ(s.histogram[15].count, 2U);  // 0 and 1e-30
  EXPECT_EQ(s.histogram[29].count, 2U);  // 1 and 1.5
  EXPECT_EQ(s.histogram.back().high, 4);
  EXPECT_EQ(s.histogram.back().count, 1U);
  for (std::size_t i = 1; i < 31; ++i) EXPECT_EQ(s.histogram[i].low, s.histogram[i - 1].high);
}

TEST(Histogram, OfOneSignHasOneSide) {
  const TensorStats positive = stats("U8", std::vector<std::uint8_t>{0, 1, 200});
  ASSERT_EQ(positive.histogram.size(), 16U);
  EXPECT_EQ(positive.histogram[0].low, 0);
  EXPECT_EQ(positive.histogram[0].high, 0x1p-7);
  EXPECT_EQ(positive.histogram[0].count, 1U);
  EXPECT_EQ(positive.histogram.back().high, 256);
  const TensorStats negative = stats("F32", std::vector<float>{-1, -1e-20F});
  ASSERT_EQ(negative.histogram.size(), 16U);
  EXPECT_EQ(negative.histogram.back().high, 0);
  EXPECT_EQ(negative.histogram.back().count, 1U);
}

TEST(Histogram, OfZerosIsOneBucket) {
  const TensorStats s = stats("F32", std::vector<float>{0, -0.0F, 0});
  ASSERT_EQ(s.histogram.size(), 1U);
  EXPECT_EQ(s.histogram[0].count, 3U);
  EXPECT_EQ(sparkline(s, true), "█");
}

TEST(Histogram, ReachesTheLargestDouble) {
  const TensorStats s = stats("F64", std::vector<double>{1.7e308, 1});
  EXPECT_EQ(s.histogram.back().high, std::numeric_limits<double>::max());
  EXPECT_EQ(s.histogram.front().count, 1U);
}

TEST(Sparkline, HasACharacterABucketAndABlankForNone) {
  TensorStats s;
  for (const std::uint64_t count : {0U, 1U, 100U, 200U, 400U, 0U, 700U}) {
    s.histogram.push_back({0, 1, count});
  }
  EXPECT_EQ(sparkline(s, true), " ▁▂▃▅ █");
  EXPECT_EQ(sparkline(s, false), " _.,~ #");
}

TEST(Moments, MergedPartsAreTheWhole) {
  Moments a{2, 1.5L, 0.5L};  // 1, 2
  a.merge({0, 99, 99});
  a.merge({1, 6, 0});
  EXPECT_EQ(a.count, 3U);
  EXPECT_NEAR(static_cast<double>(a.mean), 3, 1e-15);
  EXPECT_NEAR(static_cast<double>(a.squares), 14, 1e-14);
}

}  // namespace
}  // namespace lockstep::checkpoint
