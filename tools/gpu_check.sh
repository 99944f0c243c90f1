#!/bin/bash
# Builds preset cuda and runs the tests labelled gpu, and with two GPUs those labelled gpu2: these for at most 8
# minutes. Exit 3 where there is no GPU; nothing is counted as passed that
# did not run.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! gpus=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null) || [[ -z "${gpus}" ]]; then
  printf 'gpu-check: no NVIDIA GPU answers nvidia-smi on this machine; nothing was checked\n' >&2
  printf '  fix: run it on a machine with a GPU and its driver\n' >&2
  exit 3
fi
printf 'gpu-check: %s\n' "${gpus}"
tools/setup.sh --cuda
cmake --preset cuda >/dev/null
cmake --build --preset cuda --target lockstep lockstep-worker gpu_test
labels='^gpu$'
if [[ $(wc -l <<<"${gpus}") -ge 2 ]]; then
  labels='^gpu2?$'
else
  printf 'gpu-check: one GPU: the tests of two ranks (label gpu2) are not run\n'
fi
exec timeout 480 ctest --test-dir build/cuda --label-regex "${labels}" --no-tests=error --output-on-failure
