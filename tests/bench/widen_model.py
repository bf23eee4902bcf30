#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A weights file of a wider and deeper network that computes nearly what a trained one does.

    python3 tests/bench/widen_model.py tiny.h5 base.h5 --times 4 --layers 6 --d-ff 2048

For speed measurements at the size of a model that takes days to train: unlike with random weights, translations have realistic lengths.
Every channel is repeated `--times` times, and so is every head, with keys `--times` / 2 times as long; sums over repeated channels are divided
by their number, so that each copy computes the same as before. The added layers have sublayers that give zero, but also a LayerNorm, so
that the outputs are similar, not equal. Needs h5py, numpy and xxhash.
"""
import argparse
import io
import json
import math

import h5py
import numpy
import xxhash

BLOCK = 512  # the user block of our files (docs/formats.md)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="weights file of a post-norm model with sinusoids")
    parser.add_argument("output")
    parser.add_argument("--times", type=int, default=4, help="channels; an even number")
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--d-ff", type=int, default=2048)
    arguments = parser.parse_args()
    times = arguments.times
    source = h5py.File(arguments.model)
    config = json.loads(source.attrs["config"])
    d_model, heads, old_layers = config["d_model"], config["heads"], config["encoder_layers"]
    d_head = d_model // heads
    wide = d_model * times

    def value(name):
        return source["model/" + name][()].astype(numpy.float64)

    # Channels are repeated as a whole (0 ... d-1, 0 ... d-1, ...). Of the new heads, which are twice as many, two consecutive ones
    # hold one old head, each of them `times` / 2 copies of it.
    in_heads = numpy.concatenate([numpy.tile(numpy.arange(d_head) + head * d_head, times // 2)
                                  for head in range(heads) for _ in range(2)])
    channels = numpy.tile(numpy.arange(d_model), times)
    inner = numpy.arange(arguments.d_ff) % config["d_ff"]
    inner_copies = arguments.d_ff // config["d_ff"]

    def linear(name, rows, cols, factor):
        return {f"{name}/weight": value(f"{name}/weight")[rows][:, cols] * factor, f"{name}/bias": value(f"{name}/bias")[cols]}

    def norm(name):
        return {f"{name}/{part}": value(f"{name}/{part}")[channels] for part in ("gamma", "beta")}

    def layer(prefix, attentions):
        found = {}
        for attention in attentions:
            for part in ("query", "key", "value"):
                found |= linear(f"{prefix}/{attention}/{part}", channels, in_heads, 1 / times)
            # The products of queries and keys have times / 2 equal terms instead of one, and their scale is 1 / sqrt(d_head * times / 2).
            for part in ("weight", "bias"):
                found[f"{prefix}/{attention}/query/{part}"] /= math.sqrt(times / 2)
            found |= linear(f"{prefix}/{attention}/output", in_heads, channels, 1 / times)
            found |= norm(f"{prefix}/{attention}/norm")
        found |= linear(f"{prefix}/feed_forward/inner", channels, inner, 1 / times)
        found |= linear(f"{prefix}/feed_forward/outer", inner, channels, 1 / inner_copies)
        return found | norm(f"{prefix}/feed_forward/norm")

    def passing(found, from_prefix, to_prefix, gamma, beta):
        """A layer whose output is nearly its input: gamma * normalized + beta again."""
        made = {}
        for name, array in found.items():
            if not name.startswith(from_prefix + "/"):
                continue
            other = to_prefix + name[len(from_prefix):]
            if "/norm/" in name:
                made[other] = numpy.full(wide, gamma.std() if name.endswith("gamma") else beta.mean())
            else:
                made[other] = numpy.zeros_like(array) if "/output/" in name or "/outer/" in name else array
        return made

    parameters = {"embedding": value("embedding")[:, channels] / math.sqrt(times)}
    angle = (numpy.arange(config["max_positions"])[:, None] / 10000.0 ** (numpy.arange(0, d_model, 2) / d_model))
    positions = numpy.stack([numpy.sin(angle), numpy.cos(angle)], axis=-1).reshape(-1, d_model)[:, channels]
    parameters |= {"source_positions": positions, "target_positions": positions}
    for stack, attentions in (("encoder", ["self_attention"]), ("decoder", ["self_attention", "cross_attention"])):
        for i in range(old_layers):
            parameters |= layer(f"{stack}/layers/{i}", attentions)
        last = f"{stack}/layers/{old_layers - 1}"
        gamma, beta = (parameters[f"{last}/feed_forward/norm/{part}"] for part in ("gamma", "beta"))
        # A row gamma * z + beta has the variance of that product over the channels and the mean of beta; normalizing divides by the former.
        spread = math.sqrt((gamma ** 2).mean() + beta.var())
        for i in range(old_layers, arguments.layers):
            made = passing(parameters, last, f"{stack}/layers/{i}", gamma, beta)
            for name in made:
                if name.endswith("norm/gamma"):
                    made[name] = numpy.full(wide, spread)
            parameters |= made
    # Logits are sums over `times` copies of channels of an embedding that was divided by sqrt(times).
    for part in ("gamma", "beta"):
        parameters[f"decoder/layers/{arguments.layers - 1}/feed_forward/norm/{part}"] /= math.sqrt(times)

    config |= {"d_model": wide, "d_ff": arguments.d_ff, "heads": 2 * heads, "encoder_layers": arguments.layers,
               "decoder_layers": arguments.layers, "learned_positions": True}
    h5py.get_config().track_order = True
    memory = io.BytesIO()
    with h5py.File(memory, "w", libver="v110", userblock_size=BLOCK) as file:
        for name, array in parameters.items():
            file["model/" + name] = array.astype(numpy.float32)
        file["tokenizer"] = source["tokenizer"][()]
        file.attrs["config"] = numpy.bytes_(json.dumps(config))
        file.attrs["format"] = numpy.bytes_(source.attrs["format"])
        file.attrs["provenance"] = numpy.bytes_("tests/bench/widen_model.py")
    content = memory.getvalue()[BLOCK:]
    head = b"VENTRIS1" + len(content).to_bytes(8, "little") + xxhash.xxh3_128(content).digest()
    with open(arguments.output, "wb") as file:
        file.write(head.ljust(BLOCK, b"\0") + content)


if __name__ == "__main__":
    main()
