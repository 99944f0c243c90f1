#include "lockstep/checkpoint/format/block_sums.h"

#include <gtest/gtest.h>

#include "lockstep/checkpoint/format/checksum.h"

namespace lockstep::checkpoint {
namespace {

std::vector<std::byte> counted(std::size_t bytes) {
  std::vector<std::byte> all(bytes);
  for (std::size_t i = 0; i < bytes; ++i) all[i] = static_cast<std::byte>(i * 7);
  return all;
}

/// Of blocks of ten bytes, whatever the parts in which they come.
TEST(BlockSums, AreTheSumsOfEachBlockHoweverTheBytesCome) {
  const std::vector<std::byte> all = counted(35);
  const std::span bytes(all);
  const std::vector<std::uint64_t> expected{
      checksum(bytes.subspan(0, 10)), checksum(bytes.subspan(10, 10)),
      checksum(bytes.subspan(20, 10)), checksum(bytes.subspan(30, 5))};
  for (std::size_t part = 1; part <= 36; ++part) {
    BlockSums sums(10);
    for (std::size_t at = 0; at < all.size(); at += part) {
      sums.add(bytes.subspan(at, std::min(part, all.size() - at)));
    }
    EXPECT_EQ(sums.finish(), expected) << part;
  }
}

TEST(BlockSums, OfNothingAreNone) {
  EXPECT_TRUE(BlockSums().finish().empty());
  EXPECT_EQ(block_count(0, 10), 0U);
  EXPECT_EQ(block_count(10, 10), 1U);
  EXPECT_EQ(block_count(11, 10), 2U);
}

}  // namespace
}  // namespace lockstep::checkpoint
