#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The experiments of "Attention Is All You Need": WMT 2014 English-German or English-French, base or big, newstest2014 by two
# protocols. Usage: launch/recipes/wmt14.sh en-de|en-fr FOLDER [OPTION OF ventris train...]
# FOLDER holds the data of WMT 2014, which this script does not fetch: the files of its table below, plain or with .gz, in FOLDER
# or in the folders that the archives unpack to. All that it makes is in FOLDER/en-de-base, or as the pair and the preset are.
# Stages that are done are recorded and skipped: after an error or a kill the same command goes on. Environment variables:
#   PRESET   base or big (tiny and small for trials). Default: base
#   STEPS    of training. Default: those of the preset, 100,000 for base and 300,000 for big as in the paper
#   VOCAB    tokens of the vocabulary. Default: 37,000 for en-de, 32,000 for en-fr, as in the paper
#   RANKS    1 needs no MPI. Default: 1; on a host with GPUs as many as it has are best
#   DEVICE   auto, cpu or cuda. Default: auto
#   ANY_SIZE yes: takes files that have other numbers of lines than the published ones. Default: no
#   STEP_MS, FIXED_MS   a step on one GPU, and what of it every rank repeats (train --profile), to predict the time on 1 and 8
#            GPUs with. Default: as measured on an H100 (docs/scaling.md)
#   VENTRIS  the program
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck source=launch/setup.sh
source "$root/launch/setup.sh"

# fail CODE TEXT: ends with an exit code of docs/exit-codes.md.
fail() {
  printf 'error: %s\n' "$2" >&2
  exit "$1"
}

usage="usage: $0 en-de|en-fr FOLDER [OPTION OF ventris train...]"
(($# >= 2)) || fail 64 "$usage"
pair=$1
folder=$2
shift 2
preset=${PRESET:-base}
ranks=${RANKS:-1}
device=${DEVICE:-auto}

validation="newstest2013 3000 dev.tgz"
# name, lines, archive: on https://www.statmt.org/wmt14/translation-task.html. The lines are those that WMT publishes for each
# corpus; of giga-fren.release2.fixed those of Lingvo's configuration for this data, as WMT gives them for an earlier release.
case $pair in
  en-de)
    target=de test='newstest2014-deen 3003 test-full.tgz' vocabulary=37000
    training=(
      "europarl-v7.de-en 1920209 training-parallel-europarl-v7.tgz"
      "commoncrawl.de-en 2399123 training-parallel-commoncrawl.tgz"
      "news-commentary-v9.de-en 201288 training-parallel-nc-v9.tgz"
    )
    # The paper trains on all 4.5 million pairs: only pairs whose sides differ by more than a factor of 9 are dropped, as Moses's
    # clean-corpus-n.perl does by default.
    ratio=9
    ;;
  en-fr)
    target=fr test='newstest2014-fren 3003 test-full.tgz' vocabulary=32000
    training=(
      "europarl-v7.fr-en 2007723 training-parallel-europarl-v7.tgz"
      "commoncrawl.fr-en 3244152 training-parallel-commoncrawl.tgz"
      "undoc.2000.fr-en 12886831 training-parallel-un.tgz"
      "news-commentary-v9.fr-en 183251 training-parallel-nc-v9.tgz"
      "giga-fren.release2.fixed 22520376 training-giga-fren.tar"
    )
    # Of 40.8 million pairs the paper has 36 million. Gehring et al. (2017) come near that, to 35.5, with this ratio.
    ratio=1.5
    ;;
  *) fail 64 "$usage: there is no pair '$pair'" ;;
esac
[[ -d $folder ]] || fail 66 "$folder is no folder; it is to hold the data of WMT 2014: see the first lines of $0"

# Checkpoints every 10 minutes, at 0.4 and 1.0 seconds a step as on the machine of the paper (section 5.2); the last 5 and 20 are
# averaged (section 6.1). Validations fall on checkpoints, so that none is saved in between; more are kept, for those that a
# stopped run saves.
case $preset in
  base) save=1500 valid=1500 keep=10 last=5 step_ms=27.68 fixed_ms=0.75 ;;
  big) save=600 valid=3000 keep=30 last=20 step_ms=70.84 fixed_ms=2.5 ;;
  tiny | small) save=1000 valid=1000 keep=10 last=5 step_ms='' fixed_ms='' ;;
  *) fail 64 "PRESET=$preset: expected base, big, tiny or small" ;;
esac
[[ $ranks =~ ^[1-9][0-9]*$ ]] || fail 64 "RANKS=$ranks: expected a number of processes"
vocabulary=${VOCAB:-$vocabulary}
step_ms=${STEP_MS:-$step_ms}
fixed_ms=${FIXED_MS:-$fixed_ms}

PATH=$PATH:$root/build/quickstart:$root/build/release
ventris=$(command -v "${VENTRIS:-ventris}") || fail 66 "ventris is not on the PATH; build it first (README.md)"

# One process works in a folder. What it starts holds the lock too: what a killed script left running keeps others out.
exec 9>"$folder/.wmt14.lock" || fail 73 "$folder: cannot be written"
flock --nonblock 9 ||
  fail 73 "$folder is in use by another run of this script, or by a command that a killed one started; wait for it: fuser -v $folder/.wmt14.lock"

run=$folder/$pair-$preset
mkdir -p "$run/done"

# ---- Files --------------------------------------------------------------------------------------------------------------------

# sides NAME: the files of both languages. Those of the test set are in SGM.
sides() {
  if [[ $1 == newstest2014-* ]]; then
    printf '%s ' "$1-src.en.sgm" "$1-ref.$target.sgm"
  else
    printf '%s ' "$1.en" "$1.$target"
  fi
}

# path NAME: the file of that name, plain or gzipped, in FOLDER or where the archives unpack it. False if there is none.
path() {
  local place file
  for place in "" training/ un/ dev/ test-full/; do
    for file in "$folder/$place$1" "$folder/$place$1.gz"; do
      if [[ -r $file ]]; then
        printf '%s' "$file"
        return 0
      fi
    done
  done
  return 1
}

# text FILE: its text. segments FILE: the text of the segments of an SGM file, as sacreBLEU takes them: between the tags, white
# space of Unicode squeezed and trimmed, entities left as they are.
text() { gzip -cdf -- "$1"; }
segments() {
  text "$1" | LC_ALL=C sed -nE 's,^.*<seg[^>]*>(.*)</seg>.*$,\1,
    t segment
    b
    : segment
    s/\xC2[\x85\xA0]|\xE1\x9A\x80|\xE2\x80[\x80-\x8A\xA8\xA9\xAF]|\xE2\x81\x9F|\xE3\x80\x80|[\t-\r\x1C-\x1F]/ /g
    s/ +/ /g; s/^ //; s/ $//; p'
}

# need ROW...: each has the name of two files, their lines, and their archive. Names all that are missing at once.
need() {
  local missing=() row name lines archive side
  for row in "$@"; do
    read -r name lines archive <<<"$row"
    for side in $(sides "$name"); do
      path "$side" >/dev/null || missing+=("$side ($lines lines), of $archive")
    done
  done
  if ((${#missing[@]} == 0)); then return 0; fi
  printf '  %s\n' "${missing[@]}" >&2
  fail 66 "$folder lacks the files above, plain or with .gz. The archives are on https://www.statmt.org/wmt14/translation-task.html;
unpack them there: cd $folder && tar -xf ARCHIVE"
}

# verify FILE LINES: at its first use a file is counted and its checksum recorded; later it must have the same. Nobody publishes
# checksums of these files.
sums=$folder/wmt14.sha256
verify() {
  local file recorded sum lines
  file=$(path "$1")
  recorded=$(awk -v name="$1" '$3 == name { print $1 }' "$sums" 2>/dev/null || true)
  sum=$(sha256sum <"$file")
  sum=${sum%% *}
  if [[ -n $recorded ]]; then
    [[ $sum == "$recorded" ]] ||
      fail 65 "$file has changed: its SHA-256 is $sum, and was $recorded at the first use ($sums). Fetch it again; if the change is intended, remove its line there and $run"
    return 0
  fi
  if [[ $1 == *.sgm ]]; then lines=$(segments "$file" | wc -l); else lines=$(text "$file" | wc -l); fi
  if [[ ${ANY_SIZE:-no} != yes && $lines != "$2" ]]; then
    fail 65 "$file has $lines lines, $2 are published: it is not whole, or another release. Fetch it again; ANY_SIZE=yes takes it as it is"
  fi
  printf '%s %s %s\n' "$sum" "$lines" "$1" >>"$sums"
  printf '%s: %s lines\n' "$file" "$lines"
}

# ---- Stages -------------------------------------------------------------------------------------------------------------------

# stage NAME SETTINGS TITLE: begins a stage. False if it is done, with the same settings, and so are those before it.
stages=(prepare plan train average evaluate)
all_done=yes
stage() {
  if [[ $all_done == yes && -e $run/done/$1 && $(<"$run/done/$1") == "$2" ]]; then
    note "$3: done before"
    return 1
  fi
  all_done=no
  local name later=no
  for name in "${stages[@]}"; do
    if [[ $name == "$1" ]]; then later=yes; fi
    if [[ $later == yes ]]; then rm -f "$run/done/$name"; fi
  done
  note "$3"
}

# finish NAME SETTINGS: records that a stage is done.
finish() {
  printf '%s' "$2" >"$run/done/.$1"
  mv "$run/done/.$1" "$run/done/$1"
}

# Sentences of up to 250 tokens, as in the recipes of fairseq for this data, which clean after BPE as well. On 20,000 of its pairs
# a coverage of 0.9999 leaves 121 of 309 characters out, which occur 375 times among 5.5 million; 0.9995, the default of
# SentencePiece, would leave out the signs + $ = and °. Characters of other scripts in Common Crawl do not fill the vocabulary.
prepare_options=(--vocab-size "$vocabulary" --max-length 250 --max-length-ratio "$ratio" --character-coverage 0.9999)
if [[ -e $run/done/prepare && $(<"$run/done/prepare") != "${prepare_options[*]}" ]]; then
  fail 78 "$run was prepared with $(<"$run/done/prepare"), now it would be ${prepare_options[*]}: take the same VOCAB, or move $run away"
fi
if stage prepare "${prepare_options[*]}" "Preparing: the files, and a joint vocabulary of $vocabulary"; then
  need "${training[@]}" "$validation" "$test"
  sets=()
  for row in "${training[@]}" "$validation"; do
    read -r name lines archive <<<"$row"
    for side in $(sides "$name"); do
      verify "$side" "$lines"
      sets+=("$(path "$side")")
    done
  done
  "$ventris" prepare --train-sets "${sets[@]::${#sets[@]}-2}" --valid-sets "${sets[@]: -2}" "${prepare_options[@]}" \
    --output "$run/corpus.h5"
  finish prepare "${prepare_options[*]}"
fi

MPIRUN=()
if ((ranks > 1)); then mpirun_command "$ranks"; fi

# What training takes from a file, and options of the command line override.
{
  printf 'preset = %s\nsave-every = %s\nvalid-every = %s\nkeep-checkpoints = %s\n' "$preset" "$save" "$valid" "$keep"
  if [[ -n ${STEPS:-} ]]; then printf 'max-steps = %s\n' "$STEPS"; fi
  # Section 6.1: dropout 0.1 for the big model of English-French.
  if [[ $pair-$preset == en-fr-big ]]; then printf 'dropout = 0.1\n'; fi
} >"$run/train.ini"
train_options=(--config "$run/train.ini" --corpus "$run/corpus.h5" "$@")
train_settings="$(<"$run/train.ini") $*"

if stage plan "$train_settings" "What it takes: this run, and one on 1 and on 8 GPUs of 80 GiB in a host of 512 GiB"; then
  # A run that cannot fit here ends the script.
  "$ventris" plan "${train_options[@]}" --model-dir "$run/model" --ranks "$ranks" --device "$device"
  for gpus in 1 8; do
    note "On $gpus GPU$( ((gpus == 1)) || printf s), predicted"
    prediction=()
    # NVLink as in docs/scaling.md.
    if [[ -n $step_ms ]]; then prediction=(--link 370 --latency 56 --step-ms "$step_ms" --fixed-ms "${fixed_ms:-0}"); fi
    "$ventris" plan "${train_options[@]}" --ranks "$gpus" --device cuda --device-memory 80 --host-memory 512 "${prediction[@]}" ||
      echo "It would not fit there"
  done
  finish plan "$train_settings"
fi

if stage train "$train_settings" "Training $preset on $ranks rank$( ((ranks == 1)) || printf s)"; then
  # supervise.sh lets the ranks save on Ctrl-C and a lost terminal; mpirun alone kills them too early.
  "$root/launch/supervise.sh" -- "${MPIRUN[@]}" "$ventris" train "${train_options[@]}" --model-dir "$run/model" --device "$device"
  finish train "$train_settings"
fi

# The newest of the checkpoints of --save-every, and the last one of all. One that a stopped run saved in between is left out: the
# average is that of a run that was never stopped.
[[ -e $run/model/config.json ]] || fail 66 "$run/model was trained and is gone: restore it, or remove $run/done/train to train again"
every=$(sed -nE 's/^ *"save_every": *([0-9]+),?$/\1/p' "$run/model/config.json")
checkpoints=()
while read -r checkpoint; do
  step=${checkpoint%.h5}
  step=$((10#${step##*-}))
  if ((${#checkpoints[@]} == 0 || (every > 0 && step % every == 0))); then checkpoints+=("$run/model/$checkpoint"); fi
done < <(find "$run/model" -name 'checkpoint-*.h5' -printf '%f\n' | sort -r)
checkpoints=("${checkpoints[@]::$last}")
last=${#checkpoints[@]}
if stage average "$last" "Averaging the last $last checkpoints"; then
  "$ventris" average --checkpoints "${checkpoints[@]}" --output "$run/averaged.h5"
  finish average "$last"
fi

if stage evaluate "$last" "newstest2014, beam 4, length penalty 0.6: scores by sacreBLEU's protocol and by the paper's"; then
  need "$test"
  read -r name lines archive <<<"$test"
  for side in $(sides "$name"); do
    verify "$side" "$lines"
    language=${side%.sgm}
    segments "$(path "$side")" >"$run/newstest2014.${language##*.}"
  done
  "${MPIRUN[@]}" "$ventris" evaluate --model "$run/averaged.h5" --source "$run/newstest2014.en" --reference "$run/newstest2014.$target" \
    --device "$device" --beam-size 4 --length-penalty 0.6 --output "$run/newstest2014.out" >"$run/scores.new"
  "$ventris" bleu --input "$run/newstest2014.out" --reference "$run/newstest2014.$target" --protocol paper --language "$target" \
    >>"$run/scores.new"
  mv "$run/scores.new" "$run/scores.txt"
  finish evaluate "$last"
fi

# Table 2 of the paper; later versions of it have 41.8 for the big model of English-French, the first 41.0.
case $pair-$preset in
  en-de-base) paper=27.3 ;;
  en-de-big) paper=28.4 ;;
  en-fr-base) paper=38.1 ;;
  en-fr-big) paper=41.8 ;;
  *) paper= ;;
esac
note "Scores, also in $run/scores.txt${paper:+; the paper has $paper by its own protocol}"
cat "$run/scores.txt"
printf 'Translate with: %s translate --model %s\n' "$ventris" "$run/averaged.h5"
