#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The speed of steps with a corpus in memory and with one that is larger than it, as a table in Markdown.

    python3 tests/bench/small_memory_bench.py --ventris build/release/ventris --corpus large.h5

Trains a very small model with steps of 25,000 tokens a side, in turn with the whole corpus in the caches of the system, and in a control
group whose memory, caches included, is --share of the corpus, after the caches were dropped. Needs root and the memory controller of control
groups (version 1 or 2, mounted at --cgroups). Times are of all steps except the first two; waiting is the phase "batch to the device" of the
profile, the time in which a step waits for its batch and copies it; MB read from the disk are of the same process with program and libraries.
Of the processor times a step, the first is of the thread that computes (--threads 1), the second of the one that reads and packs batches;
times of a virtual machine include what the host took. --cores C R keeps the first on core C and all other threads on core R: what a GPU
leaves free. Options after -- go to 'ventris train'.
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
import time

MODEL = ["--encoder-layers", "1", "--decoder-layers", "1", "--heads", "1", "--dropout", "0"]
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


def watch(process, cores):
    """Seconds that the first thread and all others computed, up to a twentieth of a second before the end."""
    used = {}
    while process.poll() is None:
        try:
            for thread in map(int, os.listdir(f"/proc/{process.pid}/task")):
                with open(f"/proc/{process.pid}/task/{thread}/schedstat", encoding="ascii") as file:
                    used[thread] = int(file.read().split()[0]) / 1e9
                if cores:
                    os.sched_setaffinity(thread, {cores[0] if thread == process.pid else cores[1]})
        except OSError:  # it ended
            pass
        time.sleep(0.05)
    return used.get(process.pid, 0.0), sum(seconds for thread, seconds in used.items() if thread != process.pid)


def train(words, folder, group, cores):
    def enter():
        if group:
            write(os.path.join(group, "cgroup.procs"), os.getpid())

    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    printed, said = (os.path.join(folder, name) for name in ("printed", "said"))
    with open(printed, "w", encoding="utf-8") as out, open(said, "w", encoding="utf-8") as err:
        process = subprocess.Popen(words, cwd=folder, preexec_fn=enter, stdout=out, stderr=err)
        computing, others = watch(process, cores)
    if process.returncode != 0:
        with open(said, encoding="utf-8") as file:
            raise SystemExit(file.read())
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    with open(os.path.join(folder, "model", "metrics.jsonl"), encoding="utf-8") as file:
        elapsed = [line["elapsed_seconds"] for line in map(json.loads, file) if "loss" in line][WARM_UP:]
    shutil.rmtree(os.path.join(folder, "model"))
    with open(printed, encoding="utf-8") as file:
        phases = {phase["phase"]: phase["ms"] for phase in json.loads(file.readline())["profile"]["phases"]}
    steps = [1e3 * (later - earlier) for earlier, later in zip(elapsed, elapsed[1:])]
    return {
        "mean": statistics.mean(steps),
        "median": statistics.median(steps),
        "longest": max(steps),
        "waiting": phases["batch to the device"],
        "read": (after.ru_inblock - before.ru_inblock) * BLOCK / 1e6,
        "computing": 1e3 * computing / (len(elapsed) + WARM_UP),
        "others": 1e3 * others / (len(elapsed) + WARM_UP),
    }


def main():
    own, _, rest = " ".join(sys.argv[1:]).partition(" -- ")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ventris", required=True)
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--width", type=int, default=16, help="of the model")
    parser.add_argument("--cores", type=int, nargs=2, default=[])
    parser.add_argument("--share", type=float, default=0.25)
    parser.add_argument("--cgroups", default="/sys/fs/cgroup")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args(own.split())
    corpus = os.path.abspath(arguments.corpus)
    words = [os.path.abspath(arguments.ventris), "train", "--corpus", corpus, "--model-dir", "model", *MODEL, *STEP,
             "--d-model", str(arguments.width), "--d-ff", str(arguments.width), "--max-steps", str(arguments.steps),
             "--profile", "--json", *rest.split()]  # fmt: skip
    group = make_group(arguments.cgroups, int(os.path.getsize(corpus) * arguments.share))
    folder = tempfile.mkdtemp(prefix="ventris-bench-")
    print("| corpus | ms a step, mean | median | longest | ms of waiting a step | processor ms a step | MB read | speed | load |")
    print("|" + "---|" * 9, flush=True)
    try:
        for _ in range(arguments.rounds):
            read_whole(corpus)
            in_memory = train(words, folder, None, arguments.cores)
            os.sync()
            write("/proc/sys/vm/drop_caches", 3)
            limited = train(words, folder, group, arguments.cores)
            for name, run in (("in memory", in_memory), ("larger than memory", limited)):
                print(f"| {name} | {run['mean']:.1f} | {run['median']:.1f} | {run['longest']:.0f} | {run['waiting']:.2f} "
                      f"| {run['computing']:.1f} + {run['others']:.1f} | {run['read']:.0f} "
                      f"| {in_memory['mean'] / run['mean']:.3f} | {os.getloadavg()[0]:.1f} |", flush=True)  # fmt: skip
    finally:
        shutil.rmtree(folder)
        os.rmdir(group)


if __name__ == "__main__":
    main()
