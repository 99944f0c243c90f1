// Runs the ranks that time operators and takes their points: what `bench kernels` and `plan
// --calibrate` share.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "lockstep/cli/command.h"
#include "lockstep/topology/kernel_file.h"

namespace lockstep::cli {

/// \param dir of its request and logs; made. \param on_point is told each point as it comes.
/// \throws Error where a rank fails or is stopped.
[[nodiscard]] std::vector<KernelPoint> time_kernels(
    const Context& context, const KernelRequest& request, int ranks, const std::string& dir,
    const std::function<void(const KernelPoint&)>& on_point);

/// GFLOP/s of a product's forward, GB/s of anything else, each element of the type read and written
/// once; 0 of a step.
[[nodiscard]] double rate_of(const KernelPoint& point);

[[nodiscard]] std::vector<Kernel> all_kernels();

}  // namespace lockstep::cli
