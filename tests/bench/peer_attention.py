#!/usr/bin/env python3
"""Attention of one layer in PyTorch: scaled_dot_product_attention, forward and backward, bf16, with each of its backends.

    python peer_attention.py --corpus corpus.npz --batch-tokens 25344 --pairs pairs.txt --device cuda

pairs.txt holds the token counts of a batch of sentence pairs in random order, including end and begin marks, as `attention_bench --pairs`
reads it; tests/gpu/corpus.py writes one. Prints one JSON object a line for each (preset, side, dropout, way, backend): "ms" for all pairs of the
file, or "failed" with the reason if the backend does not support such tensors or no time was left (then "way" and "backend" are empty). Ways:
  padded     the same sentences, padded to the longest of them
  bucketed   batches of sentences of similar length, as a trainer makes them (peer_pytorch.py), eight of the corpus, scaled by target tokens
  nested     the same sentences as a nested tensor without padding
  varlen     the same sentences with torch.nn.attention.varlen, which has no dropout
"""
import argparse
import json
import random
import time

import torch
from torch.nn import functional as F

import peer_pytorch

SHAPES = {"base": (8, 64), "big": (16, 64)}
SIDES = ("encoder", "decoder", "cross")


def milliseconds(work, device, calls):
    work()
    if device == "cpu":
        begin = time.perf_counter()
        for _ in range(calls):
            work()
        return 1000 * (time.perf_counter() - begin) / calls
    work()
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


def backends():
    """Names and contexts of the backends that this PyTorch has."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    names = ("FLASH_ATTENTION", "EFFICIENT_ATTENTION", "CUDNN_ATTENTION", "MATH")
    return [(name.lower(), lambda name=name: sdpa_kernel(getattr(SDPBackend, name))) for name in names if hasattr(SDPBackend, name)]


class Refused(Exception):
    """A way or backend does not support such tensors."""


REFUSALS = (RuntimeError, NotImplementedError, TypeError, ValueError, AttributeError, ImportError, AssertionError)


def first_words(error):
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__


class Measurement:
    def __init__(self, arguments):
        self.device, self.calls = arguments.device, 2 if arguments.device == "cpu" else 10

    def tensor(self, *shape):
        return torch.randn(*shape, device=self.device, dtype=torch.bfloat16).requires_grad_()

    def attempt(self, work):
        """The time of both passes of work(), which returns the output to differentiate. Raises Refused."""
        def both():
            out, inputs, gradient = work()
            torch.autograd.grad(out, inputs, gradient)

        try:
            return milliseconds(both, self.device, self.calls)
        except REFUSALS as error:
            raise Refused(first_words(error)) from error

    def fastest(self, works):
        times, refused = [], None
        for work in works:
            try:
                times.append(self.attempt(work))
            except Refused as error:
                refused = error
        if not times:
            raise refused
        return min(times)

    def padded(self, pairs, shape, side, rate):
        """Tensors of one batch of pairs for the ways that pad, with masks of padding keys."""
        heads, d_head = shape
        queries = [pair[0 if side == "encoder" else 1] for pair in pairs]
        keys = [pair[1 if side == "decoder" else 0] for pair in pairs]
        query = self.tensor(len(pairs), heads, max(queries), d_head)
        key_, value = (self.tensor(len(pairs), heads, max(keys), d_head) for _ in range(2))
        gradient = torch.ones_like(query)
        lengths = torch.tensor(keys, device=self.device)
        mask = None
        if min(keys) < max(keys):
            mask = (torch.arange(max(keys), device=self.device) < lengths[:, None])[:, None, None, :]
            if side == "decoder":
                mask = mask & torch.ones(max(keys), max(keys), dtype=torch.bool, device=self.device).tril()
        # A causal query of a sentence sees no padding, which is after its tokens: no mask of padding is needed.
        causal = side == "decoder"

        def masked():
            return F.scaled_dot_product_attention(query, key_, value, attn_mask=mask, dropout_p=rate, is_causal=causal and mask is None), \
                (query, key_, value), gradient

        def by_causality():
            return F.scaled_dot_product_attention(query, key_, value, dropout_p=rate, is_causal=True), (query, key_, value), gradient

        return self.fastest([masked, by_causality] if causal and mask is not None else [masked])

    def nested(self, pairs, shape, side, rate):
        heads, d_head = shape

        def tensors(lengths):
            values = [torch.randn(n, heads, d_head, device=self.device, dtype=torch.bfloat16) for n in lengths]
            return torch.nested.nested_tensor(values, layout=torch.jagged, requires_grad=True)

        queries = [pair[0 if side == "encoder" else 1] for pair in pairs]
        keys = [pair[1 if side == "decoder" else 0] for pair in pairs]
        try:
            query, key_ = tensors(queries), tensors(keys)
            value = torch.nested.nested_tensor_from_jagged(torch.randn_like(key_.values()), key_.offsets()).requires_grad_()
        except REFUSALS as error:
            raise Refused(first_words(error)) from error

        def work():
            out = F.scaled_dot_product_attention(query.transpose(1, 2), key_.transpose(1, 2), value.transpose(1, 2), dropout_p=rate,
                                                 is_causal=side == "decoder")
            return out, (query, key_, value), torch.ones_like(out)

        return self.attempt(work)

    def varlen(self, pairs, shape, side):
        heads, d_head = shape
        try:
            from torch.nn.attention.varlen import varlen_attn
        except ImportError as error:
            raise Refused(first_words(error)) from error
        queries = [pair[0 if side == "encoder" else 1] for pair in pairs]
        keys = [pair[1 if side == "decoder" else 0] for pair in pairs]

        def offsets(lengths):
            return F.pad(torch.tensor(lengths, device=self.device).cumsum(0), (1, 0)).to(torch.int32)

        query, key_, value = (self.tensor(sum(lengths), heads, d_head) for lengths in (queries, keys, keys))
        of_queries, of_keys = offsets(queries), offsets(keys)
        gradient = torch.ones_like(query)

        def with_options(**options):
            out = varlen_attn(query, key_, value, of_queries, of_keys, max(queries), max(keys), **options)
            return out, (query, key_, value), gradient

        if side != "decoder":
            return self.attempt(with_options)
        # Releases of PyTorch differ in the name.
        return self.fastest([lambda: with_options(is_causal=True), lambda: with_options(window_size=(-1, 0))])


def tell(key, measure):
    """Prints the result immediately, so that it is not lost if this program is ended."""
    try:
        key["ms"] = measure()
    except Refused as error:
        key["failed"] = str(error)
    print(json.dumps(key), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--batch-tokens", type=int, default=25344, help="most tokens of a side")
    parser.add_argument("--most-pairs", type=int, default=300000, help="of the corpus")
    parser.add_argument("--pairs", required=True)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--presets", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--seconds", type=float, default=60.0, help="start no measurement after this time")
    arguments = parser.parse_args()
    begin = time.monotonic()
    peer_pytorch.require_device(arguments.device)
    source, target, _ = peer_pytorch.load(arguments.corpus, arguments.most_pairs)
    with open(arguments.pairs, encoding="utf-8") as file:
        pairs = [tuple(map(int, line.split())) for line in file]
    tokens = sum(pair[1] for pair in pairs)
    groups = peer_pytorch.bucket(source, target, arguments.batch_tokens, random.Random(1))
    random.Random(2).shuffle(groups)
    groups = [[(len(source[i]) + 1, len(target[i]) + 1) for i in group] for group in groups[:8]]
    grouped_tokens = sum(pair[1] for group in groups for pair in group)
    measurement = Measurement(arguments)
    for preset in arguments.presets:
        for rate in (0.0, 0.1):
            for side in SIDES:
                key = {"preset": preset, "side": side, "dropout": rate}
                if time.monotonic() - begin > arguments.seconds:
                    print(json.dumps({**key, "way": "", "backend": "", "failed": f"no time was left after {arguments.seconds:g} s"}), flush=True)
                    continue
                shape = SHAPES[preset]

                def of_groups():
                    return sum(measurement.padded(group, shape, side, rate) for group in groups) * tokens / grouped_tokens

                for name, backend in backends():
                    with backend():
                        tell({**key, "way": "padded", "backend": name}, lambda: measurement.padded(pairs, shape, side, rate))
                        tell({**key, "way": "bucketed", "backend": name}, of_groups)
                        tell({**key, "way": "nested", "backend": name}, lambda: measurement.nested(pairs, shape, side, rate))
                if rate == 0.0:
                    tell({**key, "way": "varlen", "backend": "varlen"}, lambda: measurement.varlen(pairs, shape, side))


if __name__ == "__main__":
    main()
