#!/bin/bash
# Installs what building lockstep needs: Debian packages, and LibTorch in a private folder.
#
#   tools/setup.sh             what `make build`, `make demo` and `make test` need
#   tools/setup.sh --oracles   also a Python with torch, safetensors, numpy and transformers (test-oracles, bench-peers)
#   tools/setup.sh --python    also that Python, with its development headers (python-backend)
#   tools/setup.sh --fuzz      also clang with libFuzzer (fuzz)
#   tools/setup.sh --shells    also zsh and fish, whose completion is tested (test-oracles)
#   tools/setup.sh --mpi       also Open MPI (bench-comm)
#   tools/setup.sh --slurm     also Slurm and munge (test-slurm)
#   tools/setup.sh --cuda      also the CUDA libraries that this LibTorch was built with (cuda, gpu-check)
#
# LOCKSTEP_DEPS (default ~/.cache/lockstep) is where LibTorch and that Python go; clones share it.
# Does nothing, in a fraction of a second, when all is there. Exit 3: the machine is at fault.
set -euo pipefail

readonly TORCH_VERSION=2.11.0
readonly CUDA_WHEELS=('nvidia-cuda-cupti==13.0.*' 'nvidia-cuda-runtime==13.0.*')
# What libtorch_cuda.so loads and its headers include, in the versions that torch's METADATA pins.
readonly GPU_WHEELS=('cuda-toolkit[cublas,cufft,cufile,curand,cusolver,cusparse,nvjitlink,nvrtc]==13.0.2'
  'nvidia-cudnn-cu13==9.19.0.56' 'nvidia-cusparselt-cu13==0.8.0' 'nvidia-nccl-cu13==2.28.9'
  'nvidia-nvshmem-cu13==3.4.5')
readonly ORACLE_WHEELS=("torch==${TORCH_VERSION}" safetensors numpy 'transformers>=4.57,<6')
readonly DEPS="${LOCKSTEP_DEPS:-${HOME:?set HOME or LOCKSTEP_DEPS}/.cache/lockstep}"
readonly LIBTORCH="${DEPS}/libtorch-${TORCH_VERSION}"
readonly GPU_STAMP="${LIBTORCH}/nvidia/lockstep-complete"
readonly ORACLE_VENV="${DEPS}/oracle-venv"

PACKAGES=(ninja-build libgtest-dev libgmock-dev nlohmann-json3-dev libtomlplusplus-dev libcli11-dev
  libgloo-dev libxxhash-dev libssl-dev zlib1g-dev iproute2 etcd-server openssh-client openssh-server
  dataset-fashion-mnist bible-kjv)
WANT_ORACLES=0
WANT_HEADERS=0
WANT_CUDA=0

say() { printf 'setup: %s\n' "$*" >&2; }
fail() {
  printf 'setup: error: %s\n  fix: %s\n' "$1" "$2" >&2
  exit 3
}

# Of the Python with torch, or of the one it will be made from.
has_python_headers() {
  local python="${ORACLE_VENV}/bin/python" include
  [[ -x "${python}" ]] || python=python3
  include=$("${python}" -c 'import sysconfig; print(sysconfig.get_path("include"))' 2>/dev/null) &&
    [[ -e "${include}/Python.h" ]]
}

parse_arguments() {
  local argument
  for argument in "$@"; do
    case "${argument}" in
      --oracles)
        WANT_ORACLES=1
        PACKAGES+=(python3-yaml)
        ;;
      --python)
        WANT_ORACLES=1
        WANT_HEADERS=1
        has_python_headers || PACKAGES+=(python3-dev)
        ;;
      --fuzz) PACKAGES+=(clang libclang-rt-14-dev) ;;
      --cuda) WANT_CUDA=1 ;;
      --shells) PACKAGES+=(zsh fish) ;;
      --mpi) PACKAGES+=(openmpi-bin libopenmpi-dev) ;;
      --slurm) PACKAGES+=(slurmctld slurmd slurm-client munge) ;;
      -h | --help) sed -n '2,14s/^# \{0,1\}//p' "$0"; exit 0 ;;
      *) printf 'setup: unknown argument %s (see --help)\n' "${argument}" >&2; exit 2 ;;
    esac
  done
}

missing_packages() {
  local installed package
  installed=" $(dpkg-query -W -f '${Package}:${db:Status-Status} ' "${PACKAGES[@]}" 2>/dev/null || true)"
  for package in "${PACKAGES[@]}"; do
    [[ "${installed}" == *" ${package}:installed "* ]] || printf '%s\n' "${package}"
  done
}

# A server that comes with a package is not started: tests start their own.
apt() (
  local policy=/usr/sbin/policy-rc.d
  if [[ ! -e "${policy}" ]]; then
    trap 'rm -f "${policy}"' EXIT
    printf '#!/bin/sh\nexit 101\n' >"${policy}"
    chmod 755 "${policy}"
  fi
  DEBIAN_FRONTEND=noninteractive apt-get -qq -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300 "$@"
)

# A fresh image has no package lists; an old one has lists that point at removed versions.
install_packages() {
  command -v dpkg-query >/dev/null ||
    fail 'this is not a Debian system' "install these by hand: ${PACKAGES[*]}"
  local missing
  mapfile -t missing < <(missing_packages)
  [[ ${#missing[@]} -eq 0 ]] && return
  [[ ${EUID} -eq 0 ]] ||
    fail "missing packages: ${missing[*]}" "sudo apt-get install --no-install-recommends ${missing[*]}"
  say "installing ${missing[*]}"
  if apt-cache show "${missing[@]}" >/dev/null 2>&1 &&
    apt install -y --no-install-recommends "${missing[@]}" >/dev/null; then
    return
  fi
  say 'refreshing the package lists'
  apt update || fail 'apt-get update failed' 'check the network and /etc/apt/sources.list'
  apt install -y --no-install-recommends "${missing[@]}" >/dev/null ||
    fail "apt-get could not install ${missing[*]}" 'see its messages above'
}

# Debian's pip refuses to work outside a virtual environment, so every install goes through one.
make_venv() {
  python3 -m venv "$1" >/dev/null ||
    fail 'python3 -m venv failed' 'apt-get install python3-venv python3-pip'
}

pip_install() {
  local pip=$1 attempt
  shift
  for attempt in 1 2 3; do
    "${pip}" install --quiet --disable-pip-version-check --no-input --no-compile \
      --no-cache-dir "$@" && return
    say "pip failed (attempt ${attempt} of 3)"
    sleep $((attempt * 3))
  done
  fail "pip could not install: $*" 'check the network (files.pythonhosted.org), the disk, then run again'
}

need_disk() {
  local need_mib=$1 free_mib
  free_mib=$(df -Pm "${DEPS}" | awk 'NR == 2 {print $4}')
  [[ ${free_mib} -ge ${need_mib} ]] ||
    fail "${DEPS} has ${free_mib} MiB free, ${need_mib} MiB are needed" 'free space or set LOCKSTEP_DEPS'
}

# Put together in a scratch folder and renamed: an interrupted download is never taken for complete.
install_libtorch() {
  [[ -e "${LIBTORCH}/torch/lib/libtorch_cpu.so" ]] && return
  need_disk 3500
  say "fetching LibTorch ${TORCH_VERSION} into ${LIBTORCH} (about 550 MB)"
  local scratch="${DEPS}/scratch.$$"
  rm -rf "${DEPS}"/scratch.* # of a set-up that was killed; the lock is ours
  trap 'rm -rf "${DEPS}/scratch.$$"' EXIT
  mkdir -p "${scratch}/tmp"
  make_venv "${scratch}/venv"
  TMPDIR="${scratch}/tmp" pip_install "${scratch}/venv/bin/pip" --no-deps \
    --target "${scratch}/libtorch" "torch==${TORCH_VERSION}" "${CUDA_WHEELS[@]}"
  rm -rf "${LIBTORCH}"
  mv "${scratch}/libtorch" "${LIBTORCH}"
  rm -rf "${scratch}"
}

# Beside LibTorch, where its libraries look for them. Complete files are linked into place one by one, and
# the stamp comes last: no other preset looks at any of them.
install_cuda() {
  [[ -e "${GPU_STAMP}" ]] && return
  need_disk 6000
  say "fetching the CUDA libraries of LibTorch ${TORCH_VERSION} into ${LIBTORCH}/nvidia (about 1.8 GB)"
  local scratch="${DEPS}/scratch.$$"
  rm -rf "${DEPS}"/scratch.*
  trap 'rm -rf "${DEPS}/scratch.$$"' EXIT
  mkdir -p "${scratch}/tmp"
  make_venv "${scratch}/venv"
  TMPDIR="${scratch}/tmp" pip_install "${scratch}/venv/bin/pip" --target "${scratch}/cuda" "${GPU_WHEELS[@]}"
  cp -alf "${scratch}/cuda/." "${LIBTORCH}/"
  touch "${GPU_STAMP}"
  rm -rf "${scratch}"
}

# A virtual environment holds its own path, so it is made in place; the stamp says that it is complete.
install_oracles() {
  local stamp="${ORACLE_VENV}/lockstep-complete" import='import torch, safetensors, numpy, transformers'
  [[ -e "${stamp}" ]] && return
  if [[ -x "${ORACLE_VENV}/bin/python" ]] &&
    "${ORACLE_VENV}/bin/python" -c "${import}; assert torch.__version__.startswith('${TORCH_VERSION}')" \
      2>/dev/null; then
    touch "${stamp}"
    return
  fi
  need_disk 9000
  say "making a Python with torch ${TORCH_VERSION} in ${ORACLE_VENV} (2.7 GB of wheels)"
  rm -rf "${ORACLE_VENV}"
  make_venv "${ORACLE_VENV}"
  mkdir -p "${ORACLE_VENV}/tmp"
  TMPDIR="${ORACLE_VENV}/tmp" pip_install "${ORACLE_VENV}/bin/pip" "${ORACLE_WHEELS[@]}"
  rm -rf "${ORACLE_VENV}/tmp"
  touch "${stamp}"
}

main() {
  parse_arguments "$@"
  install_packages
  local tool
  for tool in g++ cmake python3; do
    command -v "${tool}" >/dev/null || fail "${tool} is missing" "apt-get install ${tool}"
  done
  [[ ${WANT_HEADERS} -eq 0 ]] || has_python_headers ||
    fail "the Python of ${ORACLE_VENV} has no development headers (Python.h)" \
      "install them for it, or remove ${ORACLE_VENV} so that it is made from Debian's python3"
  if [[ -e "${LIBTORCH}/torch/lib/libtorch_cpu.so" &&
    (${WANT_CUDA} -eq 0 || -e "${GPU_STAMP}") &&
    (${WANT_ORACLES} -eq 0 || -e "${ORACLE_VENV}/lockstep-complete") ]]; then
    return
  fi
  mkdir -p "${DEPS}"
  exec 9>"${DEPS}/lock" # clones share the folder: one at a time
  flock -w 1800 9 || fail "another setup has held ${DEPS}/lock for 30 minutes" 'end it, then run again'
  install_libtorch
  if [[ ${WANT_CUDA} -eq 1 ]]; then install_cuda; fi
  if [[ ${WANT_ORACLES} -eq 1 ]]; then install_oracles; fi
}

main "$@"
