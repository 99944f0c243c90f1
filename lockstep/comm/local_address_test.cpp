#include "lockstep/comm/local_address.h"

#include <gtest/gtest.h>

#include <string>

#include "lockstep/base/error.h"

namespace lockstep::comm {
namespace {

TEST(LocalAddress, LoopbackForAStoreOnThisMachine) {
  for (const char* host : {"unix:/tmp/job.sock", "localhost", "127.0.0.1", "127.1.2.3", "::1"}) {
    EXPECT_TRUE(is_this_machine(host)) << host;
    EXPECT_EQ(address_towards(host), "127.0.0.1");
  }
}

TEST(LocalAddress, AnOuterHostIsNotThisMachine) {
  EXPECT_FALSE(is_this_machine("node17"));
  EXPECT_FALSE(is_this_machine("10.0.0.7"));
}

TEST(LocalAddress, AddressesOfOneCableAreKnown) {
  for (const char* address : {"169.254.3.4", "fe80::1", "fe80::1%eth0", "feb0::7"}) {
    EXPECT_TRUE(is_link_local(address)) << address;
  }
  for (const char* address : {"169.253.3.4", "10.0.0.7", "fd00::2", "fec0::1", "fe8::1", ""}) {
    EXPECT_FALSE(is_link_local(address)) << address;
  }
}

TEST(LocalAddress, InterfacesToOwnContainersAreKnownByTheirNames) {
  EXPECT_TRUE(is_for_containers("docker0"));
  EXPECT_TRUE(is_for_containers("br-1a2b3c"));
  EXPECT_FALSE(is_for_containers("eth0"));
  EXPECT_FALSE(is_for_containers("br0"));  // a bridge that a person made leads outside
}

TEST(LocalAddress, AHostWithoutAnAddressIsNamed) {
  const std::string no_name(80, 'x');  // too long for a label: no name server is asked
  try {
    (void)address_towards(no_name);
    FAIL() << "nothing was thrown";
  } catch (const EnvironmentFault& error) {
    EXPECT_EQ(error.problems().front().code, "LS-4004");
    EXPECT_EQ(error.problems().front().where, no_name);
  }
}

}  // namespace
}  // namespace lockstep::comm
