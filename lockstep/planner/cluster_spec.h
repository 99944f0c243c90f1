// A cluster in a few words, as `lockstep plan --cluster` takes it.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/topology/machine.h"

namespace lockstep::planner {

struct ReadCluster {
  std::optional<Machine> machine;  // unset where there are problems
  std::vector<Problem> problems;
  bool network_named = false;   // the link between hosts
  double read_bytes_per_s = 0;  // that a host reads of its data; 0 = not said
};

/// "8xA100-80G*4": four hosts with eight devices each; "8xA100-80G" is one such host. "@LINK" at
/// the end says what is between hosts, as in "8xA100-80G*4@100 GbE"; else, and inside a host, are
/// the links that such devices are usually sold with.
[[nodiscard]] ReadCluster read_cluster(std::string_view spec, std::string_view where);

/// The same as TOML: device, and as one likes devices_per_host, hosts, inside and between (links),
/// read_rate
/// ("2GB" a second).
[[nodiscard]] ReadCluster read_cluster_file(std::string_view toml, const std::string& file);

}  // namespace lockstep::planner
