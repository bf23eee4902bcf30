#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Attention of one layer in PyTorch, by the variable-length form of FlashAttention that peer_packed.py trains with: forward and backward, bf16.

    python peer_attention.py --pairs pairs.txt --device cuda

pairs.txt holds the token counts of a batch of sentence pairs, including end and begin marks, as `attention_bench --pairs` reads it;
tests/gpu/corpus.py writes one. Prints a JSON object a line for each (preset, side, dropout): "ms" for all pairs of the file.
"""
import argparse
import json
import time

import peer_packed
import peer_pytorch
import torch

SHAPES = {"base": (8, 64), "big": (16, 64)}
SIDES = ("encoder", "decoder", "cross")


def milliseconds(work, device):
    """The least mean of three rounds."""
    calls = 2 if device == "cpu" else 10
    for _ in range(2):
        work()
    if device == "cpu":
        begin = time.perf_counter()
        for _ in range(calls):
            work()
        return 1000 * (time.perf_counter() - begin) / calls
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    best = float("inf")
    for _ in range(3):
        torch.cuda.synchronize()
        begin.record()
        for _ in range(calls):
            work()
        end.record()
        end.synchronize()
        best = min(best, begin.elapsed_time(end) / calls)
    return best


def measure(attend, pairs, shape, side, rate, device):
    queries = [pair[0 if side == "encoder" else 1] for pair in pairs]
    keys = [pair[1 if side == "decoder" else 0] for pair in pairs]
    query, key, value = (torch.randn(sum(lengths), *shape, device=device, dtype=torch.bfloat16).requires_grad_() for lengths in (queries, keys, keys))
    of_queries, of_keys = (torch.tensor([0, *lengths], device=device).cumsum(0).to(torch.int32) for lengths in (queries, keys))
    longest = max(*queries, *keys)
    gradient = torch.ones_like(query)

    def both():
        torch.autograd.grad(attend(query, key, value, of_queries, of_keys, longest, side == "decoder", rate), (query, key, value), gradient)

    return milliseconds(both, device)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", required=True)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--presets", nargs="+", choices=SHAPES, default=list(SHAPES))
    arguments = parser.parse_args()
    peer_pytorch.require_device(arguments.device)
    name, attend, has_dropout = peer_packed.find_attention(arguments.device)
    with open(arguments.pairs, encoding="utf-8") as file:
        pairs = [tuple(map(int, line.split())) for line in file]
    for rate in (0.0, 0.1) if has_dropout else (0.0,):
        for preset in arguments.presets:
            for side in SIDES:
                ms = measure(attend, pairs, SHAPES[preset], side, rate, arguments.device)
                print(json.dumps({"preset": preset, "side": side, "dropout": rate, "attention": name, "version": torch.__version__, "ms": ms}), flush=True)


if __name__ == "__main__":
    main()
