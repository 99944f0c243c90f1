#include "lockstep/base/file_lock.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include "tests/support/scratch_folder.h"

namespace lockstep {
namespace {

TEST(FileLock, OfAFileOrAFolderIsHeldByOneAndGoesWithItsDescriptor) {
  const test::ScratchFolder scratch;
  for (const std::string& path : {scratch.write("file", ""), scratch.path().string()}) {
    const auto open = [&] { return Fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC)); };
    Fd first = open();
    const Fd second = open();
    EXPECT_TRUE(take_lock(first)) << path;
    EXPECT_FALSE(take_lock(second)) << path;
    first.reset();
    EXPECT_TRUE(take_lock(second)) << path;
  }
}

}  // namespace
}  // namespace lockstep
