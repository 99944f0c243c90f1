#!/bin/bash
# Builds preset cuda and runs the tests labelled gpu: at most 8 minutes on a machine with one GPU.
# Exit 3 where there is no GPU; nothing is counted as passed that did not run.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! gpus=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null) || [[ -z "${gpus}" ]]; then
  printf 'gpu-check: no NVIDIA GPU answers nvidia-smi on this machine; nothing was checked\n' >&2
  printf '  fix: run it on a machine with a GPU and its driver\n' >&2
  exit 3
fi
printf 'gpu-check: %s\n' "${gpus}"
cmake --preset cuda
cmake --build --preset cuda
exec timeout 480 ctest --test-dir build/cuda --label-regex '^gpu$' --no-tests=error --output-on-failure
