#include "lockstep/comm/shm/reduce_kernel.h"

#include <atomic>

#include "lockstep/comm/shm/reduce_kernel_sets.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace lockstep::comm::shm {

const Kernels* kernels(std::string_view isa) {
#if defined(__x86_64__)
  const bool avx2 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("f16c") != 0;
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") != 0 &&
                      __builtin_cpu_supports("avx512bw") != 0 &&
                      __builtin_cpu_supports("avx512vl") != 0;
  if (isa == "avx512") return avx512 ? &avx512_kernels() : nullptr;
  if (isa == "avx2") return avx2 ? &avx2_kernels() : nullptr;
#endif
  return isa == "portable" ? &portable_kernels() : nullptr;
}

const Kernels& kernels() {
  static const Kernels& best = []() -> const Kernels& {
    for (const std::string_view isa : {"avx512", "avx2"}) {
      if (const Kernels* set = kernels(isa)) return *set;
    }
    return portable_kernels();
  }();
  return best;
}

void stream_fence() {
#if defined(__x86_64__)
  _mm_sfence();
#else
  std::atomic_thread_fence(std::memory_order_release);
#endif
}

}  // namespace lockstep::comm::shm
