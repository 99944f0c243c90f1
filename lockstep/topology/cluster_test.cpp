#include "lockstep/topology/cluster.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "lockstep/topology/nvml.h"
#include "lockstep/topology/proc_text.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// A folder that stands for "/", filled file by file.
class FakeRoot {
 public:
  FakeRoot() {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    path_ = fs::path(testing::TempDir()) / ("cluster_test." + std::string(test->name()));
    fs::remove_all(path_);
    put("/proc/sys/kernel/hostname", "node7\n");
    put("/proc/cpuinfo", "processor\t: 0\nmodel name\t: Fast CPU @ 3 GHz\n");
    put("/proc/self/status", "Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t0-3,6\n");
    put("/proc/meminfo", "MemTotal:       8000000 kB\nMemFree: 1 kB\nMemAvailable:   6000000 kB\n");
  }
  ~FakeRoot() { fs::remove_all(path_); }
  FakeRoot(const FakeRoot&) = delete;
  FakeRoot& operator=(const FakeRoot&) = delete;

  void put(const std::string& file, const std::string& text) const {
    const fs::path path = path_.string() + file;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  [[nodiscard]] Host probe() const { return probe_host(path_.string()); }

 private:
  fs::path path_;
};

TEST(Cluster, ReadsAPlainHost) {
  const FakeRoot root;
  const Host host = root.probe();
  EXPECT_EQ(host.name, "node7");
  EXPECT_EQ(host.cpu_model, "Fast CPU @ 3 GHz");
  EXPECT_EQ(host.cores, 5);
  EXPECT_EQ(host.memory_bytes, 8000000LL * 1024);
  EXPECT_EQ(host.memory_free_bytes, 6000000LL * 1024);
  EXPECT_TRUE(host.devices.empty());
}

TEST(Cluster, CgroupTwoLimitsCoresAndMemoryFromTheProcessUpToTheRoot) {
  const FakeRoot root;
  root.put("/proc/self/cgroup", "0::/job/step\n");
  root.put("/proc/self/mountinfo",
           "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n");
  root.put("/sys/fs/cgroup/job/step/cpu.max", "max 100000\n");
  root.put("/sys/fs/cgroup/job/cpu.max", "250000 100000\n");
  root.put("/sys/fs/cgroup/job/step/memory.max", "4000000000\n");
  root.put("/sys/fs/cgroup/job/step/memory.current", "1000000000\n");
  root.put("/sys/fs/cgroup/job/step/memory.stat", "anon 1\ninactive_file 300000000\n");
  root.put("/sys/fs/cgroup/job/memory.max", "max\n");
  const Host host = root.probe();
  EXPECT_EQ(host.cores, 2);
  EXPECT_EQ(host.memory_bytes, 4000000000LL);
  EXPECT_EQ(host.memory_free_bytes, 3300000000LL);
}

TEST(Cluster, CgroupOneIsReadWhereAContainerMountsItsOwnPart) {
  const FakeRoot root;
  root.put("/proc/self/cgroup", "4:memory:/box/a1\n3:cpu,cpuacct:/box/a1\n0::/\n");
  root.put("/proc/self/mountinfo",
           "31 23 0:27 /box/a1 /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
           "32 23 0:28 /box/a1 /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
           "33 23 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
  root.put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000\n");
  root.put("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  root.put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "2000000000\n");
  root.put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "500000000\n");
  root.put("/sys/fs/cgroup/memory/memory.stat", "cache 1\ntotal_inactive_file 100000000\n");
  const Host host = root.probe();
  EXPECT_EQ(host.cores, 1) << "half a core is still one rank";
  EXPECT_EQ(host.memory_bytes, 2000000000LL);
  EXPECT_EQ(host.memory_free_bytes, 1600000000LL);
}

TEST(Cluster, UnlimitedCgroupsChangeNothing) {
  const FakeRoot root;
  root.put("/proc/self/cgroup", "4:memory:/\n3:cpu:/../..\n");
  root.put("/proc/self/mountinfo",
           "31 23 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
           "32 23 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
  root.put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  root.put("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  root.put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  const Host host = root.probe();
  EXPECT_EQ(host.cores, 5);
  EXPECT_EQ(host.memory_bytes, 8000000LL * 1024);
}

TEST(Cluster, NumaNodesListOnlyCoresThatMayBeUsed) {
  const FakeRoot root;
  root.put("/sys/devices/system/node/online", "0-1\n");
  root.put("/sys/devices/system/node/node0/cpulist", "0-1\n");
  root.put("/sys/devices/system/node/node1/cpulist", "2-7\n");
  root.put("/sys/devices/system/node/node1/meminfo", "Node 1 MemTotal:  1000 kB\n");
  const Host host = root.probe();
  ASSERT_EQ(host.numa.size(), 2U);
  EXPECT_EQ(host.numa[0].cores, (std::vector<int>{0, 1}));
  EXPECT_EQ(host.numa[1].cores, (std::vector<int>{2, 3, 6}));
  EXPECT_EQ(host.numa[1].memory_bytes, 1024000);
}

TEST(Cluster, WhatCannotBeReadStaysAtItsDefault) {
  const Host host = probe_host("/nonexistent");
  EXPECT_GE(host.cores, 1);
  EXPECT_EQ(host.memory_bytes, 0);
  EXPECT_TRUE(host.name.empty() && host.numa.empty());
}

TEST(Cluster, ThisMachineHasCoresAndMemory) {
  const Host host = probe_cluster().hosts.at(0);
  EXPECT_GE(host.cores, 1);
  EXPECT_LE(host.cores, static_cast<int>(std::thread::hardware_concurrency()));
  EXPECT_GT(host.memory_bytes, 0);
  EXPECT_LE(host.memory_free_bytes, host.memory_bytes);
}

TEST(ProcText, CpuListsWithNonsenseGiveWhatMakesSense) {
  EXPECT_EQ(parse_cpu_list("0-2,5\n"), (std::vector<int>{0, 1, 2, 5}));
  EXPECT_EQ(parse_cpu_list("3-1,x,,-4,7,0-999999999"), (std::vector<int>{7}));
  EXPECT_TRUE(parse_cpu_list("").empty());
}

int ok() { return 0; }
int no_driver() { return 9; }
int two_devices(unsigned* count) { return *count = 2, 0; }
int device(unsigned index, void** handle) {
  static int handles[2];
  *handle = &handles[index];
  return index == 1 ? 15 : 0;  // the second is lost
}
int device_name(void* /*device*/, char* name, unsigned length) {
  std::strncpy(name, "NVIDIA H200", length);
  return 0;
}
int device_memory(void* /*device*/, NvmlMemory* memory) {
  *memory = {143771ULL << 20, 1, 1};
  return 0;
}

TEST(Nvml, DevicesThatAnswerAreListedAndLostOnesAreNot) {
  const auto devices =
      read_devices({&ok, &ok, &two_devices, &device, &device_name, &device_memory});
  ASSERT_EQ(devices.size(), 1U);
  EXPECT_EQ(devices[0].name, "NVIDIA H200");
  EXPECT_EQ(devices[0].memory_bytes, 143771LL << 20);
}

TEST(Nvml, WithoutADriverThereAreNoDevices) {
  EXPECT_TRUE(
      read_devices({&no_driver, &ok, &two_devices, &device, &device_name, &device_memory}).empty());
}

}  // namespace
}  // namespace lockstep
