#include "lockstep/checkpoint/foreign/claimed_bytes.h"

#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep::checkpoint {
namespace {

TEST(ClaimedBytesOfTensors, AreAtMostAGigabyteAndAThousandTimesTheFiles) {
  ClaimedBytes claimed(7);
  EXPECT_TRUE(claimed.add(1'000'000'000));
  EXPECT_TRUE(claimed.add(6'999));
  EXPECT_FALSE(claimed.add(2));
  EXPECT_TRUE(claimed.add(1));
  EXPECT_FALSE(claimed.add(1));
  EXPECT_TRUE(claimed.add(0));
  EXPECT_FALSE(claimed.add(UINT64_MAX));
}

TEST(ClaimedBytesOfTensors, OfASparseFileOfAnySizeDoNotWrapAround) {
  for (const std::uint64_t file_bytes : {UINT64_MAX, UINT64_MAX / 1000, UINT64_MAX / 1000 + 1}) {
    ClaimedBytes claimed(file_bytes);
    EXPECT_TRUE(claimed.add(UINT64_MAX - 2'000'000'000)) << file_bytes;
  }
}

TEST(ClaimedBytesOfTensors, NameTheTensorThatIsTooMuch) {
  const std::vector<StoredTensor> tensors{{"a", "F32", {1 << 28}}, {"b", "U8", {1}}};
  EXPECT_NO_THROW(check_claims(tensors, 1 << 20, "folder"));
  try {
    check_claims(tensors, 1 << 10, "folder");
    FAIL();
  } catch (const BadData& error) {
    EXPECT_EQ(error.problems()[0].code, "LS-5020");
    EXPECT_EQ(error.problems()[0].where, "folder");
    EXPECT_NE(error.problems()[0].what.find("the last is a [268435456]"), std::string::npos);
  }
}

}  // namespace
}  // namespace lockstep::checkpoint
