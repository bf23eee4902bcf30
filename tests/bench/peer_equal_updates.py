#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The peer for training with equal updates: a PyTorch loop that goes on from weights of ours, with the batches of `ventris train`
(data/permutation.h, data/batches.h, one micro-batch a step), its loss, schedule and Adam. Writes safetensors files that `ventris translate`
reads, one for each of --save-at, and prints one JSON object: the loss of each step, that of label smoothing, as the mean over the target
tokens.

    python peer_equal_updates.py --corpus corpus.h5 --weights initial.safetensors --output folder --save-at 200 400
"""
import argparse
import json
import os

import numpy as np
import safetensors
import safetensors.numpy
import torch
from torch import nn

import peer_pytorch

MASK = 2**64 - 1


def mix(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ x >> 27) * 0x94D049BB133111EB) & MASK
    return x ^ x >> 31


class Permutation:
    """data/permutation.h"""

    def __init__(self, size, seed, epoch):
        self.size, self.half_bits = size, 1
        while 4**self.half_bits < size:
            self.half_bits += 1
        state = mix(mix(seed) ^ (epoch * 0xD1342543DE82EF95 & MASK))
        self.keys = []
        for _ in range(4):
            state = mix(state)
            self.keys.append(state)

    def __call__(self, index):
        mask, value = (1 << self.half_bits) - 1, index
        while True:
            left, right = value >> self.half_bits, value & mask
            for turn in range(8):
                left, right = right, left ^ (mix(right ^ self.keys[turn % 4] ^ turn << 56) & mask)
            value = left << self.half_bits | right
            if value < self.size:
                return value


def batches(source, target, tokens, seed):
    """The pairs of every step: those of data::BatchSource with one shard."""
    epoch = index = 0
    order = Permutation(len(source), seed, epoch)
    while True:
        pairs, rows = [], [0, 0]
        while True:
            pair = order(index)
            more = [rows[0] + len(source[pair]) + 1, rows[1] + len(target[pair]) + 1]
            if max(more) > tokens:
                break
            pairs, rows, index = [*pairs, pair], more, index + 1
            if index == len(source):
                epoch, index = epoch + 1, 0
                order = Permutation(len(source), seed, epoch)
        yield pairs


def groups_of(pairs, source, target, tokens):
    """The pairs of a step by length, as several padded batches, whose gradients are summed: less is computed for padding."""
    group = []
    for pair in sorted(pairs, key=lambda i: max(len(source[i]), len(target[i]))):
        longer = max(len(source[pair]), len(target[pair])) + 1
        if group and longer * (len(group) + 1) > tokens:
            yield group
            group = []
        group.append(pair)
    yield group


def padded(rows):
    out = np.full((len(rows), max(map(len, rows))), peer_pytorch.PAD, dtype=np.int64)
    for k, row in enumerate(rows):
        out[k, : len(row)] = row
    return torch.from_numpy(out)


def places(model):
    """The names of our parameters, with the tensor of the model that holds each, or its rows, and whether it is transposed."""
    yield "embedding", model.embedding.weight, False

    def linear(prefix, names, module):
        rows = module.weight.shape[0] // len(names)
        for k, name in enumerate(names):
            part = slice(k * rows, (k + 1) * rows)
            yield f"{prefix}/{name}/weight", module.weight[part], True
            yield f"{prefix}/{name}/bias", module.bias[part], False

    for stack, layers in (("encoder", model.encoder), ("decoder", model.decoder)):
        for i, layer in enumerate(layers):
            prefix = f"{stack}/layers/{i}"
            own = layer.self_attention
            yield from linear(f"{prefix}/self_attention", ["query", "key", "value"], own.query_key_value)
            yield from linear(f"{prefix}/self_attention", ["output"], own.output)
            parts = ["self_attention", "feed_forward"]
            if layer.cross_attention is not None:
                cross = layer.cross_attention
                yield from linear(f"{prefix}/cross_attention", ["query"], cross.query)
                yield from linear(f"{prefix}/cross_attention", ["key", "value"], cross.key_value)
                yield from linear(f"{prefix}/cross_attention", ["output"], cross.output)
                parts.insert(1, "cross_attention")
            yield from linear(f"{prefix}/feed_forward", ["inner"], layer.feed_forward[0])
            yield from linear(f"{prefix}/feed_forward", ["outer"], layer.feed_forward[2])
            for part, norm in zip(parts, layer.norms):
                yield f"{prefix}/{part}/norm/gamma", norm.weight, False
                yield f"{prefix}/{part}/norm/beta", norm.bias, False


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--weights", required=True)
    parser.add_argument("--output", required=True, help="folder; the files are STEP.safetensors")
    parser.add_argument("--save-at", type=int, nargs="+", required=True, metavar="STEP", help="the last is the end")
    parser.add_argument("--batch-tokens", type=int, default=2048, help="rows of a batch on each side")
    parser.add_argument("--padded-tokens", type=int, default=1024, help="of the longer side, computed at once")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--warmup-steps", type=int, default=100)
    parser.add_argument("--learning-rate-scale", type=float, default=0.2)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.manual_seed(arguments.seed)
    torch.set_num_threads(arguments.threads)
    with safetensors.safe_open(arguments.weights, "np") as file:
        metadata, arrays = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}
    config = json.loads(metadata["config"])
    width = config["d_model"]
    model = peer_pytorch.Transformer(
        config["vocab_size"], config["encoder_layers"], width, config["d_ff"], config["heads"], arguments.dropout
    )
    with torch.no_grad():
        for name, to, transposed in places(model):
            values = torch.from_numpy(arrays[name].copy())
            to.copy_(values.T if transposed else values)
    source, target, _ = peer_pytorch.load(arguments.corpus)
    optimizer = torch.optim.Adam(model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9)
    loss_of = nn.CrossEntropyLoss(label_smoothing=config["label_smoothing"], ignore_index=peer_pytorch.PAD, reduction="sum")

    def save(step):
        with torch.no_grad():
            trained = {name: (values.T if transposed else values).contiguous().numpy() for name, values, transposed in places(model)}
        # Without digests, which only files of ours have.
        safetensors.numpy.save_file({name: trained.get(name, values) for name, values in arrays.items()},
                                    os.path.join(arguments.output, f"{step}.safetensors"), {key: metadata[key] for key in ("format", "config")})

    losses = []
    for step, pairs in zip(range(1, max(arguments.save_at) + 1), batches(source, target, arguments.batch_tokens, arguments.seed)):
        rate = arguments.learning_rate_scale * width**-0.5 * min(step**-0.5, step * arguments.warmup_steps**-1.5)
        for group in optimizer.param_groups:
            group["lr"] = rate
        tokens = sum(len(target[i]) + 1 for i in pairs)
        optimizer.zero_grad(set_to_none=True)
        total = 0.0
        for group in groups_of(pairs, source, target, arguments.padded_tokens):
            logits = model(padded([np.append(source[i], 2) for i in group]), padded([np.insert(target[i], 0, 1) for i in group]))
            loss = loss_of(logits.flatten(0, 1), padded([np.append(target[i], 2) for i in group]).flatten()) / tokens
            loss.backward()
            total += loss.item()
        optimizer.step()
        losses.append(total)
        if step in arguments.save_at:
            save(step)
    print(json.dumps({"version": torch.__version__, "losses": losses}))


if __name__ == "__main__":
    main()
