// The hosts of a job and the ranks each one takes: a hostfile in DeepSpeed's or Open MPI's form, or
// the words of --hosts.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/error.h"

namespace lockstep::starters {

struct HostSlots {
  std::string name;
  int slots = 0;  // ranks; 0 = not said, --nproc-per-node decides

  friend bool operator==(const HostSlots&, const HostSlots&) = default;
};

struct HostList {
  std::vector<HostSlots> hosts;  // in the order given: the first one is node 0
  std::vector<Problem> problems;
};

/// Lines "HOST slots=N max_slots=M", "HOST:N" or "HOST"; '#' begins a comment. Each host stands
/// once. \param file named in `where`, as in "hostfile:2:8".
[[nodiscard]] HostList parse_hostfile(std::string_view text, const std::string& file);

/// The hosts of a file. \throws UsageError with every fault; a file that is missing or names no
/// host is one.
[[nodiscard]] std::vector<HostSlots> read_hostfile(const std::string& file);

/// "h1:4,h2:4" as --hosts takes it; an IPv6 address stands in brackets: "[fd00::7]:4".
[[nodiscard]] HostList parse_host_list(std::string_view text);

/// Whether `text` can be nothing but a host: a name of letters, digits, '.', '-' and '_' that does
/// not begin with '-', or an IPv6 address. What it accepts is no flag and holds nothing that a
/// shell reads.
[[nodiscard]] bool is_host_name(std::string_view text);

}  // namespace lockstep::starters
