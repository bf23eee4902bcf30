#!/usr/bin/env python3
"""The speed of steps with a corpus in memory and with one that is larger than it, as a table in Markdown.

    python3 tests/bench/small_memory_bench.py --ventris build/release/ventris --corpus large.h5

Trains a very small model with steps of 25,000 tokens a side, in turn with the whole corpus in the caches of the system, and in a control
group whose memory, caches included, is --share of the corpus, after the caches were dropped. Needs root and the memory controller of control
groups (version 1 or 2, mounted at --cgroups). Times are of all steps except the first two; waiting is the phase "batch to the device" of the
profile, the time in which a step waits for its batch and copies it; MB read from the disk are of the same process with program and libraries.
Options after -- go to 'ventris train'.
"""
import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile

MODEL = ["--encoder-layers", "1", "--decoder-layers", "1", "--d-model", "16", "--d-ff", "16", "--heads", "1", "--dropout", "0"]
STEP = ["--batch-source-tokens", "25000", "--batch-target-tokens", "25000", "--valid-every", "0", "--save-every", "0", "--log-every", "1"]
BLOCK = 512  # bytes of the unit of ru_inblock
WARM_UP = 2


def write(path, value):
    with open(path, "w", encoding="ascii") as file:
        file.write(f"{value}\n")


def make_group(cgroups, limit):
    version_1 = os.path.isdir(os.path.join(cgroups, "memory"))
    group = os.path.join(cgroups, "memory" if version_1 else "", "ventris-bench")
    os.makedirs(group, exist_ok=True)
    write(os.path.join(group, "memory.limit_in_bytes" if version_1 else "memory.max"), limit)
    return group


def read_whole(path):
    with open(path, "rb", buffering=0) as file:
        while file.read(1 << 24):
            pass


def train(words, folder, group):
    def enter():
        if group:
            write(os.path.join(group, "cgroup.procs"), os.getpid())

    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(words, cwd=folder, preexec_fn=enter, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    with open(os.path.join(folder, "model", "metrics.jsonl"), encoding="utf-8") as file:
        elapsed = [line["elapsed_seconds"] for line in map(json.loads, file) if "loss" in line][WARM_UP:]
    shutil.rmtree(os.path.join(folder, "model"))
    phases = {phase["phase"]: phase["ms"] for phase in json.loads(done.stdout.splitlines()[0])["profile"]["phases"]}
    steps = [1e3 * (later - earlier) for earlier, later in zip(elapsed, elapsed[1:])]
    return {
        "mean": statistics.mean(steps),
        "median": statistics.median(steps),
        "longest": max(steps),
        "waiting": phases["batch to the device"],
        "read": (after.ru_inblock - before.ru_inblock) * BLOCK / 1e6,
        "processor": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
    }


def main():
    own, _, rest = " ".join(sys.argv[1:]).partition(" -- ")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ventris", required=True)
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--share", type=float, default=0.25)
    parser.add_argument("--cgroups", default="/sys/fs/cgroup")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args(own.split())
    corpus = os.path.abspath(arguments.corpus)
    words = [os.path.abspath(arguments.ventris), "train", "--corpus", corpus, "--model-dir", "model", *MODEL, *STEP,
             "--max-steps", str(arguments.steps), "--profile", "--json", *rest.split()]  # fmt: skip
    group = make_group(arguments.cgroups, int(os.path.getsize(corpus) * arguments.share))
    folder = tempfile.mkdtemp(prefix="ventris-bench-")
    print("| corpus | ms a step, mean | median | longest | ms of waiting a step | MB read | processor s | speed | load |")
    print("|" + "---|" * 9, flush=True)
    try:
        for _ in range(arguments.rounds):
            read_whole(corpus)
            in_memory = train(words, folder, None)
            os.sync()
            write("/proc/sys/vm/drop_caches", 3)
            limited = train(words, folder, group)
            for name, run in (("in memory", in_memory), ("larger than memory", limited)):
                print(f"| {name} | {run['mean']:.1f} | {run['median']:.1f} | {run['longest']:.0f} | {run['waiting']:.2f} | {run['read']:.0f} "
                      f"| {run['processor']:.1f} | {in_memory['mean'] / run['mean']:.3f} | {os.getloadavg()[0]:.1f} |", flush=True)  # fmt: skip
    finally:
        shutil.rmtree(folder)
        os.rmdir(group)


if __name__ == "__main__":
    main()
