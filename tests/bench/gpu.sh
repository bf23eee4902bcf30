#!/usr/bin/env bash
# Measures training on one GPU against PyTorch, in one call of under 8 minutes. Usage: tests/bench/gpu.sh CORPUS PYTHON [TABLE]
#   CORPUS  corpus.h5 of 'ventris prepare' with sentences of usual length; PYTHON  has PyTorch for CUDA and h5py
#   TABLE   the file for the table (Markdown); build/cuda/gpu.md unless given
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
if (($# < 2 || $# > 3)); then
  sed -n '2,4s/^# //p' "${BASH_SOURCE[0]}" >&2
  exit 64
fi
program=${VENTRIS:-$root/build/cuda/ventris}
if [[ ! -x $program ]]; then
  printf 'error: no program %s; build it with: cmake --preset cuda && cmake --build --preset cuda\n' "$program" >&2
  exit 66
fi
exec python3 "$root/tests/bench/gpu_bench.py" --ventris "$program" --corpus "$1" --pytorch "$2" \
  --output "${3:-$root/build/cuda/gpu.md}"
