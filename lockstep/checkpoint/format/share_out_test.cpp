#include "lockstep/checkpoint/format/share_out.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace lockstep::checkpoint {
namespace {

constexpr std::uint64_t kMib = std::uint64_t{1} << 20;

std::int64_t volume(const Shape& shape) {
  std::int64_t elements = 1;
  for (const std::int64_t dim : shape) elements *= dim;
  return elements;
}

HeldBox held(std::size_t tensor, const Shape& shape, std::vector<int> holders,
             std::uint64_t element_bytes = 4) {
  return {tensor,
          {Shape(shape.size(), 0), shape},
          static_cast<std::uint64_t>(volume(shape)) * element_bytes,
          std::move(holders)};
}

std::vector<int> all_of(int ranks) {
  std::vector<int> numbers(static_cast<std::size_t>(ranks));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

std::uint64_t bytes_of(const std::vector<WrittenBox>& boxes) {
  std::uint64_t bytes = 0;
  for (const WrittenBox& one : boxes)
    bytes += 4 * static_cast<std::uint64_t>(volume(one.box.shape));
  return bytes;
}

TEST(ShareOut, OneRankWritesEverythingWhole) {
  const auto written = share_out({held(0, {3000, 1000}, {0}), held(1, {}, {0})}, 1);
  ASSERT_EQ(written.size(), 1U);
  ASSERT_EQ(written[0].size(), 2U);
  EXPECT_EQ(written[0][0].box.shape, (Shape{3000, 1000}));
  EXPECT_EQ(written[0][1].box.shape, Shape{});
}

TEST(ShareOut, AReplicatedTensorIsCutAtRowsIntoEqualShares) {
  const auto written = share_out({held(0, {4096, 4096}, all_of(4))}, 4);
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    const auto& own = written[static_cast<std::size_t>(rank)];
    ASSERT_EQ(own.size(), 1U);
    EXPECT_EQ(own[0].box.offset, (Shape{rank * 1024, 0}));
    EXPECT_EQ(own[0].box.shape, (Shape{1024, 4096}));
  }
}

TEST(ShareOut, SmallTensorsStayWhole) {
  std::vector<HeldBox> boxes;
  for (std::size_t i = 0; i < 100; ++i) boxes.push_back(held(i, {100, 100}, all_of(2)));
  const auto written = share_out(boxes, 2);
  EXPECT_EQ(written[0].size(), 50U);
  EXPECT_EQ(written[1].size(), 50U);
  for (const WrittenBox& one : written[0]) EXPECT_EQ(one.box.shape, (Shape{100, 100}));
}

TEST(ShareOut, WhatOnlyOneRankHasThatRankWrites) {
  const auto written = share_out({held(0, {8, 8}, {1}), held(1, {8}, {0, 2})}, 3);
  EXPECT_EQ(written[1].size(), 1U);
  EXPECT_EQ(written[1][0].tensor, 0U);
  EXPECT_EQ(written[0].size() + written[2].size(), 1U);
}

TEST(ShareOut, ATensorWithoutElementsIsWrittenByOneRank) {
  const auto written = share_out({held(0, {0, 5}, all_of(3))}, 3);
  EXPECT_EQ(written[0].size() + written[1].size() + written[2].size(), 1U);
}

/// Whatever the shapes and holders: each element once, by who has it, and shares of equal bytes.
TEST(ShareOut, EveryElementIsWrittenOnceAndSharesAreEqual) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    const int ranks = 1 + static_cast<int>(random() % 7);
    std::vector<HeldBox> boxes;
    std::uint64_t most_row = 0;
    for (std::size_t i = 0; i < 1 + random() % 30; ++i) {
      Shape shape;
      for (std::size_t dim = random() % 4; dim > 0; --dim) {
        shape.push_back(static_cast<std::int64_t>(random() % 150));
      }
      boxes.push_back(held(i, shape, all_of(ranks)));
      const bool is_cut = boxes.back().bytes >= kLeastCutBytes;
      most_row =
          std::max(most_row, is_cut ? boxes.back().bytes / static_cast<std::uint64_t>(shape.front())
                                    : boxes.back().bytes);
    }
    const auto written = share_out(boxes, ranks);
    std::vector<std::vector<Box>> parts(boxes.size());
    std::uint64_t all = 0;
    for (const auto& own : written) {
      all += bytes_of(own);
      for (const WrittenBox& one : own) parts[one.tensor].push_back(one.box);
    }
    for (std::size_t i = 0; i < boxes.size(); ++i) {
      EXPECT_EQ(why_not_covered(boxes[i].box.shape, parts[i]), "");
      EXPECT_GE(parts[i].size(), 1U);
    }
    for (const auto& own : written) {
      const auto share = static_cast<double>(all) / ranks;
      EXPECT_NEAR(static_cast<double>(bytes_of(own)), share, static_cast<double>(most_row) + 1);
    }
  }
}

/// Rows that are larger than a share go to one rank, and the next ranks have nothing of them.
TEST(ShareOut, RowsAreNeverCut) {
  const auto written = share_out({held(0, {2, static_cast<std::int64_t>(kMib)}, all_of(5))}, 5);
  std::int64_t rows = 0;
  for (const auto& own : written) {
    for (const WrittenBox& one : own) rows += one.box.shape[0];
  }
  EXPECT_EQ(rows, 2);
}

}  // namespace
}  // namespace lockstep::checkpoint
