// The sizes at which `bench kernels` times each operator.
#pragma once
#include <vector>

#include "lockstep/topology/kernel_file.h"

namespace lockstep {

/// Points to be timed, in order; their seconds are 0.
[[nodiscard]] std::vector<KernelPoint> points_to_time(Kernel kernel, config::Dtype type);
/// Of all kernels and types of the request.
[[nodiscard]] std::vector<KernelPoint> points_to_time(const KernelRequest& request);

}  // namespace lockstep
