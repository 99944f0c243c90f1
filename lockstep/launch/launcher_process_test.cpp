#include "lockstep/launch/launcher_process.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

namespace lockstep::launch {
namespace {

TEST(LauncherProcess, MayOpenAsManyFilesAsTheHardLimitAllowsWhileItLives) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit low{before.rlim_max / 2, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  rlimit now{};
  {
    const LauncherProcess process;
    EXPECT_EQ(process.open_files(), low.rlim_cur);
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &now), 0);
    EXPECT_EQ(now.rlim_cur, before.rlim_max);
  }
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &now), 0);
  EXPECT_EQ(now.rlim_cur, low.rlim_cur);
  EXPECT_EQ(now.rlim_max, before.rlim_max);
  ::setrlimit(RLIMIT_NOFILE, &before);
}

}  // namespace
}  // namespace lockstep::launch
