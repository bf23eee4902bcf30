#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The time from the start of a program to its first training step, for a small and a large corpus, as a table in Markdown.

    python3 tests/bench/start_bench.py --ventris build/release/ventris --small small.h5 --large large.h5 --ranks 1 2 16

Trains a small model for one step on each corpus in turn, --rounds times, each time after the caches of the system were dropped, which
needs root. The time is from the start of the program, or of mpirun, to the line of the log that reports step 1. MB read: what all processes
read from the disk, with program and libraries; MB of the file: what lies in memory of the corpus afterwards (fincore of util-linux).
With --command plan: 'ventris plan' on the same corpora, to its end.
"""
import argparse
import os
import re
import resource
import shutil
import statistics
import subprocess
import tempfile
import time

MODEL = ["--encoder-layers", "1", "--decoder-layers", "1", "--d-model", "64", "--d-ff", "128", "--heads", "2"]
STEP = ["--batch-source-tokens", "8192", "--batch-target-tokens", "8192"]  # 16 ranks take sentences of 512 tokens
BLOCK = 512  # bytes of the unit of ru_inblock


def drop_caches():
    os.sync()
    with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as file:
        file.write("3\n")


def cached_bytes(path):
    shown = subprocess.run(["fincore", "--bytes", "--noheadings", "--output", "RES", path], check=True, capture_output=True, text=True)
    return int(shown.stdout)


def start(command, words, folder):
    """Seconds to the first step, or of the whole of a plan; processor seconds and bytes read from the disk by all processes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begin = time.monotonic()
    seconds = None
    lines = []
    with subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        for line in process.stdout:
            lines.append(line)
            if seconds is None and re.search(r"\bstep 1/", line):
                seconds = time.monotonic() - begin
    if process.returncode != 0 or (command == "train" and seconds is None):
        raise SystemExit("".join(lines))
    if command == "plan":
        seconds = time.monotonic() - begin
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, used, (after.ru_inblock - before.ru_inblock) * BLOCK


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ventris", required=True)
    parser.add_argument("--small", required=True)
    parser.add_argument("--large", required=True)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--command", choices=["train", "plan"], default="train")
    arguments = parser.parse_args()
    ventris = os.path.abspath(arguments.ventris)
    corpora = {"small": os.path.abspath(arguments.small), "large": os.path.abspath(arguments.large)}
    size = os.path.getsize(corpora["large"])
    print("| ranks | corpus | seconds | median | ratio | processor s | MB read | MB of the file | % of the file | load |")
    print("|" + "---|" * 10, flush=True)
    folder = tempfile.mkdtemp(prefix="ventris-bench-")
    try:
        for ranks in arguments.ranks:
            runs = {name: [] for name in corpora}
            launcher = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", str(ranks)] if ranks > 1 and arguments.command == "train" else []
            for _ in range(arguments.rounds):
                for name, corpus in corpora.items():
                    words = [*launcher, ventris, arguments.command, "--corpus", corpus, "--model-dir", "model", *MODEL, *STEP,
                             "--max-steps", "1", "--valid-every", "0"]  # fmt: skip
                    words += ["--log-every", "1"] if arguments.command == "train" else ["--ranks", str(ranks)]
                    drop_caches()
                    runs[name].append((*start(arguments.command, words, folder), cached_bytes(corpus)))
                    shutil.rmtree(os.path.join(folder, "model"), ignore_errors=True)
            medians = {name: statistics.median(run[0] for run in of) for name, of in runs.items()}
            for name, of in runs.items():
                seconds = ", ".join(f"{run[0]:.2f}" for run in of)
                used, read, cached = (statistics.median(run[i] for run in of) for i in (1, 2, 3))
                share = f"{100 * cached / size:.2f}" if name == "large" else ""
                print(f"| {ranks} | {name} | {seconds} | {medians[name]:.2f} | {medians[name] / medians['small']:.2f} | {used:.2f} "
                      f"| {read / 1e6:.0f} | {cached / 1e6:.1f} | {share} | {os.getloadavg()[0]:.1f} |", flush=True)  # fmt: skip
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
