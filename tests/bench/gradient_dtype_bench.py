#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Cost or gain of --gradient-dtype bf16 between two MPI ranks on the CPU, as a table in Markdown.

    python3 tests/bench/gradient_dtype_bench.py --ventris build/release/ventris --corpus corpus.h5

Runs with f32 and bf16 sums alternate, in both precisions of the model. The table has medians of target tokens/s, without the first seconds, and
the loss of the last interval that all runs of a row reached.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import tempfile


def run(arguments, preset, precision, dtype):
    folder = tempfile.mkdtemp(prefix="ventris-bench-")
    tokens = str(arguments.batch_tokens)
    command = ["mpirun", "-np", "2", "--bind-to", "core", *(["--allow-run-as-root"] if os.geteuid() == 0 else []),
               arguments.ventris, "train", "--corpus", arguments.corpus, "--model-dir", folder, "--preset", preset,
               "--precision", precision, "--gradient-dtype", dtype, "--batch-target-tokens", tokens,
               "--batch-source-tokens", tokens, "--max-steps", "1000000", "--log-every", "1", "--valid-every", "0",
               "--save-every", "0", "--max-minutes", str((arguments.seconds + arguments.warmup_seconds) / 60)]
    try:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        lines = [json.loads(line) for line in open(os.path.join(folder, "metrics.jsonl"), encoding="utf-8")]
    finally:
        shutil.rmtree(folder)
    begin = lines[0]["elapsed_seconds"] + arguments.warmup_seconds
    counted = [line for line in lines if line["elapsed_seconds"] >= begin]
    if len(counted) < 2:
        raise SystemExit(f"{len(lines)} steps in {arguments.seconds:g} s are too few to measure: increase --seconds")
    tokens = counted[-1]["target_tokens"] - counted[0]["target_tokens"]
    return {"rate": tokens / (counted[-1]["elapsed_seconds"] - counted[0]["elapsed_seconds"]),
            "losses": [line["loss"] for line in lines]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ventris", required=True)
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--presets", nargs="+", default=["tiny", "base"])
    parser.add_argument("--precisions", nargs="+", default=["f32", "bf16"])
    parser.add_argument("--batch-tokens", type=int, default=4096)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--warmup-seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    print("| preset | precision | tokens/s, sums in f32 | tokens/s, sums in bf16 | ratio | step | loss, f32 | loss, bf16 |")
    print("|" + "---|" * 8)
    for preset in arguments.presets:
        for precision in arguments.precisions:
            runs = {"f32": [], "bf16": []}
            for _ in range(arguments.rounds):
                for dtype, results in runs.items():
                    results.append(run(arguments, preset, precision, dtype))
            f32, bf16 = (statistics.median(one["rate"] for one in results) for results in runs.values())
            step = min(len(one["losses"]) for results in runs.values() for one in results)
            losses = [results[0]["losses"][step - 1] for results in runs.values()]
            print(f"| {preset} | {precision} | {f32:,.0f} | {bf16:,.0f} | {bf16 / f32:.2f} | {step} | {losses[0]:.4f} | "
                  f"{losses[1]:.4f} |", flush=True)


if __name__ == "__main__":
    main()
