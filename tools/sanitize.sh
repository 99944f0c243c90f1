#!/bin/bash
# The tests of the LibTorch-free folders under ASan+UBSan, of those with threads under TSan, and of the LibTorch
# folders that preset asan-torch names under ASan+UBSan. LibTorch itself is not instrumented, so there the
# checks that need the whole program (container overflow, leaks, mismatched new/delete across the border)
# are off. The memory folder stays out: its allocator looks for its mark below every pointer it is given.
set -euo pipefail
cd "$(dirname "$0")/.."
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1:abort_on_error=1
export ASAN_OPTIONS=abort_on_error=1
export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1

run_preset() {
  local preset=$1 start=${SECONDS}
  printf '== %s\n' "${preset}"
  [[ -f build/${preset}/build.ninja ]] || cmake --preset "${preset}" >/dev/null
  cmake --build --preset "${preset}"
  ctest --preset "${preset}"
  printf '== %s: %d s\n' "${preset}" $((SECONDS - start))
}

run_preset asan
run_preset tsan
export ASAN_OPTIONS=abort_on_error=1:detect_container_overflow=0:detect_leaks=0:alloc_dealloc_mismatch=0
run_preset asan-torch
