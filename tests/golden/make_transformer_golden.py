#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes transformer_*.golden beside itself, a file for each of MODELS (needs PyTorch and NumPy).

An independent statement of the model, sentence by sentence, in float64 with autograd: parameters, a batch,
logits, the label-smoothed loss, every gradient, and the losses and parameters of ten Adam steps with the
schedule of the paper.

A golden file is a sequence of entries: u32 length of the name, name, u32 rows, u32 columns, u8 type (0: f32,
1: i32, 2: bf16), then the elements by rows, all little-endian. Of the gradients and the parameters of large models the
first rows alone are kept, and their initial values are exact in bf16.
"""
import math
import pathlib
import struct

import numpy
import torch
import torch.nn.functional as F

SMALL = dict(d_model=16, d_ff=24, heads=2, positions=12, large=False, lengths=[(3, 5), (1, 1), (9, 7), (4, 10), (6, 2)])
# On CUDA these have attention on tensor cores, with tiles of 16, 32 and 64 rows.
LARGE = dict(encoder_layers=1, decoder_layers=1, pre_norm=0, learned_positions=0, d_ff=16, heads=1, positions=48, large=True,
             lengths=[(20, 18), (3, 2), (33, 36)])
# Which tables are one, in the order of model/transformer_config.h, and the tokens of the vocabulary of sources.
TIES = ("all", "decoder", "none")
# In the order of backend/ops/activation.h.
ACTIVATIONS = {"relu": F.relu, "gelu": F.gelu, "swish": F.silu}
MODELS = {
    "post_norm": SMALL | dict(encoder_layers=2, decoder_layers=2, pre_norm=0, learned_positions=0),
    "pre_norm": SMALL | dict(encoder_layers=1, decoder_layers=2, pre_norm=1, learned_positions=1),
    "two_tables": SMALL | dict(encoder_layers=1, decoder_layers=1, pre_norm=0, learned_positions=0, tie="decoder", source_vocab=150),
    "three_tables": SMALL | dict(encoder_layers=1, decoder_layers=1, pre_norm=1, learned_positions=1, tie="none", source_vocab=150),
    "gelu": SMALL | dict(encoder_layers=1, decoder_layers=1, pre_norm=0, learned_positions=0, activation="gelu"),
    "swish": SMALL | dict(encoder_layers=1, decoder_layers=1, pre_norm=1, learned_positions=0, activation="swish"),
    "head_32": LARGE | dict(d_model=32),
    "head_64": LARGE | dict(d_model=64),
}
VOCAB, SMOOTHING = 37, 0.1
KEPT_ROWS = 4
WARMUP, SCALE, STEPS = 4, 0.05, 10
BEGIN, END = 1, 2


def tables(c):
    """The names of the tables of sources, targets and the output layer."""
    return {
        "all": ("embedding", "embedding", "embedding"),
        "decoder": ("source_embedding", "target_embedding", "target_embedding"),
        "none": ("source_embedding", "target_embedding", "output/weight"),
    }[c.get("tie", "all")]


def shapes(c):
    """Logical parameters: name -> shape, vectors with one dimension."""
    d, ff = c["d_model"], c["d_ff"]
    linear = lambda name, i, o: {f"{name}/weight": (i, o), f"{name}/bias": (o,)}
    norm = lambda name: {f"{name}/gamma": (d,), f"{name}/beta": (d,)}
    source, *others = tables(c)
    p = {source: (c.get("source_vocab", VOCAB), d)} | {name: (VOCAB, d) for name in others if name != source}
    if c["learned_positions"]:
        p |= {"source_positions": (c["positions"], d), "target_positions": (c["positions"], d)}
    for stack in ("encoder", "decoder"):
        for i in range(c[f"{stack}_layers"]):
            layer = f"{stack}/layers/{i}"
            for attention in ("self_attention", "cross_attention")[: 1 if stack == "encoder" else 2]:
                for part in ("query", "key", "value", "output"):
                    p |= linear(f"{layer}/{attention}/{part}", d, d)
                p |= norm(f"{layer}/{attention}/norm")
            p |= linear(f"{layer}/feed_forward/inner", d, ff) | linear(f"{layer}/feed_forward/outer", ff, d)
            p |= norm(f"{layer}/feed_forward/norm")
        if c["pre_norm"]:
            p |= norm(f"{stack}/norm")
    return p


def initial(c, generator):
    """Random values that are exact in the type they are kept in; no vector is trivial."""
    p = {}
    for name, shape in shapes(c).items():
        value = torch.randn(shape, generator=generator, dtype=torch.float64) * (0.1 if len(shape) == 1 else c["d_model"] ** -0.5)
        if name.endswith("gamma"):
            value += 1.0
        p[name] = value.to(torch.bfloat16 if c["large"] else torch.float32).double().requires_grad_()
    return p


def sinusoids(positions, d):
    table = torch.zeros(positions, d, dtype=torch.float64)
    for position in range(positions):
        for i in range(d // 2):
            angle = position / 10000 ** (2 * i / d)
            table[position, 2 * i], table[position, 2 * i + 1] = math.sin(angle), math.cos(angle)
    return table


def linear(p, name, x):
    return x @ p[f"{name}/weight"] + p[f"{name}/bias"]


def norm(p, name, x):
    return F.layer_norm(x, x.shape[-1:], p[f"{name}/gamma"], p[f"{name}/beta"], 1e-5)


def attention(p, c, name, x, memory, causal):
    d, heads = c["d_model"], c["heads"]
    split = lambda y: y.view(-1, heads, d // heads).transpose(0, 1)
    q, k, v = (split(linear(p, f"{name}/{part}", y)) for part, y in (("query", x), ("key", memory), ("value", memory)))
    scores = q @ k.transpose(1, 2) / math.sqrt(d // heads)
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[1:], dtype=torch.bool).triu(1), -math.inf)
    return linear(p, f"{name}/output", (scores.softmax(-1) @ v).transpose(0, 1).reshape(-1, d))


def stack(p, c, side, layers, ids, memory):
    table = p[f"{side}_positions"] if c["learned_positions"] else sinusoids(c["positions"], c["d_model"])
    x = p[tables(c)[0 if memory is None else 1]][ids] * math.sqrt(c["d_model"]) + table[: len(ids)]
    decoder = memory is not None
    prefix = "decoder" if decoder else "encoder"
    activation = ACTIVATIONS[c.get("activation", "relu")]

    def sublayer(x, name, function):
        if c["pre_norm"]:
            return x + function(norm(p, f"{name}/norm", x))
        return norm(p, f"{name}/norm", x + function(x))

    for i in range(layers):
        name = f"{prefix}/layers/{i}"
        here = f"{name}/self_attention"
        x = sublayer(x, here, lambda y: attention(p, c, here, y, y, decoder))
        if decoder:
            cross = f"{name}/cross_attention"
            x = sublayer(x, cross, lambda y: attention(p, c, cross, y, memory, False))
        ff = f"{name}/feed_forward"
        x = sublayer(x, ff, lambda y: linear(p, f"{ff}/outer", activation(linear(p, f"{ff}/inner", y))))
    return norm(p, f"{prefix}/norm", x) if c["pre_norm"] else x


def forward(p, c, sentences):
    """Logits of all target rows, [tokens, VOCAB], and the summed loss."""
    logits = []
    for source, target in sentences:
        memory = stack(p, c, "source", c["encoder_layers"], torch.tensor(source + [END]), None)
        hidden = stack(p, c, "target", c["decoder_layers"], torch.tensor([BEGIN] + target), memory)
        logits.append(hidden @ p[tables(c)[2]].T)
    logits = torch.cat(logits)
    labels = torch.tensor([word for _, target in sentences for word in target + [END]])
    return logits, F.cross_entropy(logits, labels, label_smoothing=SMOOTHING, reduction="sum")


class Writer:
    def __init__(self, path):
        self.file = open(path, "wb")

    def put(self, name, array, bf16=False):
        array = numpy.atleast_2d(numpy.asarray(array))
        kind = 1 if array.dtype.kind == "i" else 2 if bf16 else 0
        self.file.write(struct.pack("<I", len(name)) + name.encode())
        self.file.write(struct.pack("<IIB", *array.shape, kind))
        bits = array.astype("<i4" if kind == 1 else "<f4")
        self.file.write((bits.view("<u4") >> 16).astype("<u2").tobytes() if bf16 else bits.tobytes())


def make(name, c, folder):
    generator = torch.Generator().manual_seed(20170612)
    p = initial(c, generator)
    lengths = c["lengths"]
    word = lambda n, vocab: torch.randint(3, vocab, (n,), generator=generator).tolist()
    sentences = [(word(source, c.get("source_vocab", VOCAB)), word(target, VOCAB)) for source, target in lengths]
    tokens = sum(len(target) + 1 for _, target in sentences)
    rows = KEPT_ROWS if c["large"] else None

    out = Writer(folder / f"transformer_{name}.golden")
    out.put("config", [c["encoder_layers"], c["decoder_layers"], c["d_model"], c["d_ff"], c["heads"], VOCAB,
                       c["pre_norm"], c["learned_positions"], c["positions"]]
                      + ([TIES.index(c.get("tie", "all")), c.get("source_vocab", 0)] if "tie" in c or "activation" in c else [])
                      + ([list(ACTIVATIONS).index(c["activation"])] if "activation" in c else []))
    out.put("lengths", lengths)
    out.put("sources", [w for source, _ in sentences for w in source])
    out.put("targets", [w for _, target in sentences for w in target])
    out.put("schedule", numpy.array([SCALE, WARMUP, STEPS], dtype=numpy.float32))
    for key, value in p.items():
        out.put(f"value/{key}", value.detach().numpy(), bf16=c["large"])

    adam = torch.optim.Adam(p.values(), lr=1.0, betas=(0.9, 0.98), eps=1e-9)
    losses = []
    for step in range(1, STEPS + 1):
        adam.zero_grad()
        logits, loss = forward(p, c, sentences)
        (loss / tokens).backward()
        if step == 1:
            out.put("logits", logits.detach().numpy())
            for key, value in p.items():
                out.put(f"gradient/{key}", (value.grad if value.dim() == 1 else value.grad[:rows]).numpy())
        losses.append(loss.item())
        adam.param_groups[0]["lr"] = SCALE * c["d_model"]**-0.5 * min(step**-0.5, step * WARMUP**-1.5)
        adam.step()
    out.put("losses", numpy.array(losses))
    for key, value in p.items():
        out.put(f"final/{key}", (value if value.dim() == 1 else value[:rows]).detach().numpy())


if __name__ == "__main__":
    for model_name, model_config in MODELS.items():
        make(model_name, model_config, pathlib.Path(__file__).resolve().parent)
