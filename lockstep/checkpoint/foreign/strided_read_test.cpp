// Views against the definition: element (i, j, ...) lies at offset + i * stride_i + j * stride_j
// ...
#include "lockstep/checkpoint/foreign/strided_read.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace lockstep::checkpoint {
namespace {

using Bytes = std::vector<std::byte>;

Bytes some_bytes(std::size_t count) {
  Bytes bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i * 31 + i / 251);
  return bytes;
}

Bytes by_definition(const StridedView& view, const Bytes& array) {
  Bytes out;
  std::size_t elements = 1;
  for (const std::int64_t dim : view.shape) elements *= static_cast<std::size_t>(dim);
  for (std::size_t index = 0; index < elements; ++index) {
    std::size_t rest = index;
    std::uint64_t at = view.offset;
    for (std::size_t i = view.shape.size(); i-- > 0;) {
      const auto dim = static_cast<std::size_t>(view.shape[i]);
      at += rest % dim * static_cast<std::uint64_t>(view.stride[i]);
      rest /= dim;
    }
    const auto begin = array.begin() + static_cast<std::ptrdiff_t>(at * view.element_bytes);
    out.insert(out.end(), begin, begin + static_cast<std::ptrdiff_t>(view.element_bytes));
  }
  return out;
}

/// Reads `bytes` of the view in parts of `part` bytes.
Bytes read_in_parts(const StridedView& view, const Bytes& array, std::size_t bytes,
                    std::size_t part) {
  const FetchBytes fetch = [&](std::uint64_t at, std::span<std::byte> out) {
    ASSERT_LE(at + out.size(), array.size());
    std::copy_n(array.begin() + static_cast<std::ptrdiff_t>(at), out.size(), out.begin());
  };
  Bytes out(bytes);
  for (std::size_t at = 0; at < bytes; at += part) {
    const std::size_t count = std::min(part, bytes - at);
    read_strided(view, array.size(), fetch, at, std::span(out).subspan(at, count));
  }
  return out;
}

void expect_by_definition(const StridedView& view, const Bytes& array) {
  const Bytes want = by_definition(view, array);
  for (const std::size_t part : {std::size_t{1}, std::size_t{3}, std::size_t{7}, want.size() + 1}) {
    EXPECT_EQ(read_in_parts(view, array, want.size(), part), want)
        << to_text(view.shape) << to_text(view.stride) << " by " << part;
  }
}

TEST(StridedRead, ViewsOfEveryShapeAreRowMajor) {
  const Bytes array = some_bytes(4096);
  expect_by_definition({{}, {}, 5, 4}, array);
  expect_by_definition({{10}, {1}, 3, 2}, array);
  expect_by_definition({{4, 6}, {6, 1}, 0, 4}, array);            // contiguous
  expect_by_definition({{6, 4}, {1, 6}, 0, 4}, array);            // transposed
  expect_by_definition({{3, 4, 5}, {20, 5, 1}, 7, 2}, array);     // with an offset
  expect_by_definition({{5, 3, 4}, {1, 20, 5}, 0, 8}, array);     // permuted
  expect_by_definition({{7, 9}, {40, 3}, 11, 4}, array);          // every third column
  expect_by_definition({{3, 5}, {1, 0}, 2, 4}, array);            // expanded inside
  expect_by_definition({{3, 5}, {0, 1}, 2, 4}, array);            // expanded outside
  expect_by_definition({{2, 2}, {0, 0}, 9, 1}, array);            // one element, repeated
  expect_by_definition({{4, 3}, {1, 1}, 0, 4}, array);            // windows that overlap
  expect_by_definition({{2, 1, 3}, {3, 99999, 1}, 0, 4}, array);  // a dim of 1: any stride
}

TEST(StridedRead, AnEmptyViewReadsNothing) {
  EXPECT_EQ(read_in_parts({{0, 4}, {4, 1}, 0, 4}, {}, 0, 1), Bytes{});
}

TEST(StridedRead, RandomViewsAreRowMajor) {
  std::mt19937 random(7);
  const auto below = [&](std::int64_t limit) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(limit));
  };
  for (int round = 0; round < 200; ++round) {
    StridedView view;
    view.element_bytes = 1ULL << below(4);
    view.offset = static_cast<std::uint64_t>(below(5));
    for (std::int64_t dims = below(4); dims >= 0; --dims) {
      view.shape.push_back(1 + below(5));
      view.stride.push_back(below(8));
    }
    const Bytes array = some_bytes(*elements_reached(view) * view.element_bytes);
    expect_by_definition(view, array);
  }
}

TEST(StridedRead, ALargeTransposedMatrixIsReadBlockByBlock) {
  constexpr std::int64_t kRows = 700;
  constexpr std::int64_t kColumns = 500;
  const Bytes array = some_bytes(kRows * kColumns * 4);
  const StridedView view{{kColumns, kRows}, {1, kColumns}, 0, 4};
  const Bytes want = by_definition(view, array);
  EXPECT_EQ(read_in_parts(view, array, want.size(), 100'001), want);
}

TEST(StridedRead, LongRunsAreReadWithoutACopyInBetween) {
  const Bytes array = some_bytes(1 << 20);
  const StridedView view{{3, 1 << 17}, {1 << 18, 1}, 64, 1};
  std::size_t fetches = 0;
  const FetchBytes fetch = [&](std::uint64_t at, std::span<std::byte> out) {
    ++fetches;
    std::copy_n(array.begin() + static_cast<std::ptrdiff_t>(at), out.size(), out.begin());
  };
  Bytes out(3U << 17U);
  read_strided(view, array.size(), fetch, 0, out);
  EXPECT_EQ(fetches, 3U);
  EXPECT_EQ(out, by_definition(view, array));
}

TEST(StridedRead, TheReachOfAViewIsItsLastElement) {
  EXPECT_EQ(elements_reached({{}, {}, 0}), 1U);
  EXPECT_EQ(elements_reached({{2, 3}, {3, 1}, 10}), 16U);
  EXPECT_EQ(elements_reached({{2, 3}, {0, 0}, 10}), 11U);
  EXPECT_EQ(elements_reached({{2, 0, 3}, {3, 1, 1}, 10}), 0U);
}

TEST(StridedRead, AReachThatOverflowsIsNone) {
  constexpr std::int64_t kMost = INT64_MAX;
  EXPECT_FALSE(elements_reached({{kMost}, {kMost}, 0}));
  EXPECT_FALSE(elements_reached({{kMost, kMost, kMost}, {2, 2, 2}, 0}));
  EXPECT_FALSE(elements_reached({{1}, {1}, UINT64_MAX}));
  EXPECT_FALSE(elements_reached({{-1}, {1}, 0}));
  EXPECT_FALSE(elements_reached({{2}, {-1}, 5}));
  EXPECT_FALSE(elements_reached({{2, 2}, {1}, 0}));
}

}  // namespace
}  // namespace lockstep::checkpoint
