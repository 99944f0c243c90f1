#include "lockstep/comm/control/knocks.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <chrono>
#include <string>
#include <thread>

#include "lockstep/base/socket.h"
#include "lockstep/comm/control/silent_port_testing.h"

namespace lockstep::comm::control {
namespace {

using std::chrono::milliseconds;
using Clock = Knocks::Clock;

/// Tends for a while, or until there is an answer.
bool is_answered(Knocks& knocks, milliseconds longest) {
  const auto end = Clock::now() + longest;
  while (!knocks.answered() && Clock::now() < end) {
    knocks.tend(Clock::now());
    std::this_thread::sleep_for(milliseconds(5));
  }
  return knocks.answered().has_value();
}

TEST(Knocks, AListenerAnswersAndSoDoesAClosedPort) {
  for (const char* host : {"127.0.0.1", "::1"}) {
    Listener listener = listen_on(host, 0);
    Knocks knocks(host, listener.port);
    EXPECT_TRUE(is_answered(knocks, std::chrono::seconds(20)));
    listener.fd.reset();
    Knocks others(host, listener.port);
    EXPECT_TRUE(is_answered(others, std::chrono::seconds(20)));
  }
}

TEST(Knocks, WhereNothingComesBackThereIsNoAnswer) {
  const SilentPort port;
  Knocks knocks("127.0.0.1", port.number());
  EXPECT_FALSE(is_answered(knocks, milliseconds(600)));
}

TEST(Knocks, WhatIsNoAddressAnswersNothing) {
  Knocks knocks("no address", 80);
  EXPECT_FALSE(is_answered(knocks, milliseconds(20)));
}

}  // namespace
}  // namespace lockstep::comm::control
