#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The peer for training speed: a plain PyTorch loop of the same Transformer.

Reads the same corpus.h5 as `ventris train`, or its ids as tests/gpu/corpus.py writes them, buckets sentence pairs by length, pads each batch
and trains with the paper's schedule on all cores, or on one GPU with --device cuda. Prints one JSON object: target tokens/s (without padding),
peak memory, loss, padding share.

    python peer_pytorch.py --corpus corpus.h5 --preset tiny --precision bf16 --compile --seconds 40
"""
import argparse
import json
import math
import os
import random
import resource
import statistics
import sys
import time

import numpy as np

# On an H100 a step of base took 102 ms with this and without cuDNN's attention, 640 ms with neither: lengths change from batch to batch.
os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
import torch
from torch import nn
from torch.nn import functional as F

PRESETS = {  # layers, d_model, d_ff, heads, dropout, warm-up
    "tiny": (4, 128, 256, 4, 0.3, 2000),
    "small": (6, 512, 1024, 4, 0.3, 4000),
    "base": (6, 512, 2048, 8, 0.1, 4000),
    "big": (6, 1024, 4096, 16, 0.3, 4000),
}
PAD = -1
STEADY_STEPS = 10


def attention(query, key, value, mask, causal, dropout):
    """Scaled dot-product attention; mask is True where a key may be seen. [batch, heads, length, d_head]"""
    if causal and mask is not None:
        length = query.shape[2]
        mask = mask & torch.ones(length, length, dtype=torch.bool, device=query.device).tril()
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=dropout)


class Attention(nn.Module):
    def __init__(self, d_model, heads, dropout):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.query = nn.Linear(d_model, d_model)
        self.key_value = nn.Linear(d_model, 2 * d_model)
        self.output = nn.Linear(d_model, d_model)

    def forward(self, x, memory, mask, causal):
        batch, length, d_model = x.shape

        def split(t):
            return t.view(batch, -1, self.heads, d_model // self.heads).transpose(1, 2)

        key, value = self.key_value(memory).chunk(2, dim=-1)
        out = attention(split(self.query(x)), split(key), split(value), mask, causal, self.dropout)
        return self.output(out.transpose(1, 2).reshape(batch, length, d_model))


class SelfAttention(nn.Module):
    def __init__(self, d_model, heads, dropout):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.query_key_value = nn.Linear(d_model, 3 * d_model)
        self.output = nn.Linear(d_model, d_model)

    def forward(self, x, mask, causal):
        batch, length, d_model = x.shape
        query, key, value = (
            t.view(batch, length, self.heads, d_model // self.heads).transpose(1, 2)
            for t in self.query_key_value(x).chunk(3, dim=-1))
        out = attention(query, key, value, mask, causal, self.dropout)
        return self.output(out.transpose(1, 2).reshape(batch, length, d_model))


class FeedForward(nn.Sequential):
    def __init__(self, d_model, d_ff):
        super().__init__(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))


class Layer(nn.Module):
    def __init__(self, d_model, d_ff, heads, dropout, cross):
        super().__init__()
        self.self_attention = SelfAttention(d_model, heads, dropout)
        self.cross_attention = Attention(d_model, heads, dropout) if cross else None
        self.feed_forward = FeedForward(d_model, d_ff)
        self.norms = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(3 if cross else 2))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, mask, memory=None, memory_mask=None):
        x = self.norms[0](x + self.dropout(self.self_attention(x, mask, self.cross_attention is not None)))
        if self.cross_attention is not None:
            x = self.norms[1](x + self.dropout(self.cross_attention(x, memory, memory_mask, False)))
        return self.norms[-1](x + self.dropout(self.feed_forward(x)))


class Transformer(nn.Module):
    layer_type = Layer

    def __init__(self, vocab, layers, d_model, d_ff, heads, dropout, max_positions=512):
        super().__init__()
        self.d_model = d_model
        self.embedding = nn.Embedding(vocab, d_model)
        nn.init.normal_(self.embedding.weight, std=d_model**-0.5)
        position = torch.arange(max_positions)[:, None]
        angle = position / 10000 ** (torch.arange(0, d_model, 2) / d_model)
        table = torch.zeros(max_positions, d_model)
        table[:, 0::2], table[:, 1::2] = angle.sin(), angle.cos()
        self.register_buffer("positions", table)
        self.encoder = nn.ModuleList(self.layer_type(d_model, d_ff, heads, dropout, False) for _ in range(layers))
        self.decoder = nn.ModuleList(self.layer_type(d_model, d_ff, heads, dropout, True) for _ in range(layers))
        self.dropout = nn.Dropout(dropout)

    def embed(self, ids):
        return self.dropout(self.embedding(ids.clamp(min=0)) * math.sqrt(self.d_model) + self.positions[: ids.shape[1]])

    def forward(self, source, target):
        source_mask = (source != PAD)[:, None, None, :]
        target_mask = (target != PAD)[:, None, None, :]
        memory = self.embed(source)
        for layer in self.encoder:
            memory = layer(memory, source_mask)
        x = self.embed(target)
        for layer in self.decoder:
            x = layer(x, target_mask, memory, source_mask)
        return F.linear(x, self.embedding.weight)


def load(path, most=None):
    """Sentence pairs as (source ids, target ids), without marks, as `ventris train` sees them, the first `most`; and the size of the
    vocabulary. Reads corpus.h5, or the .npz of tests/gpu/corpus.py without h5py."""
    if path.endswith(".npz"):
        with np.load(path) as file:
            arrays = {name: file[name] for name in file.files}
    else:
        import corpus_arrays

        arrays = corpus_arrays.read(path)
    sides = []
    for side in ("source", "target"):
        offsets = arrays[f"{side}_offsets"][: None if most is None else most + 1]
        sides.append([arrays[f"{side}_tokens"][a:b] for a, b in zip(offsets[:-1], offsets[1:])])
    return sides[0], sides[1], 1 + max(int(arrays[f"{side}_tokens"].max()) for side in ("source", "target"))


def bucket(source, target, tokens, rng):
    """Indices of sentence pairs of similar length, in groups of at most `tokens` target tokens."""
    order = sorted(range(len(source)), key=lambda i: (len(target[i]), len(source[i]), rng.random()))
    groups, group, count = [], [], 0
    for i in order:
        if group and count + len(target[i]) + 1 > tokens:
            groups.append(group)
            group, count = [], 0
        group.append(i)
        count += len(target[i]) + 1
    if group:
        groups.append(group)
    return groups


def batches(source, target, tokens, rng, device):
    """Length-bucketed batches of at most `tokens` target tokens, in random order, padded with PAD."""
    groups = bucket(source, target, tokens, rng)
    rng.shuffle(groups)
    for group in groups:
        def pad(rows):
            out = np.full((len(rows), max(map(len, rows))), PAD, dtype=np.int64)
            for k, row in enumerate(rows):
                out[k, : len(row)] = row
            tensor = torch.from_numpy(out)
            return tensor if device == "cpu" else tensor.pin_memory().to(device, non_blocking=True)
        yield (pad([np.append(source[i], 2) for i in group]), pad([np.insert(target[i], 0, 1) for i in group]),
               pad([np.append(target[i], 2) for i in group]))


def require_device(device):
    """Ends the program with 77 if it is to compute on CUDA and cannot."""
    if device == "cuda" and not torch.cuda.is_available():
        print("no CUDA device can be used: torch.cuda.is_available() is false", file=sys.stderr)
        sys.exit(77)


def peak_memory_mib(device):
    if device == "cuda":
        return torch.cuda.max_memory_allocated() >> 20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def optimizer_of(model, d_model, warmup):
    """Adam, fused where PyTorch has it, and the paper's schedule."""
    options = {"lr": 1.0, "betas": (0.9, 0.98), "eps": 1e-9}
    try:
        optimizer = torch.optim.Adam(model.parameters(), fused=True, **options)
    except (RuntimeError, TypeError):
        optimizer = torch.optim.Adam(model.parameters(), **options)
    return optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: d_model**-0.5 * min((s + 1) ** -0.5, (s + 1) * warmup**-1.5))


def steady(seconds):
    """Whether no compilation occurred in the last steps."""
    return len(seconds) == STEADY_STEPS and max(seconds) < 3 * statistics.median(seconds)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--preset", choices=PRESETS, default="tiny")
    parser.add_argument("--layers", type=int, help="of each side; default: those of the preset")
    parser.add_argument("--precision", choices=("f32", "bf16"), default="f32")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--batch-tokens", type=int, default=4096, help="target tokens of an update, without padding")
    parser.add_argument("--seconds", type=float, default=40.0)
    parser.add_argument("--warmup-seconds", type=float, default=15.0)
    parser.add_argument("--compile-seconds", type=float, default=600.0, help="maximum of additional warm-up, until compiling ends")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--most-pairs", type=int, help="load only this many pairs, if loading all takes too long")
    arguments = parser.parse_args()

    require_device(arguments.device)
    device = arguments.device
    if device == "cuda":
        torch.backends.cuda.enable_cudnn_sdp(False)
    torch.manual_seed(1)
    torch.set_num_threads(arguments.threads)
    rng = random.Random(1)
    source, target, vocab = load(arguments.corpus, arguments.most_pairs)
    layers, d_model, d_ff, heads, dropout, warmup = PRESETS[arguments.preset]
    model = Transformer(vocab, arguments.layers or layers, d_model, d_ff, heads, dropout).to(device)
    optimizer, schedule = optimizer_of(model, d_model, warmup)
    loss_of = nn.CrossEntropyLoss(label_smoothing=0.1, ignore_index=PAD)

    def loss_of_logits(logits, labels):
        return loss_of(logits.view(-1, logits.shape[-1]).float(), labels.view(-1))

    forward = torch.compile(model, dynamic=True) if arguments.compile else model

    begin = previous = time.time()
    recent = []  # seconds of the last steps
    held = []  # labels of the steps since the loss was last read
    measured_from, tokens, padded, steps, value = None, 0, 0, 0, 0.0
    while True:
        for src, tgt, labels in batches(source, target, arguments.batch_tokens, rng, device):
            with torch.autocast(device, torch.bfloat16, enabled=arguments.precision == "bf16"):
                logits = forward(src, tgt)
            loss = loss_of_logits(logits, labels)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            schedule.step()
            held.append(labels)
            if len(held) < (1 if device == "cpu" else 10):
                continue
            value = loss.item()  # waits for the device
            counts = [(int((rows != PAD).sum()), rows.numel()) for rows in held]
            held = []
            now = time.time()
            recent = recent[-(STEADY_STEPS - 1):] + [now - previous]
            previous = now
            if measured_from is None:
                if now - begin > arguments.warmup_seconds and (not arguments.compile or steady(recent)):
                    measured_from = now
                elif now - begin > arguments.warmup_seconds + arguments.compile_seconds:
                    sys.exit(f"still compiling after {now - begin:.0f} s")
                continue
            steps += len(counts)
            tokens += sum(real for real, _ in counts)
            padded += sum(all_of_them for _, all_of_them in counts)
            if now - measured_from > arguments.seconds:
                print(json.dumps({
                    "peer": "pytorch", "version": torch.__version__, "preset": arguments.preset,
                    "precision": arguments.precision, "compile": arguments.compile,
                    "warmup_seconds": round(measured_from - begin), "threads": arguments.threads,
                    "target_tokens_per_second": round(tokens / (now - measured_from), 1), "steps": steps,
                    "tokens_per_update": round(tokens / steps), "padding": round(1 - tokens / padded, 4),
                    "loss": round(value, 4),
                    "peak_memory_mib": peak_memory_mib(device)}))
                return


if __name__ == "__main__":
    main()
