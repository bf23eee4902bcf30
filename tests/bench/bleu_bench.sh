#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Seconds of processor time of `ventris bleu` against sacreBLEU's command on one core, including the start of the program, alternating: the best of
# several runs each, and the ratio. All systems are scored as one text, so that no line of the systems is repeated.
# usage: bleu_bench.sh VENTRIS PYTHON REFERENCE SYSTEM...
#   VENTRIS  the program; PYTHON  an interpreter with sacrebleu; REFERENCE, SYSTEM  text of as many lines, plain or gzipped
#   RUNS     from the environment: runs of each (3);  CORE  the core to use (0)
set -eu
TIMEFORMAT="%U %S"
ventris=$1
python=$2
reference=$3
shift 3
core=${CORE:-0}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for system in "$@"; do
  gzip -cdf "$system" >> "$work/system"
  gzip -cdf "$reference" >> "$work/reference"
done
lines=$(wc -l < "$work/system")
# least FILE: the smallest sum of a line
least() { awk '{ print $1 + $2 }' "$1" | sort -g | head -n 1; }

# compare TITLE "OPTIONS OF VENTRIS" "OPTIONS OF SACREBLEU"
compare() {
  rm -f "$work/ours" "$work/theirs"
  run=0
  while [ "$run" -lt "${RUNS:-3}" ]; do
    # shellcheck disable=SC2086
    { time taskset -c "$core" "$python" -m sacrebleu "$work/reference" -i "$work/system" -b -w 9 $3 > "$work/their.score" \
      2> /dev/null; } 2>> "$work/theirs"
    # shellcheck disable=SC2086
    { time taskset -c "$core" "$ventris" bleu --reference "$work/reference" --input "$work/system" --score-only --width 9 $2 \
      > "$work/our.score" 2> /dev/null; } 2>> "$work/ours"
    run=$((run + 1))
  done
  cmp -s "$work/our.score" "$work/their.score" && same="same score" || same="DIFFERENT SCORES"
  awk -v title="$1" -v ours="$(least "$work/ours")" -v theirs="$(least "$work/theirs")" -v lines="$lines" -v same="$same" \
    'BEGIN { printf "%-22s %d lines: sacrebleu %.3f s, ventris %.3f s, ratio %.1f, %s\n", title, lines, theirs, ours, theirs / ours, same }'
}

compare "BLEU 13a" "" ""
compare "BLEU intl" "--tokenize intl" "-tok intl"
compare "BLEU char" "--tokenize char" "-tok char"
compare "BLEU none" "--tokenize none" "-tok none"
compare "BLEU zh" "--tokenize zh" "-tok zh"
compare "BLEU lowercase" "--lowercase" "-lc"
compare "chrF" "--metrics chrf" "-m chrf"
compare "chrF++" "--metrics chrf --chrf-word-order 2" "-m chrf --chrf-word-order 2"
compare "BLEU confidence" "--confidence" "--confidence"
if [ "${TER:-1}" = 1 ]; then
  compare "TER" "--metrics ter" "-m ter"
fi
