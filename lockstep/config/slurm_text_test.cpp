#include "lockstep/config/slurm_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::config {
namespace {

using testing::ElementsAre;

TEST(SlurmText, ReadsTheFirstHost) {
  EXPECT_EQ(first_slurm_host("gn10"), "gn10");
  EXPECT_EQ(first_slurm_host("gn[010,20]"), "gn010");
  EXPECT_EQ(first_slurm_host("gn[25-27],x1"), "gn25");
  EXPECT_EQ(first_slurm_host("n[1-2]-ib,m"), "n1-ib");
  EXPECT_EQ(first_slurm_host("r[0-1]n[0-3]"), "r0n0");
  for (const char* bad : {"", "[", "n[1", ",a", "a b", "-x", "a;b", "n[]", "n[a]", "n[2-1]"}) {
    EXPECT_EQ(first_slurm_host(bad), "") << bad;
  }
}

TEST(SlurmText, ExpandsANodeList) {
  EXPECT_THAT(*slurm_hosts("gn[10,20,25-27],x[001-003]-b"),
              ElementsAre("gn10", "gn20", "gn25", "gn26", "gn27", "x001-b", "x002-b", "x003-b"));
  EXPECT_THAT(*slurm_hosts("localhost"), ElementsAre("localhost"));
  EXPECT_THAT(*slurm_hosts("a,b.example,c-1"), ElementsAre("a", "b.example", "c-1"));
}

TEST(SlurmText, SeveralBracketsAreEveryChoiceInOrder) {
  EXPECT_THAT(*slurm_hosts("r[0-1]n[7-8]"), ElementsAre("r0n7", "r0n8", "r1n7", "r1n8"));
}

TEST(SlurmText, NumbersKeepTheWidthOfTheFirst) {
  EXPECT_THAT(*slurm_hosts("n[08-11]"), ElementsAre("n08", "n09", "n10", "n11"));
  EXPECT_THAT(*slurm_hosts("n[8-11]"), ElementsAre("n8", "n9", "n10", "n11"));
}

TEST(SlurmText, WhatIsNoNodeListGivesNothing) {
  for (const char* bad : {"", ",", "a,", "a,,b", "n[1-2", "n1-2]", "n[1-]", "n[-2]", "n[1-2-3]",
                          "n[3-1]", "a b", "-oProxyCommand=x", "n[1 2]", "n[1234567890]"}) {
    EXPECT_EQ(slurm_hosts(bad), std::nullopt) << bad;
  }
}

TEST(SlurmText, AListThatWouldFillTheMemoryIsRefused) {
  EXPECT_EQ(slurm_hosts("n[0-65535]")->size(), kMostSlurmHosts);
  EXPECT_EQ(slurm_hosts("n[0-65536]"), std::nullopt);
  EXPECT_EQ(slurm_hosts("n[0-999999999]"), std::nullopt);
  EXPECT_EQ(slurm_hosts("n[0-999][0-999][0-999]"), std::nullopt);
  EXPECT_EQ(slurm_hosts("a[0-60000],b[0-60000]"), std::nullopt);
  EXPECT_EQ(slurm_hosts(std::string(300, 'a')), std::nullopt);
}

TEST(SlurmText, ReadsTheTasksOfANode) {
  EXPECT_EQ(slurm_tasks_on_node("4(x3),2", 0), 4);
  EXPECT_EQ(slurm_tasks_on_node("4(x3),2", 2), 4);
  EXPECT_EQ(slurm_tasks_on_node("4(x3),2", 3), 2);
  EXPECT_EQ(slurm_tasks_on_node("4(x3),2", 4), std::nullopt);
  for (const char* bad : {"", "x", "4(x", "4(x)", "(x2)", "4(x3", "-1", "0", ","}) {
    EXPECT_EQ(slurm_tasks_on_node(bad, 0), std::nullopt) << bad;
  }
}

TEST(SlurmText, ThePortFollowsFromTheLastFourDigitsOfTheJob) {
  EXPECT_EQ(slurm_port("987654"), 22654);
  EXPECT_EQ(slurm_port("12"), 15012);
  EXPECT_EQ(slurm_port("120003"), 15003);
  EXPECT_EQ(slurm_port("x"), 15000);
  EXPECT_EQ(slurm_port(""), 15000);
}

}  // namespace
}  // namespace lockstep::config
