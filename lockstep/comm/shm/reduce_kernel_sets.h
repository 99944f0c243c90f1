// The sets of kernels, one a source file; which of them run here is reduce_kernel.cpp's decision.
#pragma once
#include "lockstep/comm/shm/reduce_kernel.h"

namespace lockstep::comm::shm {

[[nodiscard]] const Kernels& portable_kernels();
[[nodiscard]] const Kernels& avx2_kernels();    // x86-64 only
[[nodiscard]] const Kernels& avx512_kernels();  // x86-64 only

}  // namespace lockstep::comm::shm
