#!/usr/bin/env python3
"""Writes transformer_post_norm.golden and transformer_pre_norm.golden beside itself (needs PyTorch and NumPy).

An independent statement of the model, sentence by sentence, in float64 with autograd: parameters, a batch,
logits, the label-smoothed loss, every gradient, and the losses and parameters of ten Adam steps with the
schedule of the paper.

A golden file is a sequence of entries: u32 length of the name, name, u32 rows, u32 columns, u8 type (0: f32,
1: i32), then the elements by rows, all little-endian.
"""
import math
import pathlib
import struct

import numpy
import torch
import torch.nn.functional as F

MODELS = {
    "post_norm": dict(encoder_layers=2, decoder_layers=2, pre_norm=0, learned_positions=0),
    "pre_norm": dict(encoder_layers=1, decoder_layers=2, pre_norm=1, learned_positions=1),
}
D, FF, HEADS, VOCAB, POSITIONS, SMOOTHING = 16, 24, 2, 37, 12, 0.1
WARMUP, SCALE, STEPS = 4, 0.05, 10
BEGIN, END = 1, 2


def shapes(c):
    """Logical parameters: name -> shape, vectors with one dimension."""
    linear = lambda name, i, o: {f"{name}/weight": (i, o), f"{name}/bias": (o,)}
    norm = lambda name: {f"{name}/gamma": (D,), f"{name}/beta": (D,)}
    p = {"embedding": (VOCAB, D)}
    if c["learned_positions"]:
        p |= {"source_positions": (POSITIONS, D), "target_positions": (POSITIONS, D)}
    for stack in ("encoder", "decoder"):
        for i in range(c[f"{stack}_layers"]):
            layer = f"{stack}/layers/{i}"
            for attention in ("self_attention", "cross_attention")[: 1 if stack == "encoder" else 2]:
                for part in ("query", "key", "value", "output"):
                    p |= linear(f"{layer}/{attention}/{part}", D, D)
                p |= norm(f"{layer}/{attention}/norm")
            p |= linear(f"{layer}/feed_forward/inner", D, FF) | linear(f"{layer}/feed_forward/outer", FF, D)
            p |= norm(f"{layer}/feed_forward/norm")
        if c["pre_norm"]:
            p |= norm(f"{stack}/norm")
    return p


def initial(c, generator):
    """Random values that are exact in float32; no vector is trivial."""
    p = {}
    for name, shape in shapes(c).items():
        value = torch.randn(shape, generator=generator, dtype=torch.float64) * (0.1 if len(shape) == 1 else 0.25)
        if name.endswith("gamma"):
            value += 1.0
        p[name] = value.float().double().requires_grad_()
    return p


def sinusoids():
    table = torch.zeros(POSITIONS, D, dtype=torch.float64)
    for position in range(POSITIONS):
        for i in range(D // 2):
            angle = position / 10000 ** (2 * i / D)
            table[position, 2 * i], table[position, 2 * i + 1] = math.sin(angle), math.cos(angle)
    return table


def linear(p, name, x):
    return x @ p[f"{name}/weight"] + p[f"{name}/bias"]


def norm(p, name, x):
    return F.layer_norm(x, (D,), p[f"{name}/gamma"], p[f"{name}/beta"], 1e-5)


def attention(p, name, x, memory, causal):
    split = lambda y: y.view(-1, HEADS, D // HEADS).transpose(0, 1)
    q, k, v = (split(linear(p, f"{name}/{part}", y)) for part, y in (("query", x), ("key", memory), ("value", memory)))
    scores = q @ k.transpose(1, 2) / math.sqrt(D // HEADS)
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[1:], dtype=torch.bool).triu(1), -math.inf)
    return linear(p, f"{name}/output", (scores.softmax(-1) @ v).transpose(0, 1).reshape(-1, D))


def stack(p, c, side, layers, ids, memory):
    table = p[f"{side}_positions"] if c["learned_positions"] else sinusoids()
    x = p["embedding"][ids] * math.sqrt(D) + table[: len(ids)]
    decoder = memory is not None
    prefix = "decoder" if decoder else "encoder"

    def sublayer(x, name, function):
        if c["pre_norm"]:
            return x + function(norm(p, f"{name}/norm", x))
        return norm(p, f"{name}/norm", x + function(x))

    for i in range(layers):
        name = f"{prefix}/layers/{i}"
        here = f"{name}/self_attention"
        x = sublayer(x, here, lambda y: attention(p, here, y, y, decoder))
        if decoder:
            cross = f"{name}/cross_attention"
            x = sublayer(x, cross, lambda y: attention(p, cross, y, memory, False))
        ff = f"{name}/feed_forward"
        x = sublayer(x, ff, lambda y: linear(p, f"{ff}/outer", F.relu(linear(p, f"{ff}/inner", y))))
    return norm(p, f"{prefix}/norm", x) if c["pre_norm"] else x


def forward(p, c, sentences):
    """Logits of all target rows, [tokens, VOCAB], and the summed loss."""
    logits = []
    for source, target in sentences:
        memory = stack(p, c, "source", c["encoder_layers"], torch.tensor(source + [END]), None)
        hidden = stack(p, c, "target", c["decoder_layers"], torch.tensor([BEGIN] + target), memory)
        logits.append(hidden @ p["embedding"].T)
    logits = torch.cat(logits)
    labels = torch.tensor([word for _, target in sentences for word in target + [END]])
    return logits, F.cross_entropy(logits, labels, label_smoothing=SMOOTHING, reduction="sum")


class Writer:
    def __init__(self, path):
        self.file = open(path, "wb")

    def put(self, name, array):
        array = numpy.atleast_2d(numpy.asarray(array))
        kind = 1 if array.dtype.kind == "i" else 0
        self.file.write(struct.pack("<I", len(name)) + name.encode())
        self.file.write(struct.pack("<IIB", *array.shape, kind) + array.astype("<i4" if kind else "<f4").tobytes())


def make(name, c, folder):
    generator = torch.Generator().manual_seed(20170612)
    p = initial(c, generator)
    lengths = [(3, 5), (1, 1), (9, 7), (4, 10), (6, 2)]
    word = lambda n: torch.randint(3, VOCAB, (n,), generator=generator).tolist()
    sentences = [(word(source), word(target)) for source, target in lengths]
    tokens = sum(len(target) + 1 for _, target in sentences)

    out = Writer(folder / f"transformer_{name}.golden")
    out.put("config", [c["encoder_layers"], c["decoder_layers"], D, FF, HEADS, VOCAB, c["pre_norm"],
                       c["learned_positions"], POSITIONS])
    out.put("lengths", lengths)
    out.put("sources", [w for source, _ in sentences for w in source])
    out.put("targets", [w for _, target in sentences for w in target])
    out.put("schedule", numpy.array([SCALE, WARMUP, STEPS], dtype=numpy.float32))
    for key, value in p.items():
        out.put(f"value/{key}", value.detach().numpy())

    adam = torch.optim.Adam(p.values(), lr=1.0, betas=(0.9, 0.98), eps=1e-9)
    losses = []
    for step in range(1, STEPS + 1):
        adam.zero_grad()
        logits, loss = forward(p, c, sentences)
        (loss / tokens).backward()
        if step == 1:
            out.put("logits", logits.detach().numpy())
            for key, value in p.items():
                out.put(f"gradient/{key}", value.grad.numpy())
        losses.append(loss.item())
        adam.param_groups[0]["lr"] = SCALE * D**-0.5 * min(step**-0.5, step * WARMUP**-1.5)
        adam.step()
    out.put("losses", numpy.array(losses))
    for key, value in p.items():
        out.put(f"final/{key}", value.detach().numpy())


if __name__ == "__main__":
    for model_name, model_config in MODELS.items():
        make(model_name, model_config, pathlib.Path(__file__).resolve().parent)
