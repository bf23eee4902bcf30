#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The cost of --reduction reproducible relative to fast, as a table in Markdown.

    python3 tests/bench/reduction_bench.py --ventris build/release/ventris

Each preset trains on a demonstration corpus with batches of --batch-tokens, on 1 and 2 ranks of one thread: with the fast reduction and
its default number of shards, with the fast one and 8 shards, and with the reproducible one and 8 shards. The runs of a row alternate,
--rounds times. A time is the median of all steps except the first two of a run; a ratio is one of medians.
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
TRAIN = ["train", "--corpus", "corpus.h5", "--model-dir", "model", "--threads", "1", "--valid-every", "0", "--save-every", "0",
         "--log-every", "1"]  # fmt: skip
WARM_UP = 2
VARIANTS = {
    "fast": ["--reduction", "fast"],
    "fast, 8 shards": ["--reduction", "fast", "--logical-shards", "8"],
    "reproducible": ["--reduction", "reproducible", "--logical-shards", "8"],
}


def step_seconds(folder, launcher, words):
    """The times of the steps of one run."""
    subprocess.run([*launcher, *words], cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with open(os.path.join(folder, "model", "metrics.jsonl"), encoding="utf-8") as file:
        elapsed = [line["elapsed_seconds"] for line in map(json.loads, file) if "loss" in line]
    shutil.rmtree(os.path.join(folder, "model"))
    return [after - before for before, after in zip(elapsed[WARM_UP - 1 :], elapsed[WARM_UP:])]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ventris", required=True)
    parser.add_argument("--presets", nargs="+", default=["tiny", "base"])
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--batch-tokens", type=int, default=4096)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    ventris = os.path.abspath(arguments.ventris)
    folder = tempfile.mkdtemp(prefix="ventris-bench-")
    mpirun = ["mpirun", *(["--allow-run-as-root"] if os.geteuid() == 0 else []), "--oversubscribe", "-np"]
    print("| preset | ranks | fast, ms a step | fast, 8 shards | reproducible, 8 shards | ratio to fast | ratio to fast, 8 shards |")
    print("|" + "---|" * 7, flush=True)
    try:
        for words in (TEXT, PREPARE):
            subprocess.run([ventris, *words], cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for preset in arguments.presets:
            for ranks in arguments.ranks:
                launcher = [*mpirun, str(ranks)] if ranks > 1 else []
                batch = [f"--batch-{side}-tokens={arguments.batch_tokens}" for side in ("source", "target")]
                words = [ventris, *TRAIN, "--preset", preset, *batch, "--max-steps", str(arguments.steps)]
                times = {name: [] for name in VARIANTS}
                for _ in range(arguments.rounds):
                    for name, options in VARIANTS.items():
                        times[name] += step_seconds(folder, launcher, [*words, *options])
                fast, same, tree = (1e3 * statistics.median(times[name]) for name in VARIANTS)
                print(f"| {preset} | {ranks} | {fast:.0f} | {same:.0f} | {tree:.0f} | {tree / fast:.2f} | {tree / same:.2f} |", flush=True)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
