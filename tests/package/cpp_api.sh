#!/bin/bash
# cpp_api.sh SOURCE_DIR BINARY_DIR: installs the built tree in a scratch folder, builds examples/cpp_api
# against it as a user would, and trains on two ranks. Both must end well and print the same loss.
set -euo pipefail
source_dir=$1
binary_dir=$2
scratch=$(mktemp -d)
trap 'rm -rf "${scratch}"' EXIT

cmake --install "${binary_dir}" --prefix "${scratch}/prefix" >"${scratch}/install.log"
for file in bash-completion/completions/lockstep zsh/site-functions/_lockstep \
  fish/vendor_completions.d/lockstep.fish lockstep/run.schema.json; do
  [[ -s "${scratch}/prefix/share/${file}" ]] || { echo "share/${file} was not installed"; exit 1; }
done
cmake -S "${source_dir}/examples/cpp_api" -B "${scratch}/build" -G Ninja \
  -DCMAKE_PREFIX_PATH="${scratch}/prefix" -DCMAKE_CXX_FLAGS='-Wall -Wextra -Werror'
cmake --build "${scratch}/build"

port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
export WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=${port} OMP_NUM_THREADS=1
RANK=1 LOCAL_RANK=1 timeout 60 "${scratch}/build/two_moons" >"${scratch}/rank1" &
peer=$!
RANK=0 LOCAL_RANK=0 timeout 60 "${scratch}/build/two_moons" | tee "${scratch}/rank0"
wait "${peer}"
cat "${scratch}/rank1"
[[ "$(sed 's/^rank . of 2: loss //' "${scratch}/rank0")" == "$(sed 's/^rank . of 2: loss //' "${scratch}/rank1")" ]]
