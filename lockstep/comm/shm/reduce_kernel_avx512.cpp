// Compiled for avx512 (cmake/Layers.cmake).
#include "lockstep/comm/shm/reduce_kernel_impl.h"
#include "lockstep/comm/shm/reduce_kernel_sets.h"

namespace lockstep::comm::shm {

const Kernels& avx512_kernels() {
  static constexpr Kernels kKernels{"avx512", reduce_function, copy_stream_bytes, copy_twice_bytes};
  return kKernels;
}

}  // namespace lockstep::comm::shm
