// How many CPUs the ranks of a host have together: with fewer than ranks, one that spins keeps
// another from running.
#pragma once
#include <string>
#include <vector>

namespace lockstep::comm::shm {

/// The CPUs this thread may run on, as bytes for other ranks; empty = the kernel does not tell.
[[nodiscard]] std::string own_cpus();

/// Those of several ranks, each counted once, within the quota of this process' cgroup. One that
/// nobody can tell counts as all that the machine has.
[[nodiscard]] int count_cpus(const std::vector<std::string>& of_ranks);

}  // namespace lockstep::comm::shm
