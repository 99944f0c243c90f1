#include "lockstep/comm/records/purpose.h"

#include <gtest/gtest.h>

#include <thread>

namespace lockstep::comm {
namespace {

TEST(Purpose, TheInnermostOneCountsAndOnlyOnItsThread) {
  EXPECT_EQ(Purpose::current(), "");
  const Purpose outer("outer");
  {
    const Purpose inner("inner");
    EXPECT_EQ(Purpose::current(), "inner");
    std::thread([] { EXPECT_EQ(Purpose::current(), ""); }).join();
  }
  EXPECT_EQ(Purpose::current(), "outer");
}

}  // namespace
}  // namespace lockstep::comm
