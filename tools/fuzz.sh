#!/bin/bash
# fuzz.sh SECONDS: runs every libFuzzer target that long, from its committed corpus. New inputs stay in
# build/fuzz/corpus; an input that breaks a parser stays in build/fuzz/crashes.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}

cmake --preset fuzz >/dev/null
cmake --build --preset fuzz
mkdir -p build/fuzz/crashes
failed=()
for program in build/fuzz/bin/*_fuzz; do
  name=$(basename "${program}" _fuzz)
  mkdir -p "build/fuzz/corpus/${name}"
  printf '== %s\n' "${name}"
  "${program}" -max_total_time="${seconds}" -timeout=5 -rss_limit_mb=1024 -print_final_stats=0 -verbosity=0 \
    -artifact_prefix="build/fuzz/crashes/${name}-" \
    "build/fuzz/corpus/${name}" "tests/fuzz/corpus/${name}" || failed+=("${name}")
done
if [[ ${#failed[@]} -gt 0 ]]; then
  printf 'fuzz: failed: %s (inputs in build/fuzz/crashes)\n' "${failed[*]}" >&2
  exit 1
fi
printf 'fuzz: every target ran %s s without a finding\n' "${seconds}"
