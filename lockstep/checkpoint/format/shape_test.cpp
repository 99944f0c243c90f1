#include "lockstep/checkpoint/format/shape.h"

#include <gtest/gtest.h>

#include "lockstep/checkpoint/format/boxes.h"

namespace lockstep::checkpoint {
namespace {

constexpr std::int64_t kHuge = std::int64_t{1} << 62;

TEST(Shape, BytesFollowFromTypeAndShape) {
  EXPECT_EQ(tensor_bytes("F32", {2, 3}), 24U);
  EXPECT_EQ(tensor_bytes("BF16", {}), 2U);
  EXPECT_EQ(tensor_bytes("I64", {4, 0}), 0U);
  EXPECT_EQ(tensor_bytes("F4", {3, 2}), 3U);
}

TEST(Shape, SizesThatOverflowOrAreNegativeOrSplitAByteAreNone) {
  EXPECT_EQ(tensor_bytes("F32", {kHuge, 4}), std::nullopt);
  EXPECT_EQ(tensor_bytes("U8", {1 << 30, 1 << 30, 1 << 30}), std::nullopt);
  EXPECT_EQ(tensor_bytes("F32", {-1}), std::nullopt);
  EXPECT_EQ(tensor_bytes("F4", {3}), std::nullopt);
}

TEST(Shape, AnUnknownTypeHasNoBits) {
  EXPECT_EQ(element_bits("F33"), 0);
  EXPECT_EQ(element_bits(""), 0);
  EXPECT_EQ(element_bits("F8_E4M3"), 8);
}

TEST(Boxes, OneBoxOrARowOfThemCoversATensor) {
  EXPECT_EQ(why_not_covered({4, 3}, {{{0, 0}, {4, 3}}}), "");
  EXPECT_EQ(why_not_covered({4, 3}, {{{0, 0}, {1, 3}}, {{1, 0}, {3, 3}}}), "");
  EXPECT_EQ(why_not_covered({4, 4}, {{{0, 0}, {2, 4}}, {{2, 0}, {2, 2}}, {{2, 2}, {2, 2}}}), "");
  EXPECT_EQ(why_not_covered({}, {{{}, {}}}), "");
  EXPECT_EQ(why_not_covered({0, 5}, {}), "");
}

TEST(Boxes, GapsOverlapsAndStraysAreNamed) {
  EXPECT_NE(why_not_covered({4}, {{{0}, {3}}}).find("leave 1"), std::string::npos);
  EXPECT_NE(why_not_covered({4}, {{{0}, {3}}, {{2}, {2}}}).find("overlap"), std::string::npos);
  EXPECT_NE(why_not_covered({2, 2}, {{{0, 0}, {1, 2}}, {{0, 0}, {2, 1}}}).find("overlap"),
            std::string::npos);
  EXPECT_NE(why_not_covered({4}, {{{1}, {4}}}).find("outside"), std::string::npos);
  EXPECT_NE(why_not_covered({4}, {{{0, 0}, {4, 1}}}).find("outside"), std::string::npos);
  EXPECT_NE(why_not_covered({}, {}), "");
  EXPECT_NE(why_not_covered({4}, std::vector<Box>(kMaxBoxes + 1, {{0}, {0}})), "");
}

}  // namespace
}  // namespace lockstep::checkpoint
