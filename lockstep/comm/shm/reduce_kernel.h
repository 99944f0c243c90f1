// Element-wise reductions of several arrays, and copies that leave the caches alone.
#pragma once
#include <cstddef>
#include <string_view>

#include "lockstep/comm/shm/element.h"

namespace lockstep::comm::shm {

/// out[i] = terms[0][i] o terms[1][i] o ... o terms[n-1][i], associated as the balanced binary tree
/// over the terms (left half, right half), so the bits do not depend on who computes it. `out` may
/// be one of the terms.
using ReduceFunction = void (*)(void* out, const void* const* terms, int n, std::size_t count);

/// Copies with stores that bypass the caches; the caller fences (stream_fence()) before it
/// publishes.
using CopyFunction = void (*)(void* out, const void* in, std::size_t bytes);

/// Copies to two places that do not overlap. \param out on a line.
using CopyTwiceFunction = void (*)(void* out, void* also, const void* in, std::size_t bytes);

/// One instruction set's functions.
struct Kernels {
  std::string_view isa;  // "avx512", "avx2", "portable"
  ReduceFunction (*reduce)(ElementType type, Reduction reduction);
  CopyFunction copy_stream;
  CopyTwiceFunction copy_twice;
};

/// The best set this processor runs; `isa` names one instead (tests). Null when it cannot run here.
[[nodiscard]] const Kernels& kernels();
[[nodiscard]] const Kernels* kernels(std::string_view isa);

void stream_fence();

}  // namespace lockstep::comm::shm
