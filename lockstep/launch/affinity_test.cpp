#include "lockstep/launch/affinity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "lockstep/base/error.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::launch {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;

/// Two sockets of one NUMA node each, four cores of two threads a node: CPUs 0-3 and their
/// siblings 8-11 on node 0, 4-7 and 12-15 on node 1. Pairs of cores share a cache of level 3.
class Affinity : public testing::Test {
 protected:
  void SetUp() override {
    write("proc/self/status", "Name:\tx\nCpus_allowed_list:\t0-15\n");
    write("sys/devices/system/node/online", "0-1\n");
    write("sys/devices/system/node/node0/cpulist", "0-3,8-11\n");
    write("sys/devices/system/node/node1/cpulist", "4-7,12-15\n");
    for (int cpu = 0; cpu < 16; ++cpu) {
      const int core = cpu % 8;
      const std::string folder = "sys/devices/system/cpu/cpu" + std::to_string(cpu);
      write(folder + "/topology/physical_package_id", core < 4 ? "0\n" : "1\n");
      write(folder + "/topology/thread_siblings_list",
            std::to_string(core) + "," + std::to_string(core + 8) + "\n");
      const int pair = core / 2 * 2;
      write(folder + "/cache/index0/type", "Instruction\n");
      write(folder + "/cache/index0/level", "9\n");
      write(folder + "/cache/index0/shared_cpu_list", std::to_string(cpu) + "\n");
      write(folder + "/cache/index3/type", "Unified\n");
      write(folder + "/cache/index3/level", "3\n");
      write(folder + "/cache/index3/shared_cpu_list",
            std::to_string(pair) + "-" + std::to_string(pair + 1) + "," + std::to_string(pair + 8) +
                "-" + std::to_string(pair + 9) + "\n");
    }
  }
  void write(const std::string& name, const std::string& text) {
    fs::create_directories((folder_.path() / name).parent_path());
    folder_.write(name, text);
  }
  void add_gpu(const std::string& address, int node) {
    const std::string folder = "sys/bus/pci/devices/" + address;
    write(folder + "/vendor", "0x10de\n");
    write(folder + "/class", "0x030200\n");
    write(folder + "/numa_node", std::to_string(node) + "\n");
  }
  std::vector<std::string> bound(CoreBinding binding, int ranks) {
    std::vector<std::string> texts;
    for (const auto& cpus : cpus_of_ranks(binding, ranks, folder_.path().string())) {
      texts.push_back(cpu_list_text(cpus));
    }
    return texts;
  }

  test::ScratchFolder folder_;
};

TEST_F(Affinity, WithoutGpusRanksAreSpreadOverTheNodes) {
  EXPECT_THAT(bound(CoreBinding::node, 4),
              ElementsAre("0-3,8-11", "0-3,8-11", "4-7,12-15", "4-7,12-15"));
}

TEST_F(Affinity, ARankGoesToTheNodeOfItsGpu) {
  add_gpu("0000:1b:00.0", 1);
  add_gpu("0000:5c:00.0", 0);
  EXPECT_THAT(bound(CoreBinding::node, 2), ElementsAre("4-7,12-15", "0-3,8-11"));
}

TEST_F(Affinity, NodesOfOneSocketBelongTogether) {
  for (int cpu = 0; cpu < 16; ++cpu) {
    write("sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/physical_package_id",
          "0");
  }
  EXPECT_THAT(bound(CoreBinding::socket, 1), ElementsAre("0-15"));
  EXPECT_THAT(bound(CoreBinding::node, 1), ElementsAre("0-3,8-11"));
}

TEST_F(Affinity, ExclusiveCoresAreWholeCoresAndSharedByNobody) {
  EXPECT_THAT(bound(CoreBinding::exclusive, 6),
              ElementsAre("0-1,8-9", "2,10", "3,11", "4-5,12-13", "6,14", "7,15"));
}

TEST_F(Affinity, ACoreComplexIsWhatSharesTheLastCache) {
  EXPECT_THAT(bound(CoreBinding::core_complex, 4),
              ElementsAre("0-1,8-9", "2-3,10-11", "4-5,12-13", "6-7,14-15"));
}

TEST_F(Affinity, BindCoresDividesAllThatAreAllowed) {
  write("proc/self/status", "Cpus_allowed_list:\t0-2,8-10\n");
  EXPECT_THAT(bound(CoreBinding::cores, 2), ElementsAre("0-1,8-9", "2,10"));
  EXPECT_THROW(bound(CoreBinding::cores, 4), UsageError);
}

TEST_F(Affinity, MoreRanksThanCoresOfANodeAreRefused) {
  EXPECT_THROW(bound(CoreBinding::exclusive, 16), UsageError);
  EXPECT_TRUE(bound(CoreBinding::none, 16).empty());
}

}  // namespace
}  // namespace lockstep::launch
