#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Sentence pairs a second of `ventris prepare` on two threads against two parallel spm_encode processes, one for each side, on
# the same plain text with the same model; and the memory of prepare for the text and for several copies of it.
# usage: prepare_bench.sh VENTRIS SOURCE TARGET [VOCAB_SIZE] [COPIES] [bpe|unigram]
#   VENTRIS  the program; SOURCE, TARGET  parallel text, plain or gzipped; COPIES  of the text for the memory run (13)
# Needs spm_encode and h5dump (Debian: sentencepiece, hdf5-tools).
set -eu
ventris=$1
source_text=$2
target_text=$3
vocab_size=${4:-32000}
copies=${5:-13}
kind=${6:-bpe}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

gzip -cdf "$source_text" > "$work/source"
gzip -cdf "$target_text" > "$work/target"
pairs=$(wc -l < "$work/source")
now() { date +%s.%N; }
rate() { awk -v pairs="$1" -v begin="$2" -v end="$3" 'BEGIN { printf "%.0f", pairs / (end - begin) }'; }

"$ventris" prepare --train-sets "$work/source" "$work/target" --tokenizer "$kind" --vocab-size "$vocab_size" \
  --threads 2 --output "$work/trained.h5" > "$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
h5dump -d /tokenizer -b LE -o "$work/model" "$work/trained.h5" > "$work/log"

for run in 1 2 3; do
  begin=$(now)
  spm_encode --model="$work/model" --output_format=id < "$work/source" > "$work/source.ids" &
  spm_encode --model="$work/model" --output_format=id < "$work/target" > "$work/target.ids"
  wait
  peer=$(rate "$pairs" "$begin" "$(now)")
  begin=$(now)
  "$ventris" prepare --train-sets "$work/source" "$work/target" --tokenizer-model "$work/model" --threads 2 \
    --output "$work/corpus.h5" > "$work/log" 2>&1
  ours=$(rate "$pairs" "$begin" "$(now)")
  echo "run $run: spm_encode x 2 $peer pairs/s, ventris prepare $ours pairs/s, ratio $(awk -v a="$ours" -v b="$peer" \
    'BEGIN { printf "%.2f", a / b }')"
done

peak() { awk '/^VmHWM/ { print $2 }' "$1"; }
for times in 1 "$copies"; do
  i=0
  while [ "$i" -lt "$times" ]; do
    cat "$work/source" >> "$work/many.source"
    cat "$work/target" >> "$work/many.target"
    i=$((i + 1))
  done
  "$ventris" prepare --train-sets "$work/many.source" "$work/many.target" --tokenizer-model "$work/model" --threads 2 \
    --output "$work/many.h5" > "$work/log" 2>&1 &
  child=$!
  highest=0
  while kill -0 "$child" 2> /dev/null; do
    seen=$(peak "/proc/$child/status" 2> /dev/null || true)
    [ "${seen:-0}" -gt "$highest" ] && highest=$seen
    sleep 0.05
  done
  wait "$child"
  echo "memory: $((pairs * times)) pairs, at most $highest KiB resident"
  rm "$work/many.source" "$work/many.target"
done
