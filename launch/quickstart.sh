#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# From a fresh Debian 12 machine to a translation: installs missing packages, builds, and trains a small Transformer with one rank
# on each GPU, or with two ranks on the CPU of a machine without GPUs.
# Usage: launch/quickstart.sh [RUN_FOLDER]      (default: quickstart-run in the project folder; recreated each time)
# Environment variables: VENTRIS_BUILD_DIR (default: build/quickstart), CUDA_VISIBLE_DEVICES (the GPUs to use; empty: none).
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=launch/setup.sh
source "$root/launch/setup.sh"

run=${1:-$root/quickstart-run}
build=${VENTRIS_BUILD_DIR:-$root/build/quickstart}
marker=.ventris-quickstart
most_gpus=8  # more have too little to do: a batch of this task has 1,024 tokens

ranks=$(gpu_count)
if ((ranks > 0)); then
  ranks=$((ranks < most_gpus ? ranks : most_gpus))
  device=cuda cuda=ON
  echo "Training on $ranks GPU$( ((ranks == 1)) || printf s), one rank on each"
else
  ranks=2 device=cpu cuda=OFF
  echo "No GPU was found: training on the CPU, with two ranks"
fi

install_packages "${VENTRIS_BUILD_PACKAGES[@]}"

note "Building ventris (release) in $build"
mkdir -p "$build"
# With ON, a missing part of CUDA is an error that names it.
cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DVENTRIS_TESTS=OFF -DVENTRIS_BENCHMARKS=OFF \
  -DVENTRIS_CUDA=$cuda "$(compiler_cache)" >"$build/configure.log" 2>&1 || {
  cat "$build/configure.log" >&2
  if [[ $device == cuda ]]; then echo "CUDA_VISIBLE_DEVICES= $0 trains on the CPU instead" >&2; fi
  exit 1
}
cmake --build "$build" --target ventris --parallel "$(cores)"
PATH=$build:$PATH
ventris --version

# Remove only a folder that this script created.
if [[ -e $run && ! -e $run/$marker ]]; then die "$run exists and was not created by this script; name another folder"; fi
rm -rf "$run"
mkdir -p "$run"
touch "$run/$marker"
cd "$run"
start=$SECONDS
mpirun_command "$ranks"

note "1. A translation task: numbers, dates, times and prices in words, English to German"
ventris demo-corpus --output-dir demo 2>/dev/null
printf '\nThree of its pairs:\n'
paste -d '|' <(head -3 demo/train.en) <(head -3 demo/train.de) | sed 's/|/   ->   /; s/^/  /'

note "2. Preparing: a shared vocabulary of 2,000 tokens, and the text as token ids in one HDF5 file"
ventris prepare --train-sets demo/train.en demo/train.de --valid-sets demo/valid.en demo/valid.de \
  --vocab-size 2000 --output corpus.h5 2>/dev/null

note "3. Training a Transformer of 2 + 2 layers on $ranks rank$( ((ranks == 1)) || printf s), 2,000 steps, with BLEU on 500 validation sentences"
# supervise.sh lets the ranks save on Ctrl-C and a lost terminal; mpirun alone kills them too early.
"$root/launch/supervise.sh" -- "${MPIRUN[@]}" ventris train --corpus corpus.h5 --model-dir model --preset tiny \
  --encoder-layers 2 --decoder-layers 2 --dropout 0.1 --attention-dropout 0.1 \
  --warmup-steps 400 --learning-rate-scale 1 --ema 0.99 --batch-source-tokens 1024 --batch-target-tokens 1024 \
  --max-steps 2000 --valid-every 250 --valid-beam-size 1 --valid-max-sentences 500 --save-every 500 --log-every 250 \
  --device "$device"

note "4. BLEU on 1,000 held-out sentence pairs, decoded by all ranks with beam 4"
"${MPIRUN[@]}" ventris evaluate --model model --source demo/test.en --reference demo/test.de --output test.out --device "$device"

note "5. Exporting the weights to one HDF5 file, which h5py and h5dump can read"
ventris export --model model --output weights.h5

note "6. Translating the examples of README.md"
wrong=0
# try ENGLISH GERMAN: translates ENGLISH, and counts an error if the result is not GERMAN.
try() {
  local translation
  translation=$(ventris translate --model weights.h5 <<<"$1")
  printf '%s\n  -> %s\n' "$1" "$translation"
  if [[ $translation != "$2" ]]; then
    printf '     wrong: expected "%s"\n' "$2"
    wrong=$((wrong + 1))
  fi
}
try "half past seven" "halb acht"
try "quarter to nine" "Viertel vor neun"
try "twelve euros and fifty cents" "zwölf Euro und fünfzig Cent"
try "on the third of May" "am dritten Mai"
try "The trains arrived at half past twelve." "Die Züge kamen um halb eins an."
if ((wrong > 0)); then die "$wrong of 5 examples are translated wrongly"; fi
printf 'All 5 examples are translated as README.md says.\n'

note "Done in $((SECONDS - start)) seconds. All files are in $run"
cat <<END
Next steps:
  cd $run && export PATH=$build:\$PATH
  echo "half past seven" | ventris translate --model weights.h5     your own sentence
  ventris inspect weights.h5                                        contents of the file
  tail -3 model/metrics.jsonl                                       the training curve
  ventris help, and ventris train --help all                        all options
  $root/launch/recipes/multi30k.sh TEXT_FOLDER                      a real corpus, see README.md
END
