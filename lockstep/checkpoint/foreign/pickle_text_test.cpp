#include "lockstep/checkpoint/foreign/pickle_text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace lockstep::checkpoint {
namespace {

using std::string_literals::operator""s;

TEST(PickleText, NumbersOfAnyLengthGetTheirDigits) {
  EXPECT_EQ(decimal_of(""), "0");
  EXPECT_EQ(decimal_of("\0\0\0"s), "0");
  EXPECT_EQ(decimal_of("\x7f"), "127");
  EXPECT_EQ(decimal_of("\x80"), "-128");
  EXPECT_EQ(decimal_of("\xff"), "-1");
  EXPECT_EQ(decimal_of("\xff\0"s), "255");
  EXPECT_EQ(decimal_of("\0\0\0\0\0\0\0\0\x01"s), "18446744073709551616");
  EXPECT_EQ(decimal_of("\0\0\0\0\0\0\0\x80"s), "-9223372036854775808");
  EXPECT_EQ(decimal_of("\x00\xca\x9a\x3b"s), "1000000000");  // zeros within the number stay
  EXPECT_EQ(decimal_of("\x01\xca\x9a\x3b"s), "1000000001");
  EXPECT_EQ(decimal_of(std::string(1024, '\xff')), "-1");
}

TEST(PickleText, AWholeNumberIsReadOrRefused) {
  EXPECT_EQ(parse_integer("-9223372036854775808"), INT64_MIN);
  EXPECT_EQ(parse_integer("9223372036854775807"), INT64_MAX);
  for (const char* bad : {"", "-", "+1", " 1", "1 ", "1.0", "0x1", "9223372036854775808"}) {
    EXPECT_FALSE(parse_integer(bad).has_value()) << bad;
  }
}

TEST(PickleText, AFloatIsReadOrRefused) {
  EXPECT_EQ(parse_real("0.25"), 0.25);
  EXPECT_EQ(parse_real("1e+20"), 1e20);
  EXPECT_TRUE(std::isinf(parse_real("-inf").value()));
  EXPECT_TRUE(std::isnan(parse_real("nan").value()));
  for (const char* bad : {"", "1,5", "1.0x", "one"}) EXPECT_FALSE(parse_real(bad)) << bad;
}

TEST(PickleText, EscapesOfProtocolZeroBecomeUtf8) {
  EXPECT_EQ(unescape_unicode("abc"), "abc");
  EXPECT_EQ(unescape_unicode("\xe9"), "é");
  EXPECT_EQ(unescape_unicode("\\u00e9\\u20ac\\U0001f600"), "é€😀");
  EXPECT_EQ(unescape_unicode("C:\\path"), "C:\\path");
  for (const char* bad : {"\\u12", "\\uzzzz", "\\ud800", "\\U00110000", "\\u", "\\U0001"}) {
    EXPECT_FALSE(unescape_unicode(bad).has_value()) << bad;
  }
}

}  // namespace
}  // namespace lockstep::checkpoint
