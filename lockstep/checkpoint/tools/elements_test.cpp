#include "lockstep/checkpoint/tools/elements.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/format/shape.h"
#include "lockstep/checkpoint/tools/memory_source_testing.h"

namespace lockstep::checkpoint {
namespace {

template <typename Stored>
std::vector<double> doubles(ElementKind kind, const std::vector<Stored>& stored) {
  std::vector<double> values(stored.size());
  to_doubles(kind, bytes_of(stored), values);
  return values;
}

TEST(Elements, KindsAreThoseOfSafetensorsThatAreNumbersOfWholeBytes) {
  for (const char* dtype : {"F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2", "F8_E8M0", "I64",
                            "I32", "I16", "I8", "U64", "U32", "U16", "U8", "BOOL"}) {
    const auto kind = element_kind(dtype);
    ASSERT_TRUE(kind) << dtype;
    EXPECT_EQ(element_bytes(*kind) * 8, static_cast<std::size_t>(element_bits(dtype))) << dtype;
  }
  for (const char* dtype : {"C64", "F4", "F6_E2M3", "F6_E3M2", "", "f32", "X"}) {
    EXPECT_FALSE(element_kind(dtype)) << dtype;
  }
}

TEST(Elements, WholeNumbersKeepTheirSign) {
  EXPECT_EQ(doubles<std::int64_t>(ElementKind::i64, {-5, 1LL << 40}),
            (std::vector<double>{-5, 0x1p40}));
  EXPECT_EQ(doubles<std::int32_t>(ElementKind::i32, {-5, 7}), (std::vector<double>{-5, 7}));
  EXPECT_EQ(doubles<std::int16_t>(ElementKind::i16, {-5, 7}), (std::vector<double>{-5, 7}));
  EXPECT_EQ(doubles<std::int8_t>(ElementKind::i8, {-128, 127}), (std::vector<double>{-128, 127}));
  EXPECT_EQ(doubles<std::uint64_t>(ElementKind::u64, {1ULL << 63}), (std::vector<double>{0x1p63}));
  EXPECT_EQ(doubles<std::uint32_t>(ElementKind::u32, {~0U}), (std::vector<double>{4294967295.0}));
  EXPECT_EQ(doubles<std::uint16_t>(ElementKind::u16, {65535}), (std::vector<double>{65535}));
  EXPECT_EQ(doubles<std::uint8_t>(ElementKind::u8, {200}), (std::vector<double>{200}));
  EXPECT_EQ(doubles<std::uint8_t>(ElementKind::boolean, {0, 1, 2}), (std::vector<double>{0, 1, 1}));
}

TEST(Elements, SixteenBitFloatsAreExact) {
  EXPECT_EQ(doubles<std::uint16_t>(ElementKind::bf16, {0x3f80, 0xc000, 0x0001}),
            (std::vector<double>{1, -2, 0x1p-133}));
  EXPECT_EQ(doubles<std::uint16_t>(ElementKind::f16, {0x3c00, 0xc000, 0x0001, 0x7bff}),
            (std::vector<double>{1, -2, 0x1p-24, 65504}));
  const auto special = doubles<std::uint16_t>(ElementKind::f16, {0x7c00, 0xfc00, 0x7e00});
  EXPECT_EQ(special[0], INFINITY);
  EXPECT_EQ(special[1], -INFINITY);
  EXPECT_TRUE(std::isnan(special[2]));
  EXPECT_TRUE(std::isnan(doubles<std::uint16_t>(ElementKind::bf16, {0xffc0})[0]));
}

// Values from the tables of "FP8 Formats for Deep Learning" (Micikevicius et al. 2022).
TEST(Elements, EightBitFloatsAreThoseOfTheirPaper) {
  const auto& e4m3 = byte_values(ElementKind::f8_e4m3);
  EXPECT_EQ(e4m3[0x7e], 448);
  EXPECT_EQ(e4m3[0xfe], -448);
  EXPECT_EQ(e4m3[0x38], 1);
  EXPECT_EQ(e4m3[0x08], 0x1p-6);
  EXPECT_EQ(e4m3[0x07], 0x1.cp-7);
  EXPECT_EQ(e4m3[0x01], 0x1p-9);
  EXPECT_TRUE(std::isnan(e4m3[0x7f]));
  EXPECT_TRUE(std::isnan(e4m3[0xff]));
  EXPECT_TRUE(std::signbit(e4m3[0x80]));
  const auto& e5m2 = byte_values(ElementKind::f8_e5m2);
  EXPECT_EQ(e5m2[0x7b], 57344);
  EXPECT_EQ(e5m2[0x3c], 1);
  EXPECT_EQ(e5m2[0x04], 0x1p-14);
  EXPECT_EQ(e5m2[0x01], 0x1p-16);
  EXPECT_EQ(e5m2[0xfc], -INFINITY);
  for (const unsigned nan : {0x7dU, 0x7eU, 0x7fU, 0xfdU}) EXPECT_TRUE(std::isnan(e5m2[nan]));
  const auto& e8m0 = byte_values(ElementKind::f8_e8m0);
  EXPECT_EQ(e8m0[127], 1);
  EXPECT_EQ(e8m0[0], 0x1p-127);
  EXPECT_EQ(e8m0[254], 0x1p127);
  EXPECT_TRUE(std::isnan(e8m0[255]));
}

TEST(Elements, LongAndUnalignedRangesAreReadWhole) {
  for (const std::size_t count : {0U, 1U, 255U, 256U, 257U, 1000U}) {
    std::vector<std::int32_t> stored(count);
    for (std::size_t i = 0; i < count; ++i) stored[i] = static_cast<std::int32_t>(i) * 77 - 1000;
    auto bytes = bytes_of(stored);
    bytes.insert(bytes.begin(), std::byte{9});
    std::vector<double> values(count);
    to_doubles(ElementKind::i32, std::span(bytes).subspan(1), values);
    for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(values[i], stored[i]);
    std::vector<float> floats(count);
    to_floats(ElementKind::f32, bytes_of(std::vector<float>(count, 1.5F)), floats);
    EXPECT_EQ(floats, std::vector<float>(count, 1.5F));
  }
}

TEST(Elements, TheWrongNumberOfBytesIsABugOfTheCaller) {
  std::vector<double> values(2);
  EXPECT_THROW(to_doubles(ElementKind::f32, std::vector<std::byte>(7), values), Bug);
  EXPECT_THROW((void)byte_values(ElementKind::f32), Bug);
}

}  // namespace
}  // namespace lockstep::checkpoint
