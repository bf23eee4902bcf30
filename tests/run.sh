#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds everything and tests the program. Usage: tests/run.sh [--all | --asan | --tsan | --gpu] [--build | --test] [options of ctest]
#   --all    also the kernels of AVX2 beside those of this processor, and the tests of the repository itself (label `repository`), and
#            more of what this processor does anyway (label `more`)
#   --asan   with AddressSanitizer and UndefinedBehaviorSanitizer     --tsan  with ThreadSanitizer, the threaded parts and the kernels only
#   --gpu    fails without nvcc, cuBLASLt and NCCL; also checks memory accesses of the kernels, if there is a GPU
#   --build  only builds     --test  only tests an existing build
# CUDAARCHS in the environment: the architectures that nvcc compiles for, "90a-real" by default.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=launch/setup.sh
source "$root/launch/setup.sh"

preset="release"
cuda=AUTO
all=false
build=true
run_tests=true
ctest_options=()
for argument in "$@"; do
  case $argument in
    --all) all=true ;;
    --asan) preset=asan ;;
    --tsan) preset=tsan ;;
    --gpu) cuda=ON ;;
    --build) run_tests=false ;;
    --test) build=false ;;
    --help) sed -n '3,9s/^# //p' "${BASH_SOURCE[0]}" && exit 0 ;;
    *) ctest_options+=("$argument") ;;
  esac
done

install_packages "${VENTRIS_BUILD_PACKAGES[@]}" "${VENTRIS_TEST_PACKAGES[@]}"

cd "$root"
if $build; then
  note "Configuring and building (preset $preset)"
  # Always set: the folder may have been configured without them. With ThreadSanitizer g++ 12 warns of code that is right.
  errors=ON
  if [[ $preset == tsan ]]; then errors=OFF; fi
  options=(-DVENTRIS_TESTS=ON "-DCMAKE_COMPILE_WARNING_AS_ERROR=$errors")
  # Compiling and linking for GPUs need none; the tests of this code run on the CPU (tests/emulation). Each architecture takes nvcc as
  # long again, so there is one; .ci/run has more.
  if [[ $preset == release ]]; then
    options+=("-DVENTRIS_CUDA=$cuda" -DVENTRIS_BENCHMARKS=ON "-DCMAKE_CUDA_ARCHITECTURES=${CUDAARCHS:-90a-real}")
  fi
  cmake --preset "$preset" "${options[@]}" "$(compiler_cache)"
  begin=$SECONDS
  cmake --build --preset "$preset" --parallel "$(cores)"
  echo "build: $((SECONDS - begin)) s"
  reports=$(find "build/$preset/backend" -path '*/ventris_cuda_kernels.dir/*.ptxas' -print -quit)
  if [[ -n $reports ]]; then tests/lint.sh registers; fi
fi
if ! $run_tests; then exit 0; fi

# Tests of the command line mostly wait: four times as many tests as cores keep the cores busy.
at_once=$((4 * $(cores)))

# The kernels of the smallest instruction set, in addition to the default of this processor (backend/device/instruction_set.h): operations,
# models, and what of training computes. They run first, so that the summary of all tests is printed last.
of_kernels='^(backend|model)\.|^cli\.(digest|reduction|score)_test'
of_kernels+='|^trainer\.(Agreement|AverageOfTraining|Export|Optimizer|Replicas|Resume|Train|Translation|WeightedPairs)'
if $all && [[ $preset == release ]]; then
  kernels=$(build/release/ventris --version | sed -n 's/^ISA: *//p')
  case $kernels in
    "avx2, of avx2,"*) echo "Of the compiled instruction sets this processor has only AVX2: the tests run with the kernels of avx2" ;;
    *", of avx2,"*)
      note "Testing the kernels of avx2"
      VENTRIS_ISA=avx2 ctest --preset release --parallel "$at_once" \
        -R "$of_kernels" "${ctest_options[@]}"
      ;;
    *) echo "The kernels are compiled for ${kernels%%,*} only" ;;
  esac
fi

note "Testing"
# A choice by the options of ctest is one among all tests.
if ! $all && ((${#ctest_options[@]} == 0)); then ctest_options=(--label-exclude '^(repository|more)$'); fi
ctest --preset "$preset" --parallel "$at_once" "${ctest_options[@]}"

if [[ $cuda == ON ]]; then
  note "Checking the kernels' memory accesses"
  # The tests end with 77 if no device works.
  status=0
  build/release/tests/emulation/cuda_tests --gtest_filter=none || status=$?
  if ((status == 77)); then
    echo "not checked: no working GPU"
  elif ((status != 0)); then
    die "build/release/tests/emulation/cuda_tests ended with exit code $status"
  elif ! command -v compute-sanitizer >/dev/null; then
    echo "not checked: compute-sanitizer is not on the path; it comes with the CUDA toolkit"
  else
    compute-sanitizer --error-exitcode 1 build/release/tests/emulation/cuda_tests \
      --gtest_filter='-*Model*:*Training*:*Validation*'
  fi
fi
