#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The time and memory that the order of an epoch takes, as a table in Markdown: as fairseq makes it (numpy's permutation and two stable sorts
by length), as a loop in PyTorch makes it (a random permutation and its list), and by `ventris order`, the whole program.

    python3 tests/bench/order_bench.py --ventris build/release/ventris --corpus large.h5 --pytorch PYTHON

Each in a process of its own, --rounds times in turn. Memory of the peers is the peak less what they had before (for numpy with the lengths
of all pairs, which fairseq has in memory too), that of ventris all of it, with the pages of the file. PYTHON has torch, numpy and h5py.
"""
import argparse
import json
import os
import resource
import subprocess
import time

import table

PEERS = {"numpy: permutation, two sorts": "numpy", "PyTorch: permutation, list": "torch"}


def peak_kilobytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def order(corpus, which):
    """Seconds, and bytes more than before, of one peer."""
    import h5py
    import numpy as np

    with h5py.File(corpus) as file:
        bounds = file["train/offsets"]
        lengths = np.empty(len(bounds) - 1, dtype=np.int32)
        step = 1 << 22
        for begin in range(0, len(lengths), step):
            lengths[begin : begin + step] = np.diff(bounds[begin : begin + step + 1])
    sizes = lengths[0::2].copy(), lengths[1::2].copy()
    del lengths
    if which == "torch":
        import torch

        pairs = len(sizes[0])
        del sizes
        before, begin = peak_kilobytes(), time.monotonic()
        indices = torch.randperm(pairs).tolist()
    else:
        before, begin = peak_kilobytes(), time.monotonic()
        # fairseq's LanguagePairDataset.ordered_indices
        indices = np.random.permutation(len(sizes[0]))
        indices = indices[np.argsort(sizes[1][indices], kind="mergesort")]
        indices = indices[np.argsort(sizes[0][indices], kind="mergesort")]
    seconds = time.monotonic() - begin
    print(json.dumps({"pairs": len(indices), "seconds": seconds, "bytes": (peak_kilobytes() - before) * 1024}))


def ours(command):
    begin = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        raise table.Failed(f"{command[0]} ended with status {status}")
    return time.monotonic() - begin, usage.ru_maxrss * 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ventris")
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--pytorch", help="a Python with torch")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output")
    parser.add_argument("--peer", choices=PEERS.values(), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peer:
        order(arguments.corpus, arguments.peer)
        return
    results = {}
    for _ in range(arguments.rounds):
        for name, peer in PEERS.items():
            found = table.run_json([arguments.pytorch, os.path.abspath(__file__), "--corpus", arguments.corpus, "--peer", peer])
            results.setdefault(name, []).append((found["seconds"], found["bytes"]))
        for steps in ("1:1", "1000:1000"):
            command = [arguments.ventris, "order", "--corpus", arguments.corpus, "--preset", "base", "--steps", steps]
            results.setdefault(f"`{' '.join(['ventris', 'order', *command[4:]])}`", []).append(ours(command))
    rows = [[name, ", ".join(f"{seconds:.2f}" for seconds, _ in values), f"{max(size for _, size in values) / 2**20:,.0f}"]
            for name, values in results.items()]
    table.write(table.markdown(["order", "s", "MiB"], rows), arguments.output)


if __name__ == "__main__":
    main()
