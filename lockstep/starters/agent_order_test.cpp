#include "lockstep/starters/agent_order.h"

#include <gtest/gtest.h>

namespace lockstep::starters {
namespace {

AgentOrder order() {
  return {.command = {"lockstep", "launch", "--", "it's; rm -rf \"$HOME\"\n", ""},
          .environment = {"PYTHONPATH=/a:/b", "EMPTY=", "BYTES=\xff\x01"},
          .folder = "/srv/my project",
          .secret = std::string(64, 'a')};
}

TEST(AgentOrder, GoesThroughBytesUnchanged) {
  const std::string bytes = to_bytes(order());
  const ReadOrder read = read_order(bytes + "T");
  EXPECT_EQ(read.state, OrderState::complete);
  EXPECT_EQ(read.order, order());
  EXPECT_EQ(read.used_bytes, bytes.size());
}

TEST(AgentOrder, IsIncompleteUntilItsLastByte) {
  const std::string bytes = to_bytes(order());
  for (std::size_t count = 0; count < bytes.size(); ++count) {
    EXPECT_EQ(read_order(std::string_view(bytes).substr(0, count)).state, OrderState::incomplete)
        << count;
  }
}

TEST(AgentOrder, WhatIsNoneIsRefusedAtOnce) {
  const std::string head(kOrderMagic);
  const std::string no_command(
      "/\0\0"
      "0\0",
      5);
  const std::string no_name(
      "/\0\0"
      "1\0=x\0ls\0",
      11);
  for (const std::string& bad :
       {std::string("Welcome to node-a\n"), head + "x\n", head + "-1\n", head + "99999999999\n",
        head + std::string(20, '1'), head + "0\n", head + "5\n" + no_command,
        head + "11\n" + no_name, head + "3\n/\0a"}) {
    EXPECT_NE(read_order(bad).state, OrderState::complete) << bad;
  }
  EXPECT_EQ(read_order("Welcome").state, OrderState::malformed);
  EXPECT_EQ(read_order(head + "99999999999\n").state, OrderState::malformed);
  EXPECT_EQ(read_order(head + "5\n" + no_command).state, OrderState::malformed);
  EXPECT_EQ(read_order(head + "11\n" + no_name).state, OrderState::malformed);
}

}  // namespace
}  // namespace lockstep::starters
