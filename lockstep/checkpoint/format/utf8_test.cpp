#include "lockstep/checkpoint/format/utf8.h"

#include <gtest/gtest.h>

namespace lockstep::checkpoint {
namespace {

TEST(Utf8, TextIsTaken) {
  for (const std::string_view text :
       {"", "plain", "é", "€", "😀", "\xed\x9f\xbf", "\xee\x80\x80", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_TRUE(is_utf8(text)) << text;
  }
  EXPECT_TRUE(is_utf8(std::string_view("a\0b", 3)));
}

TEST(Utf8, WhatIsNoneIsRefused) {
  for (const std::string_view bytes :
       {"\x80", "\xff", "a\xc3", "\xc0\x80", "\xc1\xbf", "\xe0\x80\x80", "\xe2\x82", "\xe2\x28\xa1",
        "\xed\xa0\x80", "\xf0\x80\x80\x80", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80",
        "\xc3\xa9\xa9"}) {
    EXPECT_FALSE(is_utf8(bytes));
  }
}

}  // namespace
}  // namespace lockstep::checkpoint
