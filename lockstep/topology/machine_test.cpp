#include "lockstep/topology/machine.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace lockstep {
namespace {

TEST(DeviceModels, HaveOneNameEachAndNumbersThatArePossible) {
  std::set<std::string_view> names;
  for (const DeviceModel& device : device_models()) {
    EXPECT_TRUE(names.insert(device.name).second) << device.name;
    EXPECT_FALSE(device.source.empty()) << device.name;
    EXPECT_GE(device.half_flops_per_s, device.single_flops_per_s) << device.name;
    EXPECT_GT(device.memory_bytes_per_s, 0) << device.name;
    for (const double share :
         {device.most_efficiency, device.attention_efficiency, device.memory_efficiency}) {
      EXPECT_GT(share, 0) << device.name;
      EXPECT_LE(share, 1) << device.name;
    }
  }
}

TEST(DeviceModels, AreFoundByNameInAnyCaseAndOthersGetTheNearest) {
  ASSERT_NE(find_device("a100-80g"), nullptr);
  EXPECT_EQ(find_device("a100-80g")->name, "A100-80G");
  EXPECT_TRUE(check_device("H100-80G", "--gpu").empty());
  const std::vector<Problem> problems = check_device("A100-81G", "--gpu");
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems[0].code, "LS-6111");
  EXPECT_EQ(problems[0].fix, "did you mean A100-80G?");
  EXPECT_NE(check_device("abacus", "--gpu")[0].fix.find("V100-16G"), std::string::npos);
}

TEST(LinkModels, GiveWhatNcclMeasuresOnAnA100) {
  // nccl-tests all_reduce of 8 A100, Azure/AI-benchmarking-guide: 231 GB/s.
  EXPECT_NEAR(find_link("NVLink 3")->bytes_per_s(), 231e9, 5e9);
  EXPECT_EQ(check_link("NVLink 33", "links").front().code, "LS-6112");
  EXPECT_TRUE(check_link("10 GbE", "links").empty());
}

TEST(UsualMachine, HasTheLinksThatItsDevicesAreSoldWith) {
  const Machine hopper = usual_machine(*find_device("H100-80G"), 64);
  EXPECT_EQ(hopper.devices_per_host, 8);
  EXPECT_EQ(hopper.inside.name, "NVLink 4");
  EXPECT_EQ(hopper.between.name, "NDR InfiniBand");
  for (const DeviceModel& device : device_models()) {
    const Machine machine = usual_machine(device, 2);
    EXPECT_GE(machine.inside.bytes_per_s(), machine.between.bytes_per_s()) << device.name;
  }
}

}  // namespace
}  // namespace lockstep
