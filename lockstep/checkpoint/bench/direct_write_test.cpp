#include "lockstep/checkpoint/bench/direct_write.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace lockstep::checkpoint {
namespace {

namespace fs = std::filesystem;

TEST(DirectWrite, IsTimedOnADiskAndInMemoryAndLeavesNothing) {
  for (const fs::path& folder : {fs::temp_directory_path(), fs::path("/dev/shm")}) {
    const fs::path file = folder / "lockstep-direct-write-test";
    EXPECT_GT(direct_write_s(file, (16 << 20) + 1), 0);
    EXPECT_FALSE(fs::exists(file));
  }
}

TEST(DirectWrite, IntoAFolderThatIsNotThereSaysWhichFile) {
  try {
    (void)direct_write_s("/nowhere/file", 1);
    FAIL();
  } catch (const fs::filesystem_error& error) {
    EXPECT_EQ(error.path1(), "/nowhere/file");
  }
}

}  // namespace
}  // namespace lockstep::checkpoint
