#include "lockstep/checkpoint/foreign/crc32.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace lockstep::checkpoint {
namespace {

std::uint32_t sum_of(std::string_view text, std::uint32_t before = 0) {
  return crc32(std::as_bytes(std::span(text)), before);
}

TEST(Crc32, IsThatOfZipArchives) {
  EXPECT_EQ(sum_of(""), 0U);
  EXPECT_EQ(sum_of("a"), 0xe8b7be43U);
  EXPECT_EQ(sum_of("123456789"), 0xcbf43926U);  // the check value of the standard
  EXPECT_EQ(sum_of("The quick brown fox jumps over the lazy dog"), 0x414fa339U);
}

TEST(Crc32, APartAfterTheOtherGivesTheSumOfTheWhole) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += static_cast<char>(i * 37 % 251);
  for (const std::size_t cut : {0, 1, 7, 8, 9, 500, 999, 1000}) {
    EXPECT_EQ(sum_of(text.substr(cut), sum_of(text.substr(0, cut))), sum_of(text)) << cut;
  }
}

TEST(Crc32, OneBitChangesIt) {
  std::string text(100, 'x');
  const std::uint32_t before = sum_of(text);
  for (char& c : text) {
    c ^= 1;
    EXPECT_NE(sum_of(text), before);
    c ^= 1;
  }
}

}  // namespace
}  // namespace lockstep::checkpoint
