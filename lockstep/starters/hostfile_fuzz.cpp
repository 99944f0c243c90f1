// Any bytes as a hostfile and as --hosts: hosts that are safe on a command line, or problems.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/starters/hostfile.h"
#include "tests/fuzz/verdict.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t count) {
  namespace starters = lockstep::starters;
  const std::string_view text(reinterpret_cast<const char*>(bytes), count);
  for (const starters::HostList& list :
       {starters::parse_hostfile(text, "hostfile"), starters::parse_host_list(text)}) {
    LOCKSTEP_CHECK(!list.hosts.empty() || !list.problems.empty(), "neither hosts nor a problem");
    if (list.problems.empty()) lockstep::fuzz::accepted = true;
    for (const starters::HostSlots& host : list.hosts) {
      LOCKSTEP_CHECK(starters::is_host_name(host.name) && host.name.front() != '-' &&
                         host.name.find_first_of(" \t\n;'\"$`\\|&") == host.name.npos,
                     "a host that is none");
      LOCKSTEP_CHECK(host.slots >= 0, "fewer than no ranks");
    }
  }
  return 0;
}
