#include "lockstep/planner/cluster_spec.h"

#include <gtest/gtest.h>

#include <string>

namespace lockstep::planner {
namespace {

TEST(ClusterSpec, IsDevicesOfAHostTimesHosts) {
  const ReadCluster four = read_cluster("8xA100-80G*4", "--cluster");
  ASSERT_TRUE(four.machine.has_value());
  EXPECT_EQ(four.machine->device.name, "A100-80G");
  EXPECT_EQ(four.machine->devices, 32);
  EXPECT_EQ(four.machine->devices_per_host, 8);
  EXPECT_EQ(four.machine->between.name, "HDR InfiniBand");
  const ReadCluster one = read_cluster("2xrtx4090-24g", "--cluster");
  ASSERT_TRUE(one.machine.has_value());
  EXPECT_EQ(one.machine->devices, 2);
  EXPECT_FALSE(four.network_named);
  const ReadCluster linked = read_cluster("4xH100-80G*2@100 GbE", "--cluster");
  EXPECT_EQ(linked.machine->between.name, "100 GbE");
  EXPECT_TRUE(linked.network_named);
}

TEST(ClusterSpec, IsRefusedWhereItCannotBeRead) {
  for (const char* spec :
       {"", "A100-80G", "0xA100-80G", "8x", "8xA100-80G*", "8xA100-80G*0", "-8xA100-80G",
        "8 xA100-80G", "9999xA100-80G", "8xA100-80G*999999999", "99999999999999999999xA100-80G"}) {
    const ReadCluster read = read_cluster(spec, "--cluster");
    ASSERT_EQ(read.problems.size(), 1U) << spec;
    EXPECT_EQ(read.problems.front().code, "LS-6114") << spec;
    EXPECT_FALSE(read.machine.has_value());
  }
  EXPECT_EQ(read_cluster("8xA100", "--cluster").problems.front().code, "LS-6111");
  const ReadCluster both = read_cluster("8xA100*2@9 GbE", "--cluster");
  EXPECT_EQ(both.problems.size(), 2U);
}

TEST(ClusterFile, SaysTheSameAndTheLinks) {
  const ReadCluster read = read_cluster_file(
      "device = \"H100-80G\"\ndevices_per_host = 4\nhosts = 3\ninside = \"PCIe 5\"\n"
      "between = \"25 GbE\"\n",
      "cluster.toml");
  ASSERT_TRUE(read.machine.has_value());
  EXPECT_EQ(read.machine->devices, 12);
  EXPECT_EQ(read.machine->inside.name, "PCIe 5");
  EXPECT_EQ(read.machine->between.name, "25 GbE");
  EXPECT_TRUE(read.network_named);
  const ReadCluster usual = read_cluster_file("device = \"A64FX\"\nhosts = 5", "c");
  EXPECT_EQ(usual.machine->devices, 5);
  EXPECT_FALSE(usual.network_named);
}

TEST(ClusterFile, NamesEachFaultWithItsPlace) {
  const ReadCluster read = read_cluster_file(
      "devise = \"H100-80G\"\nhosts = 0\ninside = \"NVLink 9\"\n[net]\nbetween = 3\n", "c.toml");
  EXPECT_FALSE(read.machine.has_value());
  ASSERT_EQ(read.problems.size(), 4U);
  EXPECT_EQ(read.problems[0].where, "c.toml:1:1");
  EXPECT_EQ(read.problems[0].fix, "did you mean device?");
  EXPECT_EQ(read.problems[1].where, "c.toml:2:1");
  EXPECT_EQ(read.problems[2].code, "LS-6112");
  EXPECT_EQ(read_cluster_file("", "c").problems.front().what, "names no device");
}

TEST(ClusterFile, SaysHowFastAHostReads) {
  const ReadCluster read =
      read_cluster_file("device = \"A100-80G\"\nread_rate = \"2GB\"\n", "cluster.toml");
  EXPECT_TRUE(read.problems.empty());
  EXPECT_EQ(read.read_bytes_per_s, 2e9);
  for (const char* wrong : {"\"fast\"", "2", "\"0\""}) {
    const std::string file = std::string("device = \"A100-80G\"\nread_rate = ") + wrong + "\n";
    EXPECT_EQ(read_cluster_file(file, "cluster.toml").problems.size(), 1U) << wrong;
  }
}

}  // namespace
}  // namespace lockstep::planner
