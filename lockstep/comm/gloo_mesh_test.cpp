#include "lockstep/comm/gloo_mesh.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace lockstep::comm {
namespace {

TEST(CauseText, LeavesOutSourcePositions) {
  EXPECT_EQ(
      cause_text(std::runtime_error("connect failed with [/x/gloo/tcp/pair.cc:547] Connection "
                                    "closed by peer [127.0.0.1]:22749")),
      "connect failed with Connection closed by peer [127.0.0.1]:22749");
}

TEST(CauseText, IsOneShortLine) {
  EXPECT_EQ(cause_text(std::runtime_error("Timed out. \nstack\ntrace")), "Timed out");
  EXPECT_EQ(cause_text(std::runtime_error(std::string(500, 'x'))).size(), 200U);
  EXPECT_EQ(cause_text(std::runtime_error("")), "");
}

TEST(CauseText, OfATorchErrorComesWithoutItsStackTrace) {
  try {
    TORCH_CHECK(false, "Operation timed out!");
  } catch (const c10::Error& error) {
    EXPECT_EQ(cause_text(error), "Operation timed out!");
  }
}

}  // namespace
}  // namespace lockstep::comm
