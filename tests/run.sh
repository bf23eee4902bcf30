#!/usr/bin/env bash
# Builds everything and runs all tests. Usage: tests/run.sh [--asan | --tsan] [options of ctest]
#   --asan  with AddressSanitizer and UndefinedBehaviorSanitizer     --tsan  with ThreadSanitizer, the threaded parts only
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=launch/setup.sh
source "$root/launch/setup.sh"

preset="release"
ctest_options=()
for argument in "$@"; do
  case $argument in
    --asan) preset=asan ;;
    --tsan) preset=tsan ;;
    --help) sed -n '2,3s/^# //p' "${BASH_SOURCE[0]}" && exit 0 ;;
    *) ctest_options+=("$argument") ;;
  esac
done

install_packages "${VENTRIS_BUILD_PACKAGES[@]}" "${VENTRIS_TEST_PACKAGES[@]}"

cd "$root"
note "Configuring and building (preset $preset)"
cmake --preset "$preset" "$(compiler_cache)"
cmake --build --preset "$preset" --parallel "$(cores)"

# No GPU is needed to compile; the program does not use the kernels yet, and their tests run on the CPU.
if [[ $preset == release ]] && command -v nvcc >/dev/null; then
  note "Compiling the CUDA kernels"
  cmake --preset cuda "$(compiler_cache)" -DVENTRIS_TESTS=OFF -DVENTRIS_BENCHMARKS=OFF
  cmake --build --preset cuda --parallel "$(cores)" --target ventris_cuda_kernels
fi

note "Testing"
ctest --preset "$preset" "${ctest_options[@]}"
