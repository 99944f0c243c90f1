#!/bin/bash
# The tests of the LibTorch-free folders under ASan+UBSan and under TSan, and those of some LibTorch
# folders under ASan+UBSan. LibTorch itself is not instrumented, so in that part checks that need the
# whole program (container overflow, leaks, mismatched new/delete across the border) are off.
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
