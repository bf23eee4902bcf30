#!/usr/bin/env bash
# Measures training and attention on one GPU against PyTorch, in one call of under 8 minutes.
# Usage: tests/bench/gpu.sh CORPUS PYTHON [TABLE] [--multi30k TEXT_FOLDER] [options of gpu_bench.py]
#   CORPUS      corpus.h5 of 'ventris prepare' with sentences of usual length
#   PYTHON      has PyTorch for CUDA and h5py
#   TABLE       the file for the tables (Markdown); default: gpu.md
#   --multi30k  also trains on the text of launch/recipes/multi30k.sh, for at most 5 more minutes
# VENTRIS and ATTENTION_BENCH in the environment: programs built elsewhere, instead of those of build/cuda.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
if (($# < 2)) || [[ $1 == --* || $2 == --* ]]; then
  sed -n '2,8s/^# //p' "${BASH_SOURCE[0]}" >&2
  exit 64
fi
corpus=$1
python=$2
shift 2
output=gpu.md
if (($# > 0)) && [[ $1 != --* ]]; then
  output=$1
  shift
fi
program=${VENTRIS:-$root/build/cuda/ventris}
attention=${ATTENTION_BENCH:-$root/build/cuda/tests/bench/attention_bench}
for file in "$program" "$attention"; do
  if [[ ! -x $file ]]; then
    printf 'error: no program %s; build it with: cmake --preset cuda && cmake --build --preset cuda\n' "$file" >&2
    exit 66
  fi
done
exec python3 "$root/tests/bench/gpu_bench.py" --ventris "$program" --attention-bench "$attention" --corpus "$corpus" \
  --pytorch "$python" --output "$output" "$@"
