#include "lockstep/comm/shm/cpu_sets.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

namespace lockstep::comm::shm {
namespace {

std::string set_of(const std::vector<int>& numbers) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  for (const int number : numbers) CPU_SET(number, &cpus);
  return {reinterpret_cast<const char*>(&cpus), sizeof cpus};
}

/// Within the quota of this machine, whatever it is.
int at_most_allowed(int cpus) { return std::min(cpus, count_cpus({""})); }

TEST(CpuSets, PinnedRanksHaveOneEachAndRanksOfOneSetShareIt) {
  EXPECT_EQ(count_cpus({set_of({0}), set_of({1})}), at_most_allowed(2));
  EXPECT_EQ(count_cpus({set_of({0, 1}), set_of({0, 1}), set_of({1})}), at_most_allowed(2));
  EXPECT_EQ(count_cpus({set_of({3}), set_of({3})}), 1);
}

TEST(CpuSets, WhatNobodyCanTellCountsAsTheWholeMachine) {
  EXPECT_GE(count_cpus({set_of({0}), ""}), count_cpus({set_of({0})}));
  EXPECT_EQ(count_cpus({"not a set"}), count_cpus({""}));
}

TEST(CpuSets, AreThoseOfTheThreadThatAsks) {
  std::thread([] {
    const std::string before = own_cpus();
    cpu_set_t one;
    CPU_ZERO(&one);
    const int now = ::sched_getcpu();
    CPU_SET(now, &one);
    ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_EQ(own_cpus(), set_of({now}));
    EXPECT_EQ(before.size(), own_cpus().size());
  }).join();
}

}  // namespace
}  // namespace lockstep::comm::shm
