#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The cost of saving during training, for a model of 4 + 4 layers and width 128, as a table in Markdown.

    python3 tests/bench/saving_bench.py --ventris build/release/ventris

The steps of one run are grouped in rows of --block: in every second row the checkpoint of its first step is saved during the row, in the
others nothing is saved. The cost of a save, including copy, writing and verification, is the difference of the medians; its share is that of
one save a minute. --run-folder sets the location of the run folder, as the disk matters.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import tempfile

TEXT = ["demo-corpus", "--output-dir", "demo"]
PREPARE = ["prepare", "--train-sets", "demo/train.en", "demo/train.de", "--vocab-size", "2000", "--output", "corpus.h5"]
TRAIN = ["train", "--corpus", "corpus.h5", "--model-dir", "model", "--preset", "tiny", "--dropout", "0.1", "--attention-dropout", "0.1",
         "--warmup-steps", "400", "--learning-rate-scale", "1", "--batch-source-tokens", "2048", "--batch-target-tokens", "2048",
         "--valid-every", "0"]  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ventris", required=True)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--block", type=int, default=10, help="steps of a row")
    parser.add_argument("--rows", type=int, default=40)
    parser.add_argument("--run-folder", help="location of the run folder; default: the system's folder for temporary files")
    arguments = parser.parse_args()
    ventris = os.path.abspath(arguments.ventris)
    folder = tempfile.mkdtemp(prefix="ventris-bench-", dir=arguments.run_folder)
    block = arguments.block
    steps = block * (arguments.rows + 1) + 1
    mpirun = ["mpirun", "-np", str(arguments.ranks), *(["--allow-run-as-root"] if os.geteuid() == 0 else [])]
    try:
        for words in (TEXT, PREPARE):
            subprocess.run([ventris, *words], cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        words = [*(mpirun if arguments.ranks > 1 else []), ventris, *TRAIN, "--max-steps", str(steps), "--log-every", "1",
                 "--save-every", str(2 * block)]  # fmt: skip
        subprocess.run(words, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with open(os.path.join(folder, "model", "metrics.jsonl"), encoding="utf-8") as file:
            elapsed = {line["step"]: line["elapsed_seconds"] for line in map(json.loads, file)}
        newest = max(name for name in os.listdir(os.path.join(folder, "model")) if name.startswith("checkpoint-"))
        size = os.path.getsize(os.path.join(folder, "model", newest))
    finally:
        shutil.rmtree(folder)
    # The save after step s delays step s + 1. The first row warms up.
    rows = {True: [], False: []}
    for begin in range(block, steps - block, block):
        rows[begin % (2 * block) == 0].append(elapsed[begin + block] - elapsed[begin])
    quiet, saving = (statistics.median(rows[key]) for key in (False, True))
    cost = saving - quiet
    print("| ranks | checkpoint | step | row without a save | row with a save | cost of a save | share of a minute |")
    print("|" + "---|" * 7)
    print(f"| {arguments.ranks} | {size / 1e6:.1f} MB | {1e3 * quiet / block:.1f} ms | {1e3 * quiet:.0f} ms | {1e3 * saving:.0f} ms | "
          f"{1e3 * cost:.0f} ms | {100 * cost / 60:.2f} % |")


if __name__ == "__main__":
    main()
