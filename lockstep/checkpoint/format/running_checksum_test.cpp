#include "lockstep/checkpoint/format/running_checksum.h"

#include <gtest/gtest.h>

#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/format/checksum.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::checkpoint {
namespace {

std::vector<std::byte> ramp(std::size_t bytes) {
  std::vector<std::byte> values(bytes);
  for (std::size_t i = 0; i < bytes; ++i) values[i] = static_cast<std::byte>(i * 31 + i / 251);
  return values;
}

TEST(RunningChecksum, PartsGiveTheSameAsTheWhole) {
  for (const std::size_t bytes : {0U, 1U, 17U, 240U, 241U, 5000U}) {
    const auto whole = ramp(bytes);
    for (const std::size_t part : {1U, 7U, 1024U}) {
      RunningChecksum sum;
      for (std::size_t at = 0; at < bytes; at += part) {
        sum.add(std::span(whole).subspan(at, std::min(part, bytes - at)));
      }
      sum.add({});
      EXPECT_EQ(sum.value(), checksum(whole)) << bytes << " in parts of " << part;
    }
  }
}

TEST(RunningChecksum, ARangeOfAFileIsItsBytes) {
  const test::ScratchFolder scratch;
  const auto bytes = ramp((std::size_t{5} << 19U) + 3);  // several parts
  const std::string path = scratch.write(
      "f", std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  const InputFile file(path);
  EXPECT_EQ(checksum_of_range(file, 0, bytes.size()), checksum(bytes));
  EXPECT_EQ(checksum_of_range(file, 5, 100), checksum(std::span(bytes).subspan(5, 100)));
  EXPECT_EQ(checksum_of_range(file, 9, 0), checksum(std::string_view()));
  EXPECT_THROW((void)checksum_of_range(file, 1, bytes.size()), BadData);
}

}  // namespace
}  // namespace lockstep::checkpoint
