#include "lockstep/base/limits.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <new>
#include <stdexcept>
#include <system_error>

namespace lockstep {
namespace {

TEST(Limits, RunningOutOfDescriptorsNamesTheLimitOnOpenFiles) {
  const EnvironmentFault fault = limit_fault("no pipe can be made", EMFILE);
  EXPECT_EQ(fault.exit(), Exit::environment);
  EXPECT_EQ(fault.problems()[0].what, "no pipe can be made: Too many open files");
  EXPECT_NE(fault.problems()[0].fix.find("ulimit -n"), std::string::npos);
}

TEST(Limits, WhatTheStandardLibraryThrowsIsTold) {
  const auto memory = limit_fault_of(std::bad_alloc());
  ASSERT_TRUE(memory.has_value());
  EXPECT_NE(memory->problems()[0].fix.find("ulimit -v"), std::string::npos);
  const auto thread = limit_fault_of(std::system_error(EAGAIN, std::generic_category()));
  ASSERT_TRUE(thread.has_value());
  EXPECT_NE(thread->problems()[0].fix.find("ulimit -u"), std::string::npos);
}

TEST(Limits, OtherExceptionsAreNotLimits) {
  EXPECT_FALSE(limit_fault_of(std::runtime_error("x")).has_value());
  EXPECT_FALSE(limit_fault_of(std::system_error(ENOENT, std::generic_category())).has_value());
}

}  // namespace
}  // namespace lockstep
