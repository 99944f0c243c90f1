#include "lockstep/base/hmac.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lockstep {
namespace {

std::string hex(const Code& code) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const auto byte : code) {
    text += kDigits[byte >> 4U];
    text += kDigits[byte & 15U];
  }
  return text;
}

TEST(Hmac, GivesTheCodesOfRfc4231) {
  const std::vector<std::uint8_t> twenty(20, 0x0b);
  EXPECT_EQ(hex(hmac_sha256(twenty, "Hi There")),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  const std::vector<std::uint8_t> jefe{'J', 'e', 'f', 'e'};
  EXPECT_EQ(hex(hmac_sha256(jefe, "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  const std::vector<std::uint8_t> longer_than_a_block(131, 0xaa);
  EXPECT_EQ(hex(hmac_sha256(longer_than_a_block,
                            "Test Using Larger Than Block-Size Key - Hash Key First")),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(Hmac, CodesAreTheSameOnlyInEveryByte) {
  const std::vector<std::uint8_t> key(32, 7);
  const Code code = hmac_sha256(key, "frame");
  EXPECT_TRUE(is_same_code(code, hmac_sha256(key, "frame")));
  for (std::size_t i = 0; i < code.size(); ++i) {
    Code other = code;
    other[i] ^= 1U;
    EXPECT_FALSE(is_same_code(code, other)) << "byte " << i;
  }
  EXPECT_FALSE(is_same_code(code, std::span(code).first(31)));
}

}  // namespace
}  // namespace lockstep
