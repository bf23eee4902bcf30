#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The strongest peer for training speed that is written in PyTorch alone: the Transformer of peer_pytorch.py without padding.

Sentence pairs lie one after the other in a fixed number of rows a side, as in ventris. Attention is the variable-length form of
FlashAttention in all its three places, activations are bf16 beside parameters in f32, Adam is fused, and no shape changes, so that
torch.compile compiles a layer of each side, the embedding and the loss once. Batches wait on the device.

    python peer_packed.py --corpus corpus.npz --preset base --batch-tokens 25344 --device cuda --seconds 5

Prints a JSON object a line: for the model as it is, then compiled, unless that took longer than --compile-seconds ("failed"). Before, it
compares loss and gradients of a small model with those of peer_pytorch.py on the same sentences, and ends with 1 if they differ; --check
does this alone. On the CPU, which lacks such kernels, attention is computed with a mask.
"""
import argparse
import json
import math
import os
import random
import signal
import sys
import time

import numpy as np

import peer_pytorch
import torch
from torch.nn import functional as F

PAD = peer_pytorch.PAD
SPARE_ROWS = 16  # of a side that hold no sentence, at least
ROWS_OF_FILLING = 128  # of what fills a side up, at most
PREPARED = 64  # batches
STEPS_AT_ONCE = 10  # between two looks at the clock
TOLERANCES = {"cpu": (1e-5, 1e-4), "cuda": (1e-2, 5e-2)}  # of the loss and the gradients, relative: f32, bf16


def masked_attention(query, key, value, of_queries, of_keys, longest, causal, rate):
    rows, columns = (torch.arange(tensor.shape[0], device=tensor.device) for tensor in (query, key))
    seen = torch.bucketize(rows, of_queries[1:], right=True)[:, None] == torch.bucketize(columns, of_keys[1:], right=True)
    if causal:
        seen = seen & (rows[:, None] >= columns)
    heads = (tensor.transpose(0, 1)[None] for tensor in (query, key, value))
    return F.scaled_dot_product_attention(*heads, attn_mask=seen, dropout_p=rate)[0].transpose(0, 1)


def of_pytorch():
    import inspect

    from torch.nn.attention.varlen import varlen_attn

    # Releases of PyTorch differ in how they are told of causality.
    causally = {"is_causal": True} if "is_causal" in inspect.signature(varlen_attn).parameters else {"window_size": (-1, 0)}

    def attend(query, key, value, of_queries, of_keys, longest, causal, rate):
        return varlen_attn(query, key, value, of_queries, of_keys, longest, longest, **(causally if causal else {}))

    return "torch.nn.attention.varlen", attend, False


def of_aten():
    def attend(query, key, value, of_queries, of_keys, longest, causal, rate):
        return torch.ops.aten._flash_attention_forward(query, key, value, of_queries, of_keys, longest, longest, rate, causal, False)[0]

    return "aten::_flash_attention_forward", attend, True


def find_attention(device):
    """The name of the variable-length attention that works on the device, the function, and whether it has dropout. Ends the program if
    there is none."""
    if device == "cpu":
        return "a mask", masked_attention, True
    refused = []
    for find in (of_pytorch, of_aten):
        try:
            name, attend, has_dropout = find()
            tensors = [torch.randn(96, 2, 64, device=device, dtype=torch.bfloat16, requires_grad=True) for _ in range(3)]
            offsets = torch.tensor([0, 40, 96, 96], device=device, dtype=torch.int32)
            attend(*tensors, offsets, offsets, 64, True, 0.0).sum().backward()
            return name, attend, has_dropout
        except Exception as error:  # whatever it is, the next one is tried
            refused.append(f"{find.__name__}: {type(error).__name__}: {(str(error).strip().splitlines() or [''])[0][:160]}")
    sys.exit(f"PyTorch {torch.__version__} has no variable-length attention that works: {'; '.join(refused)}")


def linear(module, x):
    return F.linear(x, module.weight.to(x.dtype), module.bias.to(x.dtype))


def norm(module, x):
    return F.layer_norm(x.float(), module.normalized_shape, module.weight, module.bias, module.eps).to(x.dtype)


class Layer(peer_pytorch.Layer):
    """The same parameters; x is [rows, d_model]."""

    attention = None  # of find_attention(), with the rate of dropout

    def attend(self, module, query, key, value, of_queries, of_keys, longest, causal):
        split = (tensor.view(tensor.shape[0], module.heads, -1) for tensor in (query, key, value))
        attend, rate = type(self).attention
        out = attend(*split, of_queries, of_keys, longest, causal, rate if self.training else 0.0)
        return linear(module.output, out.reshape(query.shape))

    def forward(self, x, offsets, longest, memory=None, of_memory=None):
        query, key, value = linear(self.self_attention.query_key_value, x).chunk(3, dim=-1)
        causal = self.cross_attention is not None
        x = norm(self.norms[0], x + self.dropout(self.attend(self.self_attention, query, key, value, offsets, offsets, longest, causal)))
        if self.cross_attention is not None:
            key, value = linear(self.cross_attention.key_value, memory).chunk(2, dim=-1)
            query = linear(self.cross_attention.query, x)
            out = self.attend(self.cross_attention, query, key, value, offsets, of_memory, longest, False)
            x = norm(self.norms[1], x + self.dropout(out))
        hidden = linear(self.feed_forward[0], x).relu()
        return norm(self.norms[-1], x + self.dropout(linear(self.feed_forward[2], hidden)))


def loss_of(x, weight, labels):
    return F.cross_entropy(F.linear(x, weight.to(x.dtype)).float(), labels, ignore_index=PAD, label_smoothing=0.1)


class Transformer(peer_pytorch.Transformer):
    layer_type = Layer

    def prepare(self, dtype, longest):
        self.dtype, self.longest = dtype, longest
        self.run_layer, self.run_embed, self.run_loss = Layer.forward, Transformer.embed_rows, loss_of
        return self

    def compile(self):
        """One function for all layers of a side, whose parameters are arguments to it."""
        self.run_layer, self.run_embed, self.run_loss = (
            torch.compile(function, dynamic=False) for function in (Layer.forward, Transformer.embed_rows, loss_of))

    def embed_rows(self, ids, places):
        return self.dropout(F.embedding(ids, self.embedding.weight) * math.sqrt(self.d_model) + self.positions[places]).to(self.dtype)

    def forward(self, batch):
        memory = self.run_embed(self, batch["source"], batch["source_places"])
        for layer in self.encoder:
            memory = self.run_layer(layer, memory, batch["source_offsets"], self.longest)
        x = self.run_embed(self, batch["target"], batch["target_places"])
        for layer in self.decoder:
            x = self.run_layer(layer, x, batch["target_offsets"], self.longest, memory, batch["source_offsets"])
        return self.run_loss(x, self.embedding.weight, batch["labels"])


def pack(pairs, rows, sequences, device):
    """A batch of (source ids, target ids), without marks. What remains of a side is divided among sequences of one padding token each side,
    whose labels are ignored: rows outside of all sequences would not be computed."""
    sides = {"source": [np.append(source, 2) for source, _ in pairs], "target": [np.insert(target, 0, 1) for _, target in pairs]}
    labels = np.full(rows, PAD, dtype=np.int64)
    used = {side: sum(map(len, parts)) for side, parts in sides.items()}
    labels[: used["target"]] = np.concatenate([np.append(target, 2) for _, target in pairs])
    filled = -(-(rows - min(used.values())) // ROWS_OF_FILLING)
    batch = {"labels": labels}
    for side, parts in sides.items():
        lengths = [len(part) for part in parts] + [len(piece) for piece in np.array_split(np.arange(rows - used[side]), filled)]
        if min(lengths) == 0 or len(lengths) > sequences:
            raise ValueError(f"{len(pairs)} pairs do not fit into {rows} rows and {sequences} sequences")
        offsets = np.full(sequences + 1, rows, dtype=np.int32)
        offsets[0] = 0
        offsets[1 : len(lengths) + 1] = np.cumsum(lengths)
        batch[side] = np.concatenate([*parts, np.zeros(rows - used[side], dtype=np.int64)]).astype(np.int64)
        batch[f"{side}_places"] = np.arange(rows) - np.repeat(offsets[: len(lengths)], lengths)
        batch[f"{side}_offsets"] = offsets
    return {name: torch.from_numpy(array).to(device) for name, array in batch.items()}


def batches(source, target, rows, count, device):
    """Batches of pairs in random order, until neither side would fit, and the target tokens of each."""
    order = list(range(len(source)))
    random.Random(1).shuffle(order)
    mean = sum(max(len(source[i]), len(target[i])) + 1 for i in order) / len(order)
    sequences = math.ceil(1.25 * rows / mean) + 2 * SPARE_ROWS
    made, group, used = [], [], np.zeros(2, dtype=np.int64)
    while len(made) < count:
        for i in order:
            size = np.array([len(source[i]) + 1, len(target[i]) + 1])
            if (used + size > rows - SPARE_ROWS).any() or len(group) + SPARE_ROWS == sequences:
                made.append((pack(group, rows, sequences, device), int(used[1])))
                group, used = [], np.zeros(2, dtype=np.int64)
                if len(made) == count:
                    break
            group.append((source[i], target[i]))
            used += size
    return made


def use_attention(way, dropout):
    """Returns the rate of its dropout."""
    name, attend, has_dropout = way
    rate = dropout if has_dropout else 0.0
    Layer.attention = (attend, rate)
    return rate


def differences(device, way):
    """Relative differences of the loss and of the gradients between the padded model in f32 and the packed one."""
    dtype = torch.float32 if device == "cpu" else torch.bfloat16
    generator = np.random.default_rng(1)
    pairs = [[generator.integers(3, 500, length) for length in generator.integers(1, 40, 2)] for _ in range(20)]
    shape = {"vocab": 512, "layers": 2, "d_model": 128, "d_ff": 256, "heads": 2, "dropout": 0.0}
    torch.manual_seed(1)
    padded, packed = peer_pytorch.Transformer(**shape).to(device), Transformer(**shape).to(device).prepare(dtype, 128)
    packed.load_state_dict(padded.state_dict())
    use_attention(way, 0.0)

    def pad(rows):
        return torch.nn.utils.rnn.pad_sequence([torch.from_numpy(row) for row in rows], batch_first=True, padding_value=PAD).to(device)

    source, target = pad([np.append(pair[0], 2) for pair in pairs]), pad([np.insert(pair[1], 0, 1) for pair in pairs])
    labels = pad([np.append(pair[1], 2) for pair in pairs])
    logits = padded(source, target)
    loss = F.cross_entropy(logits.view(-1, logits.shape[-1]), labels.view(-1), ignore_index=PAD, label_smoothing=0.1)
    loss.backward()
    other = packed(pack(pairs, 1024, 64, device))
    other.backward()
    squares = [((a.grad - b.grad).square().sum(), a.grad.square().sum()) for a, b in zip(padded.parameters(), packed.parameters())]
    gradient = math.sqrt(sum(float(of) for of, _ in squares) / sum(float(of) for _, of in squares))
    found = (abs(float(loss) - float(other)) / float(loss), gradient)
    if any(not got <= most for got, most in zip(found, TOLERANCES[device])):
        sys.exit(f"the packed model is not the padded one: loss {float(other):.6f} and {float(loss):.6f}, gradients {gradient:.2e} apart")
    return found


def measure(model, optimizer, schedule, prepared, arguments):
    """Rates of steps after the warm-up."""
    wait = torch.cuda.synchronize if arguments.device == "cuda" else lambda: None
    at_once = STEPS_AT_ONCE if arguments.device == "cuda" else 1
    begin, first, steps, tokens, value = time.monotonic(), None, 0, 0, 0.0
    place = 0
    while first is None or time.monotonic() - first < arguments.seconds:
        for _ in range(at_once):
            batch, size = prepared[place % len(prepared)]
            place += 1
            loss = model(batch)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            schedule.step()
            if first is not None:
                steps, tokens = steps + 1, tokens + size
        value = loss.item()
        if first is None and time.monotonic() - begin > arguments.warmup_seconds:
            wait()
            first = time.monotonic()
    elapsed = time.monotonic() - first
    return {"ms": round(1000 * elapsed / steps, 3), "target_tokens_per_second": round(tokens / elapsed, 1), "tokens_per_update": round(tokens / steps),
            "steps": steps, "loss": round(value, 4), "peak_memory_mib": peer_pytorch.peak_memory_mib(arguments.device)}


class Late(BaseException):
    """Compiling took too long. No Exception, which the compiler would turn into one of its own."""


def compile_within(model, batch, seconds):
    def end(*_):
        raise Late(f"still compiling after {seconds:g} s")

    signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        model.compile()
        model(batch).backward()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus")
    parser.add_argument("--check", action="store_true", help="only compare with the padded model")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--preset", choices=peer_pytorch.PRESETS, default="base")
    parser.add_argument("--layers", type=int, help="of each side; default: those of the preset")
    parser.add_argument("--batch-tokens", type=int, default=25344, help="rows of a side")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--warmup-seconds", type=float, default=1.0)
    parser.add_argument("--compile-seconds", type=float, default=60.0, help="0: not compiled")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--most-pairs", type=int, default=20000, help="of the corpus")
    arguments = parser.parse_args()
    device = arguments.device
    peer_pytorch.require_device(device)
    torch.set_num_threads(arguments.threads)
    way = find_attention(device)
    loss, gradient = differences(device, way)
    said = {"peer": "pytorch packed", "version": torch.__version__, "attention": way[0], "loss_differs": loss, "gradients_differ": gradient}
    if arguments.check:
        print(json.dumps(said))
        return
    source, target, vocab = peer_pytorch.load(arguments.corpus, arguments.most_pairs)
    layers, d_model, d_ff, heads, dropout, warmup = peer_pytorch.PRESETS[arguments.preset]
    prepared = batches(source, target, arguments.batch_tokens, PREPARED if device == "cuda" else 2, device)
    longest = max(ROWS_OF_FILLING, -(-(1 + max(max(map(len, source)), max(map(len, target)))) // 64) * 64)
    # A multiple of 128, for aligned products.
    model = Transformer(-(-vocab // 128) * 128, arguments.layers or layers, d_model, d_ff, heads, dropout).to(device)
    model.prepare(torch.bfloat16, longest)
    said.update(preset=arguments.preset, dropout=dropout, attention_dropout=use_attention(way, dropout))
    optimizer, schedule = peer_pytorch.optimizer_of(model, d_model, warmup)
    print(json.dumps({**said, "compile": False, **measure(model, optimizer, schedule, prepared, arguments)}), flush=True)
    if arguments.compile_seconds == 0:
        return
    begin = time.monotonic()
    try:
        compile_within(model, prepared[0][0], arguments.compile_seconds)
    except Late as late:
        print(json.dumps({**said, "compile": True, "failed": str(late)}), flush=True)
        os._exit(0)  # the compiler has processes of its own
    took = time.monotonic() - begin
    print(json.dumps({**said, "compile": True, "compile_seconds": round(took), **measure(model, optimizer, schedule, prepared, arguments)}), flush=True)


if __name__ == "__main__":
    main()
