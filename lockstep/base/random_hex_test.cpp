#include "lockstep/base/random_hex.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(RandomHex, HasTheDigitsAskedForAndDiffersEachTime) {
  for (const std::size_t digits : {std::size_t{0}, std::size_t{1}, std::size_t{64}}) {
    EXPECT_EQ(random_hex(digits).size(), digits);
  }
  const std::string one = random_hex(64);
  EXPECT_EQ(one.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_NE(one, random_hex(64));
}

}  // namespace
}  // namespace lockstep
