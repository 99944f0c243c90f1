#include "lockstep/base/terminal.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/ioctl.h>

#include "lockstep/base/fd.h"

namespace lockstep {
namespace {

TEST(Terminal, ItsWidthIsAskedOfTheKernel) {
  const Fd terminal(::posix_openpt(O_RDWR | O_NOCTTY));
  ASSERT_TRUE(terminal);
  winsize size{};
  size.ws_col = 123;
  ASSERT_EQ(::ioctl(terminal.get(), TIOCSWINSZ, &size), 0);
  EXPECT_EQ(terminal_columns(terminal.get()), 123U);
}

TEST(Terminal, WhatIsNoneHasEightyColumns) { EXPECT_EQ(terminal_columns(-1), 80U); }

}  // namespace
}  // namespace lockstep
