# SPDX-License-Identifier: Apache-2.0
# Shared by launch/quickstart.sh, tests/run.sh and tests/lint.sh: the packages that the project needs, and how they are
# installed. Sourced, not run.
# shellcheck shell=bash disable=SC2034

# Debian 12 packages, by use.
VENTRIS_BUILD_PACKAGES=(g++ cmake ninja-build pkg-config git libopenmpi-dev openmpi-bin libhdf5-dev
  libboost-program-options-dev libsentencepiece-dev libdnnl-dev libfmt-dev nlohmann-json3-dev
  zlib1g-dev libzip-dev liblzma-dev libzstd-dev libicu-dev libxxhash-dev libyaml-cpp-dev)
VENTRIS_TEST_PACKAGES=(libgtest-dev python3 python3-numpy python3-h5py
  python3-jsonschema ccache)
# For tests/lint.sh, in addition; ruff comes from pip. libomp-dev has the omp.h that clang-tidy reads.
VENTRIS_LINT_PACKAGES=(clang-format clang-tidy libomp-dev shellcheck python3-venv python3-numpy)

# note TEXT...: prints a heading.
note() { printf '\n== %s\n' "$*"; }

# die TEXT...: ends with an error message.
die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# install_packages PACKAGE...: installs missing packages with apt-get, as root or with sudo; otherwise names them.
install_packages() {
  local missing=() package
  if ! command -v dpkg-query >/dev/null; then
    printf 'This is not a Debian system; install the equivalents of these packages first (docs/guide.md#dependencies):\n  %s\n' "$*"
    return 0
  fi
  for package in "$@"; do
    if [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) != installed ]]; then
      missing+=("$package")
    fi
  done
  if ((${#missing[@]} == 0)); then return 0; fi
  note "Installing ${#missing[@]} packages: ${missing[*]}"
  local as_root=()
  if ((EUID != 0)); then
    if ! command -v sudo >/dev/null; then
      die "these packages are missing; as root, run: apt-get install ${missing[*]}"
    fi
    as_root=(sudo)
  fi
  # The package lists are fetched only if the first attempt fails: that saves time on an up-to-date machine.
  local install=(env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends
    "${missing[@]}")
  if ! "${as_root[@]}" "${install[@]}"; then
    "${as_root[@]}" apt-get update -q
    "${as_root[@]}" "${install[@]}" || die "apt-get could not install: ${missing[*]}"
  fi
}

# The cores that this process may use.
cores() { nproc; }

# A compiler cache is used if installed, unless CCACHE_DISABLE is set.
compiler_cache() {
  local cache="" folder
  if [[ -z ${CCACHE_DISABLE+set} ]] && cache=$(command -v ccache); then
    folder=$(ccache --get-config cache_dir)
    mkdir -p "$folder" 2>/dev/null && [[ -w $folder ]] || cache=""
  fi
  printf -- '-DCMAKE_CXX_COMPILER_LAUNCHER=%s' "$cache"
}

# has_gpu: whether this machine has an NVIDIA GPU.
has_gpu() {
  [[ -e /dev/nvidia0 ]] || nvidia-smi -L 2>/dev/null | grep -q '^GPU '
}

# gpu_count: how many GPUs this machine has and CUDA_VISIBLE_DEVICES allows.
gpu_count() {
  if ! has_gpu; then
    echo 0
  elif [[ -n ${CUDA_VISIBLE_DEVICES+set} ]]; then
    tr , '\n' <<<"$CUDA_VISIBLE_DEVICES" | grep -cE '^([0-9]|GPU-|MIG-)' || true
  elif command -v nvidia-smi >/dev/null; then
    nvidia-smi -L | grep -c '^GPU ' || true
  else
    compgen -G '/dev/nvidia[0-9]*' | wc -l
  fi
}

# mpirun_command RANKS: sets the array MPIRUN to the command that starts RANKS ranks on this host. The program distributes the
# cores to its ranks itself; as root, Open MPI needs an option that permits it.
mpirun_command() {
  local ranks=$1
  MPIRUN=(mpirun -np "$ranks")
  if ((EUID == 0)); then MPIRUN+=(--allow-run-as-root); fi
  if (($(cores) < ranks)); then MPIRUN+=(--oversubscribe); fi
  MPIRUN+=(--bind-to none)
}
