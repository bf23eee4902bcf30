#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Multi30k English-German with the preset tiny: a real corpus of image captions, BLEU on test_2016.
# Usage: launch/recipes/multi30k.sh TEXT_FOLDER [RUN_FOLDER]
# TEXT_FOLDER holds the upstream lowercased, normalised and tokenised files of github.com/multi30k/dataset
# (data/task1/tok), plain or with .gz:
#   train.lc.norm.tok.{en,de}, val.lc.norm.tok.{en,de}, test_2016_flickr.lc.norm.tok.{en,de}
# A second run resumes where the first stopped. Environment variables: RANKS (default: one for each GPU, 2 on CPUs; 1 needs no MPI),
# MAX_MINUTES (110), MAX_STEPS (8000), VOCABULARY (10000), DEVICE (auto), PRECISION (bf16 if the processor is faster with it, otherwise
# auto), and VENTRIS, the program.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck source=launch/setup.sh
source "$root/launch/setup.sh"

text=${1:-}
run=${2:-multi30k-run}
[[ -n $text ]] || die "usage: $0 TEXT_FOLDER [RUN_FOLDER]"
PATH=$PATH:$root/build/quickstart:$root/build/release
ventris=$(command -v "${VENTRIS:-ventris}") || die "ventris is not on the PATH; build it first (README.md)"

# file NAME: the plain file of that name in the text folder, or the gzipped one.
file() {
  if [[ -r $text/$1 ]]; then
    printf '%s' "$text/$1"
  elif [[ -r $text/$1.gz ]]; then
    printf '%s' "$text/$1.gz"
  else
    die "$text holds neither $1 nor $1.gz"
  fi
}
train_en=$(file train.lc.norm.tok.en)
train_de=$(file train.lc.norm.tok.de)
valid_en=$(file val.lc.norm.tok.en)
valid_de=$(file val.lc.norm.tok.de)
test_en=$(file test_2016_flickr.lc.norm.tok.en)
test_de=$(file test_2016_flickr.lc.norm.tok.de)

mkdir -p "$run"
gpus=0
if [[ ${DEVICE:-auto} != cpu ]]; then gpus=$(gpu_count); fi
ranks=${RANKS:-$((gpus > 0 ? gpus : 2))}
MPIRUN=()
if ((ranks > 1)); then mpirun_command "$ranks"; fi

if [[ ! -e $run/corpus.h5 ]]; then
  note "Preparing: joint vocabulary of ${VOCABULARY:-10000}"
  "$ventris" prepare --train-sets "$train_en" "$train_de" --valid-sets "$valid_en" "$valid_de" \
    --vocab-size "${VOCABULARY:-10000}" --no-normalization --output "$run/corpus.h5"
fi

# Products of bf16 are faster than those of f32 with AMX and on AMD, slower on Intel's AVX-512 alone (docs/results.md), and emulated
# elsewhere; auto takes bf16 on GPUs alone.
precision=auto
if grep -q amx_bf16 /proc/cpuinfo || { grep -q AuthenticAMD /proc/cpuinfo && grep -q avx512_bf16 /proc/cpuinfo; }; then
  precision=bf16
fi
precision=${PRECISION:-$precision}

note "Training on $ranks ranks, $precision"
# supervise.sh lets the ranks save on Ctrl-C and a lost terminal; mpirun alone kills them too early.
"$root/launch/supervise.sh" -- "${MPIRUN[@]}" "$ventris" train --corpus "$run/corpus.h5" --model-dir "$run/model" --preset tiny --precision "$precision" \
  --device "${DEVICE:-auto}" --max-steps "${MAX_STEPS:-8000}" --max-minutes "${MAX_MINUTES:-110}" \
  --valid-every 500 --valid-max-sentences 200 --save-every 250 --keep-checkpoints 10

# Ten if training was long enough.
last=$(find "$run/model" -name 'checkpoint-*.h5' | wc -l)
if ((last > 10)); then last=10; fi
note "Averaging the last $last checkpoints"
"$ventris" average --model-dir "$run/model" --last "$last" --output "$run/averaged.h5"

note "BLEU on test_2016, beam 5: the text is already tokenised and lowercased"
"${MPIRUN[@]}" "$ventris" evaluate --model "$run/averaged.h5" --source "$test_en" --reference "$test_de" \
  --device "${DEVICE:-auto}" --beam-size 5 --tokenize none --lowercase --output "$run/test_2016.out"
