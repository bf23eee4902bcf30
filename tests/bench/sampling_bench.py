#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The cost of subword regularisation, as a table in Markdown.

    python3 tests/bench/sampling_bench.py --ventris build/release/ventris --source train.en.gz --target train.de.gz

Prepares the text with a BPE and a unigram vocabulary, and trains on each with and without --sample-source and --sample-target, in turn,
--rounds times. A step has the same number of tokens with and without, so that the times of steps can be compared: medians of all except the
first two of a run. The processor time of a step is that of the whole run less that of one of two steps, and varies less if other programs run.
"""
import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import tempfile

WARM_UP = 2


def processor_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def run(folder, words):
    """The times of the steps of one run, and its processor time."""
    before = processor_seconds()
    subprocess.run(words, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    used = processor_seconds() - before
    with open(os.path.join(folder, "model", "metrics.jsonl"), encoding="utf-8") as file:
        elapsed = [line["elapsed_seconds"] for line in map(json.loads, file) if "loss" in line]
    shutil.rmtree(os.path.join(folder, "model"))
    return [after - before for before, after in zip(elapsed[WARM_UP - 1 :], elapsed[WARM_UP:])], used


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ventris", required=True)
    parser.add_argument("--source", required=True)
    parser.add_argument("--target", required=True)
    parser.add_argument("--vocab-size", type=int, default=8000)
    parser.add_argument("--preset", default="tiny")
    parser.add_argument("--alpha", type=float, default=0.1)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=0)
    arguments = parser.parse_args()
    ventris = os.path.abspath(arguments.ventris)
    text = [os.path.abspath(path) for path in (arguments.source, arguments.target)]
    folder = tempfile.mkdtemp(prefix="ventris-bench-")
    print("| vocabulary | ms a step | sampled | ratio | processor ms a step | sampled | ratio |")
    print("|" + "---|" * 7, flush=True)
    try:
        for kind in ("bpe", "unigram"):
            prepare = ["prepare", "--train-sets", *text, "--tokenizer", kind, "--vocab-size", str(arguments.vocab_size), "--keep-text"]
            subprocess.run([ventris, *prepare, "--output", "corpus.h5"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
            words = [ventris, "train", "--corpus", "corpus.h5", "--model-dir", "model", "--preset", arguments.preset, "--valid-every", "0",
                     "--save-every", "0", "--log-every", "1", "--threads", str(arguments.threads)]  # fmt: skip
            sampled = [f"--sample-{side}={arguments.alpha}" for side in ("source", "target")]
            variants = {"plain": [], "sampled": sampled}
            times = {name: [] for name in variants}
            processor = {name: [] for name in variants}
            for _ in range(arguments.rounds):
                for name, options in variants.items():
                    _, before = run(folder, [*words, *options, "--max-steps", str(WARM_UP)])
                    steps, used = run(folder, [*words, *options, "--max-steps", str(arguments.steps)])
                    times[name] += steps
                    processor[name].append((used - before) / (arguments.steps - WARM_UP))
            cells = []
            for measured in (times, processor):
                plain, with_samples = (1e3 * statistics.median(measured[name]) for name in variants)
                cells += [f"{plain:.1f}", f"{with_samples:.1f}", f"{with_samples / plain:.3f}"]
            print(f"| {kind} | {' | '.join(cells)} |", flush=True)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
