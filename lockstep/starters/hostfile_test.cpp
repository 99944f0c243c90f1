#include "lockstep/starters/hostfile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/problem_of.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::starters {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<HostSlots> hosts_of(std::string_view text) {
  HostList list = parse_hostfile(text, "hostfile");
  EXPECT_THAT(list.problems, IsEmpty()) << to_text(list.problems);
  return list.hosts;
}

/// The only problem of `text`.
Problem fault_of(std::string_view text) {
  const HostList list = parse_hostfile(text, "hostfile");
  EXPECT_EQ(list.problems.size(), 1U) << text << "\n" << to_text(list.problems);
  return list.problems.empty() ? Problem{} : list.problems.front();
}

TEST(Hostfile, ReadsDeepSpeedsForm) {
  EXPECT_THAT(hosts_of("# our nodes\n\nnode-a slots=4\n  node-b.lan slots=2 # the small one\n"),
              ElementsAre(HostSlots{"node-a", 4}, HostSlots{"node-b.lan", 2}));
}

TEST(Hostfile, ReadsOpenMpisForm) {
  EXPECT_THAT(
      hosts_of("aa slots=2 max_slots=4\r\nbb\r\ncc:8\r\ndd slots = 3 max-slots=3"),
      ElementsAre(HostSlots{"aa", 2}, HostSlots{"bb", 0}, HostSlots{"cc", 8}, HostSlots{"dd", 3}));
}

TEST(Hostfile, ReadsAddresses) {
  EXPECT_THAT(hosts_of("10.0.0.7 slots=2\nfd00::7 slots=2\n[fd00::8]:4\n[fd00::9]\n"),
              ElementsAre(HostSlots{"10.0.0.7", 2}, HostSlots{"fd00::7", 2},
                          HostSlots{"fd00::8", 4}, HostSlots{"fd00::9", 0}));
}

TEST(Hostfile, AMisspeltKeyIsNamedWithLineAndColumn) {
  const Problem problem = fault_of("node-a slots=8\nnode-b lots=8\n");
  EXPECT_EQ(problem.code, "LS-1041");
  EXPECT_EQ(problem.where, "hostfile:2:8");
  EXPECT_EQ(problem.what, "unknown key 'lots'");
  EXPECT_EQ(problem.fix, "did you mean slots?");
}

TEST(Hostfile, ValuesThatAreNoCountsAreNamed) {
  for (const char* bad : {"0", "-1", "two", "1.5", "1025", "99999999999999999999"}) {
    const Problem problem = fault_of("node-a slots=" + std::string(bad) + "\n");
    EXPECT_EQ(problem.where, "hostfile:1:14");
    EXPECT_THAT(problem.what, HasSubstr(bad));
  }
  EXPECT_EQ(fault_of("node-a slots=\n").what, "slots has no value");
  EXPECT_EQ(fault_of("node-a slots\n").what, "slots has no value");
  EXPECT_EQ(fault_of("node-a:x\n").where, "hostfile:1:8");
  EXPECT_THAT(fault_of("node-a:4 slots=2\n").what, HasSubstr("twice"));
  EXPECT_THAT(fault_of("node-a slots=4 slots=2\n").what, HasSubstr("twice"));
  EXPECT_THAT(fault_of("node-a slots=4 max_slots=2\n").what, HasSubstr("less than slots"));
}

TEST(Hostfile, AHostStandsOnce) {
  const Problem problem = fault_of("a slots=1\nb slots=1\na slots=2\n");
  EXPECT_EQ(problem.code, "LS-1043");
  EXPECT_EQ(problem.where, "hostfile:3:1");
  EXPECT_THAT(problem.what, HasSubstr("first on line 1"));
}

TEST(Hostfile, WhatIsNoHostNeverReachesACommandLine) {
  for (const char* bad :
       {"-oProxyCommand=x", "-l", "a;b", "$(id)", "`id`", "a'b", "a|b", "user@a", "a/b", "h\x1b[2J",
        "h\x01", "n\xc3\xb6", "::::", "[fd00::1", "[]", "[a]x"}) {
    const HostList list = parse_hostfile(std::string(bad) + " slots=1\n", "hostfile");
    EXPECT_THAT(list.hosts, IsEmpty()) << bad;
    ASSERT_FALSE(list.problems.empty()) << bad;
    EXPECT_EQ(list.problems.front().code, "LS-1042") << bad;
    for (const char c : to_text(list.problems)) EXPECT_TRUE(c == '\n' || c >= 0x20) << bad;
  }
  EXPECT_FALSE(is_host_name(std::string(254, 'a')));
  EXPECT_FALSE(is_host_name("a b"));
  EXPECT_FALSE(is_host_name(std::string_view("a\0b", 3)));
  EXPECT_FALSE(is_host_name(std::string_view("::1\0;id", 7)));
  EXPECT_TRUE(is_host_name("gpu_node-7.lan"));
}

TEST(Hostfile, AllFaultsAreFoundAtOnce) {
  const HostList list = parse_hostfile("a lots=1\n-x\nb slots=0\nb\n", "hostfile");
  EXPECT_EQ(list.problems.size(), 4U) << to_text(list.problems);
}

TEST(Hostfile, AnEmptyOneNamesNoHost) {
  EXPECT_EQ(fault_of("").what, "names no host");
  EXPECT_EQ(fault_of("# all are down\n\n").where, "hostfile");
}

TEST(Hostfile, AMissingFileIsAnErrorAndNotALocalRun) {
  const test::ScratchFolder folder;
  for (const std::string& path : {folder.file("none"), folder.path().string()}) {
    const Problem problem = test::problem_of<UsageError>([&] { (void)read_hostfile(path); });
    EXPECT_EQ(problem.code, "LS-1001");
    EXPECT_EQ(problem.where, path);
  }
  const std::string file = folder.write("hosts", "a slots=2\nb slots=2\n");
  EXPECT_THAT(read_hostfile(file), ElementsAre(HostSlots{"a", 2}, HostSlots{"b", 2}));
  const std::string bad = folder.write("bad", "a lots=2\n");
  EXPECT_EQ(test::problem_of<UsageError>([&] { (void)read_hostfile(bad); }).where, bad + ":1:3");
}

TEST(HostList, ReadsTheWordsOfTheFlag) {
  EXPECT_THAT(parse_host_list("h1:4,h2:4").hosts,
              ElementsAre(HostSlots{"h1", 4}, HostSlots{"h2", 4}));
  EXPECT_THAT(parse_host_list("h1").hosts, ElementsAre(HostSlots{"h1", 0}));
  EXPECT_THAT(parse_host_list("[::1]:2,10.0.0.1").hosts,
              ElementsAre(HostSlots{"::1", 2}, HostSlots{"10.0.0.1", 0}));
}

TEST(HostList, RefusesWhatIsNone) {
  for (const char* bad :
       {"", ",", "h1,", ",h1", "h1,,h2", "h1 h2", "h1:0", "h1:", "h1,h1", "-x:4"}) {
    const HostList list = parse_host_list(bad);
    ASSERT_FALSE(list.problems.empty()) << bad;
    EXPECT_EQ(list.problems.front().where, "--hosts") << bad;
  }
}

}  // namespace
}  // namespace lockstep::starters
