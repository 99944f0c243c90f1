#include "lockstep/memory/size_classes.h"

#include <gtest/gtest.h>

namespace lockstep::memory {
namespace {

TEST(SizeClasses, HoldWhatTheyAreChosenForWithAnEighthOfSlackAtMost) {
  for (std::size_t bytes = 1; bytes < 300'000'000; bytes += 1 + bytes / 37) {
    const std::size_t size_class = class_of(bytes);
    const std::size_t capacity = bytes_of_class(size_class);
    ASSERT_GE(capacity, bytes);
    ASSERT_TRUE(capacity <= 512 || capacity - bytes <= bytes / 8 + 1) << bytes;
    ASSERT_TRUE(size_class == 0 || bytes_of_class(size_class - 1) < bytes) << bytes;
  }
}

TEST(SizeClasses, AreIncreasingMultiplesOfTheAlignment) {
  for (std::size_t c = 0; c < kSizeClasses; ++c) {
    ASSERT_EQ(bytes_of_class(c) % 64, 0U);
    ASSERT_EQ(class_of(bytes_of_class(c)), c);
  }
  EXPECT_EQ(bytes_of_class(0), 64U);
  EXPECT_EQ(bytes_of_class(kSizeClasses - 1), std::size_t{1} << 47);
}

}  // namespace
}  // namespace lockstep::memory
