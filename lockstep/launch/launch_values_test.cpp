#include "lockstep/launch/launch_values.h"

#include <gtest/gtest.h>
#include <signal.h>

namespace lockstep::launch {
namespace {

TEST(LaunchValues, NodesAreANumberOrARange) {
  const auto range = parse_nodes("1:4");
  ASSERT_TRUE(range);
  EXPECT_EQ(range->least, 1);
  EXPECT_EQ(range->most, 4);
  EXPECT_EQ(parse_nodes(" 2 ")->most, 2);
  for (const char* wrong : {"", "0", "4:1", "1:2:3", "two", "1:", "-1", "99999999999"}) {
    EXPECT_FALSE(parse_nodes(wrong)) << wrong;
  }
}

TEST(LaunchValues, StreamsAreOneNumberForAllOrOneForEachRank) {
  const auto all = parse_streams("3");
  ASSERT_TRUE(all);
  EXPECT_EQ(all->of(7), kStdout | kStderr);
  const auto some = parse_streams("0:3,12:1,2:0");
  ASSERT_TRUE(some);
  EXPECT_EQ(some->of(0), 3U);
  EXPECT_EQ(some->of(12), kStdout);
  EXPECT_EQ(some->of(1), 0U) << "a rank that is not named has none";
  EXPECT_TRUE(some->any());
  EXPECT_FALSE(parse_streams("1:0")->any());
  for (const char* wrong : {"", "4", "0:4", "0:1,", "0=1", "x", "-1", "0:1:2"}) {
    EXPECT_FALSE(parse_streams(wrong)) << wrong;
  }
}

TEST(LaunchValues, EndpointsMayNameAPortAndAnAddressOfIpv6) {
  EXPECT_EQ(parse_endpoint("head:29400")->port, 29400);
  EXPECT_EQ(parse_endpoint("head")->port, -1);
  EXPECT_EQ(parse_endpoint("[fd00::7]:80")->host, "fd00::7");
  EXPECT_EQ(parse_endpoint("[fd00::7]:80")->port, 80);
  EXPECT_EQ(parse_endpoint("[fd00::7]")->host, "fd00::7");
  EXPECT_EQ(parse_endpoint("fd00::7")->host, "fd00::7");
  for (const char* wrong : {"", ":80", "head:", "head:x", "head:70000", "[fd00::7", "[]:1"}) {
    EXPECT_FALSE(parse_endpoint(wrong)) << wrong;
  }
}

TEST(LaunchValues, SettingsAreKeysWithValues) {
  const auto settings = parse_settings("timeout=900, join_timeout=5,read_timeout=a=b");
  ASSERT_TRUE(settings);
  EXPECT_EQ(settings->at("join_timeout"), "5");
  EXPECT_EQ(settings->at("read_timeout"), "a=b");
  EXPECT_TRUE(parse_settings("")->empty());
  EXPECT_FALSE(parse_settings("timeout"));
  EXPECT_FALSE(parse_settings("=3"));
}

TEST(LaunchValues, ACommaInsideAFilterIsWrittenTwice) {
  EXPECT_EQ(parse_filters("apple,,pie,orange"), (std::vector<std::string>{"apple,pie", "orange"}));
  EXPECT_TRUE(parse_filters("").empty());
}

TEST(LaunchValues, SignalsAreThoseThatAProcessMayHandle) {
  EXPECT_EQ(parse_signal("SIGUSR1"), SIGUSR1);
  EXPECT_EQ(parse_signal(" SIGTERM"), SIGTERM);
  for (const char* wrong : {"TERM", "SIGKILL", "SIGSTOP", "SIGNONE", ""}) {
    EXPECT_FALSE(parse_signal(wrong)) << wrong;
  }
  EXPECT_EQ(signal_name(SIGHUP), "SIGHUP");
}

TEST(LaunchValues, ASwitchInAVariableIsANumberOrAWord) {
  EXPECT_EQ(parse_switch("1"), true);
  EXPECT_EQ(parse_switch("0"), false);
  EXPECT_EQ(parse_switch("True"), true);
  EXPECT_EQ(parse_switch("no"), false);
  EXPECT_FALSE(parse_switch("maybe"));
}

}  // namespace
}  // namespace lockstep::launch
