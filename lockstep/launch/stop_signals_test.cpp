#include "lockstep/launch/stop_signals.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

namespace lockstep::launch {
namespace {

TEST(StopSignals, ThoseOfTheRanksComeApartFromThoseThatEndTheJob) {
  StopSignals signals({SIGTERM, SIGUSR1}, user_signals());
  ::kill(::getpid(), SIGUSR1);
  ::kill(::getpid(), SIGUSR2);
  EXPECT_EQ(signals.next(), SIGUSR1) << "what is in both lists asks to end";
  EXPECT_EQ(signals.next(), std::nullopt);
  EXPECT_EQ(signals.next_passed_on(), SIGUSR2);
  EXPECT_EQ(signals.next_passed_on(), std::nullopt);
}

TEST(StopSignals, WhatWasIgnoredStaysIgnored) {
  ::signal(SIGUSR1, SIG_IGN);
  {
    StopSignals signals({SIGTERM}, user_signals());
    ::kill(::getpid(), SIGUSR1);
    EXPECT_EQ(signals.next_passed_on(), std::nullopt);
  }
  ::signal(SIGUSR1, SIG_DFL);
}

TEST(StopSignals, AProcessAwaitsWhatItHandlesWaitsForOrIgnores) {
  EXPECT_FALSE(is_awaited(::getpid(), SIGUSR2));
  ::signal(SIGUSR2, SIG_IGN);
  EXPECT_TRUE(is_awaited(::getpid(), SIGUSR2));
  ::signal(SIGUSR2, [](int) {});
  EXPECT_TRUE(is_awaited(::getpid(), SIGUSR2));
  EXPECT_FALSE(is_awaited(::getpid(), SIGUSR1)) << "its neighbour";
  ::signal(SIGUSR2, SIG_DFL);
  sigset_t waited_for;
  ::sigemptyset(&waited_for);
  ::sigaddset(&waited_for, SIGUSR2);
  ::sigprocmask(SIG_BLOCK, &waited_for, nullptr);
  EXPECT_TRUE(is_awaited(::getpid(), SIGUSR2));
  ::sigprocmask(SIG_UNBLOCK, &waited_for, nullptr);
  EXPECT_FALSE(is_awaited(999'999'999, SIGUSR2)) << "no process";
}

}  // namespace
}  // namespace lockstep::launch
