#include "lockstep/checkpoint/tools/diff.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/tools/memory_source_testing.h"

namespace lockstep::checkpoint {
namespace {

using testing::ElementsAre;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

template <typename Element>
void add(MemorySource& source, const std::string& name, const char* dtype,
         const std::vector<Element>& elements, std::vector<std::string> aliases = {}) {
  source.add({name, dtype, {static_cast<std::int64_t>(elements.size())}, "", std::move(aliases)},
             bytes_of(elements));
}

/// The one pair of two sources of one tensor each.
template <typename A, typename B>
TensorDiff diff_of(const char* dtype_a, const std::vector<A>& a, const char* dtype_b,
                   const std::vector<B>& b) {
  MemorySource one;
  MemorySource other;
  add(one, "w", dtype_a, a);
  add(other, "w", dtype_b, b);
  const CheckpointDiff found = diff(one, other);
  EXPECT_EQ(found.tensors.size(), 1U);
  return found.tensors.at(0);
}

TEST(Diff, TheSameIsTheSame) {
  MemorySource source;
  add(source, "w", "F32", std::vector<float>{1, NAN, -0.0F});
  add(source, "empty", "F32", std::vector<float>{});
  source.add({"n", "I64", {}}, std::vector<std::byte>(8));
  const CheckpointDiff found = diff(source, source);
  EXPECT_TRUE(found.is_same());
  ASSERT_EQ(found.tensors.size(), 3U);
  EXPECT_EQ(found.tensors[0].name, "w");
  EXPECT_EQ(found.tensors[0].elements, 3U);
  EXPECT_TRUE(found.tensors[0].are_bits_equal);
  EXPECT_EQ(found.tensors[1].elements, 0U);
  EXPECT_EQ(found.tensors[2].elements, 1U);
}

TEST(Diff, DistancesAreOfTheElementsThatDiffer) {
  const auto d =
      diff_of("F32", std::vector<float>{1, 2, -4, 0}, "F32", std::vector<float>{1, 3, -4, 0.5F});
  EXPECT_FALSE(d.are_bits_equal);
  EXPECT_EQ(d.differing, 2U);
  EXPECT_EQ(d.max_abs, 1);
  EXPECT_EQ(d.mean_abs, 1.5 / 4);
  EXPECT_EQ(d.max_rel, 1);  // 0 and 0.5
}

TEST(Diff, NanIsEqualOnlyToItsOwnBits) {
  const float quiet = std::bit_cast<float>(0x7fc00000U);
  const float other = std::bit_cast<float>(0x7fc00001U);
  const auto d = diff_of("F32", std::vector<float>{quiet, quiet, quiet, 1}, "F32",
                         std::vector<float>{quiet, other, 1, quiet});
  EXPECT_EQ(d.differing, 3U);
  EXPECT_EQ(d.nan_on_one_side, 2U);
  EXPECT_EQ(d.max_abs, 0);
  EXPECT_EQ(d.max_rel, 0);
}

TEST(Diff, ZerosOfTwoSignsDifferInBitsAlone) {
  const auto d = diff_of("F32", std::vector<float>{0}, "F32", std::vector<float>{-0.0F});
  EXPECT_FALSE(d.are_bits_equal);
  EXPECT_EQ(d.differing, 1U);
  EXPECT_EQ(d.max_abs, 0);
}

TEST(Diff, InfinityIsInfinitelyFarFromAnythingElse) {
  const auto d = diff_of("F64", std::vector<double>{kInfinity, kInfinity}, "F64",
                         std::vector<double>{kInfinity, 1});
  EXPECT_EQ(d.differing, 1U);
  EXPECT_EQ(d.max_abs, kInfinity);
  EXPECT_EQ(d.max_rel, kInfinity);
  EXPECT_EQ(diff_of("F64", std::vector<double>{1e308}, "F64", std::vector<double>{-1e308}).max_rel,
            kInfinity);
}

TEST(Diff, WholeNumbersOf64BitsAreExact) {
  const std::int64_t big = 1LL << 60;
  auto d = diff_of("I64", std::vector<std::int64_t>{big, INT64_MIN}, "I64",
                   std::vector<std::int64_t>{big + 1, INT64_MIN});
  EXPECT_EQ(d.differing, 1U);
  EXPECT_EQ(d.max_abs, 1);
  d = diff_of("I64", std::vector<std::int64_t>{INT64_MIN}, "I64",
              std::vector<std::int64_t>{INT64_MAX});
  EXPECT_EQ(d.max_abs, 0x1p64);
  d = diff_of("U64", std::vector<std::uint64_t>{~0ULL}, "U64",
              std::vector<std::uint64_t>{~0ULL - 3});
  EXPECT_EQ(d.max_abs, 3);
}

TEST(Diff, EightBitFloatsAreComparedAsNumbers) {
  const auto d = diff_of("F8_E4M3", std::vector<std::uint8_t>{0x38, 0x7f}, "F8_E4M3",
                         std::vector<std::uint8_t>{0x40, 0xff});
  EXPECT_EQ(d.differing, 2U);  // 1 and 2; NaN of two signs
  EXPECT_EQ(d.nan_on_one_side, 0U);
  EXPECT_EQ(d.max_abs, 1);
}

TEST(Diff, TwoTypesAreComparedByValue) {
  MemorySource one;
  MemorySource other;
  add(one, "w", "F32", std::vector<float>{1, 1.001F, NAN, -0.0F});
  add(other, "w", "BF16", std::vector<std::uint16_t>{0x3f80, 0x3f80, 0x7fc0, 0});
  const CheckpointDiff found = diff(one, other);
  EXPECT_FALSE(found.is_same());
  ASSERT_EQ(found.forms.size(), 1U);
  EXPECT_EQ(found.forms[0].dtype_a, "F32");
  EXPECT_EQ(found.forms[0].dtype_b, "BF16");
  EXPECT_EQ(found.tensors.at(0).differing, 1U);
  EXPECT_NEAR(found.tensors[0].max_abs, 0.001, 1e-7);
  EXPECT_FALSE(found.tensors[0].are_bits_equal);
}

TEST(Diff, AnotherShapeIsReportedAndNotCompared) {
  MemorySource one;
  MemorySource other;
  one.add({"w", "U8", {2, 3}}, std::vector<std::byte>(6));
  other.add({"w", "U8", {3, 2}}, std::vector<std::byte>(6));
  const CheckpointDiff found = diff(one, other);
  ASSERT_EQ(found.forms.size(), 1U);
  EXPECT_EQ(found.forms[0].shape_a, (Shape{2, 3}));
  EXPECT_TRUE(found.tensors.empty());
  EXPECT_FALSE(found.is_same());
}

TEST(Diff, TensorsOnOneSideAreNamed) {
  MemorySource one;
  MemorySource other;
  for (const char* name : {"z", "both", "a"}) add(one, name, "U8", std::vector<std::uint8_t>{1});
  for (const char* name : {"both", "c"}) add(other, name, "U8", std::vector<std::uint8_t>{1});
  const CheckpointDiff found = diff(one, other);
  EXPECT_THAT(found.only_in_a, ElementsAre("z", "a"));
  EXPECT_THAT(found.only_in_b, ElementsAre("c"));
  EXPECT_EQ(found.tensors.size(), 1U);
  EXPECT_FALSE(found.is_same());
}

TEST(Diff, AnAliasStandsForItsTensor) {
  MemorySource tied;
  MemorySource apart;
  add(tied, "embed", "U8", std::vector<std::uint8_t>{1, 2}, {"head"});
  add(apart, "head", "U8", std::vector<std::uint8_t>{1, 3});
  add(apart, "embed", "U8", std::vector<std::uint8_t>{1, 2});
  for (const CheckpointDiff& found : {diff(tied, apart), diff(apart, tied)}) {
    EXPECT_TRUE(found.only_in_a.empty());
    EXPECT_TRUE(found.only_in_b.empty());
    ASSERT_EQ(found.tensors.size(), 2U);
    EXPECT_EQ(found.tensors[0].differing + found.tensors[1].differing, 1U);
  }
  EXPECT_EQ(diff(tied, tied).tensors.size(), 1U);
  EXPECT_TRUE(diff(tied, tied).is_same());
}

TEST(Diff, ElementsThatAreNoNumbersAreComparedByBytes) {
  auto d = diff_of("C64", std::vector<std::uint64_t>{1, 2, 3}, "C64",
                   std::vector<std::uint64_t>{1, 5, 4});
  EXPECT_FALSE(d.are_numbers);
  EXPECT_EQ(d.differing, 2U);
  EXPECT_EQ(d.max_abs, 0);
  MemorySource one;
  MemorySource other;
  one.add({"w", "F4", {4}}, {std::byte{1}, std::byte{2}});
  other.add({"w", "F4", {4}}, {std::byte{1}, std::byte{3}});
  d = diff(one, other).tensors.at(0);
  EXPECT_EQ(d.elements, 4U);
  EXPECT_EQ(d.differing, 1U);
  d = diff_of("C64", std::vector<std::uint64_t>{1}, "F64", std::vector<double>{1});
  EXPECT_FALSE(d.are_numbers);
  EXPECT_EQ(d.differing, 1U);
  EXPECT_FALSE(d.are_bits_equal);
}

TEST(Diff, LargeTensorsGiveTheSameForAnyNumberOfThreads) {
  std::vector<float> a(2'500'003);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = std::sin(static_cast<float>(i));
  std::vector<float> b = a;
  for (std::size_t i = 0; i < b.size(); i += 1000) b[i] += 1e-3F * static_cast<float>(i % 7);
  MemorySource one;
  MemorySource other;
  add(one, "w", "F32", a);
  add(other, "w", "F32", b);
  const TensorDiff first = diff(one, other, {1, {}}).tensors.at(0);
  double sum = 0;
  std::uint64_t differing = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    sum += std::abs(static_cast<double>(a[i]) - b[i]);
    differing += a[i] != b[i] ? 1U : 0U;
  }
  EXPECT_EQ(first.differing, differing);
  EXPECT_NEAR(first.mean_abs, sum / static_cast<double>(a.size()), 1e-16);
  for (const int threads : {2, 4}) {
    const TensorDiff again = diff(one, other, {threads, {}}).tensors.at(0);
    EXPECT_EQ(again.mean_abs, first.mean_abs);
    EXPECT_EQ(again.max_rel, first.max_rel);
    EXPECT_EQ(again.differing, first.differing);
  }
}

TEST(Diff, ChunksOfTwoTypesHaveTheSameElements) {
  std::vector<double> wide(1'200'001);
  for (std::size_t i = 0; i < wide.size(); ++i) wide[i] = static_cast<double>(i % 256);
  std::vector<std::uint8_t> narrow(wide.size());
  for (std::size_t i = 0; i < wide.size(); ++i) narrow[i] = static_cast<std::uint8_t>(i);
  EXPECT_EQ(diff_of("F64", wide, "U8", narrow).differing, 0U);
  EXPECT_EQ(diff_of("U8", narrow, "F64", wide).differing, 0U);
}

TEST(Diff, ProgressRisesAndMayStop) {
  MemorySource source;
  for (const char* name : {"a", "b"}) add(source, name, "U8", std::vector<std::uint8_t>{1, 2});
  std::vector<std::uint64_t> seen;
  (void)diff(source, source, {1, [&](std::uint64_t done, std::uint64_t all) {
                                EXPECT_EQ(all, 4U);
                                seen.push_back(done);
                              }});
  EXPECT_THAT(seen, ElementsAre(2U, 4U));
  EXPECT_THROW((void)diff(source, source,
                          {1, [](std::uint64_t, std::uint64_t) { throw std::logic_error("^C"); }}),
               std::logic_error);
}

TEST(Diff, AFaultOfEitherSideLeaves) {
  MemorySource whole;
  MemorySource cut;
  for (MemorySource* source : {&whole, &cut}) {
    add(*source, "w", "U8", std::vector<std::uint8_t>(12'000'000));
  }
  cut.fail_at(0, 10'000'000);
  EXPECT_THROW((void)diff(whole, cut), BadData);
  EXPECT_THROW((void)diff(cut, whole), BadData);
}

}  // namespace
}  // namespace lockstep::checkpoint
