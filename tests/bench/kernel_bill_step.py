# SPDX-License-Identifier: Apache-2.0
"""What a training step asks of the device, kernel by kernel: launches with their bytes and operations, and the products.

The number of launches is compared with what the emulated device counts (tests/emulation/launches_test.cc).
"""

import collections
import dataclasses
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LAUNCHES_TEST = ROOT / "tests/emulation/launches_test.cc"

ROWS = 25_344  # of a side in a step: 25,000 tokens and what is padded to the capacity
VOCABULARY = 37_000
BF16, F32 = 2, 4  # bytes

# Lengths of sentences with their end mark, each as frequent as the others: 28 tokens on average as in WMT, an eighth of the tokens in
# sentences of more than 64. Attention depends on them.
LENGTHS = (5, 7, 9, 11, 12, 14, 15, 17, 18, 20, 21, 23, 25, 26, 28, 30, 32, 34, 39, 43, 47, 52, 60, 84)


@dataclasses.dataclass(frozen=True)
class Preset:
    """The shape of a model (trainer/train_options.cc) with the dtype bf16 and post-norm."""

    layers: int
    d_model: int
    d_ff: int
    heads: int
    tokens: int = VOCABULARY

    @property
    def vocabulary(self):
        """Padded (model/transformer_config.h)."""
        return -(-self.tokens // 128) * 128

    @property
    def parameters(self):
        d, ff = self.d_model, self.d_ff
        attention, feed_forward = 4 * d * d + 4 * d, 2 * d * ff + ff + d
        encoder = attention + feed_forward + 2 * 2 * d
        return self.layers * (2 * encoder + attention + 2 * d) + self.vocabulary * d


OUTPUT = "output layer and loss"
PRESETS = {"base": Preset(6, 512, 2048, 8), "big": Preset(6, 1024, 4096, 16)}


@dataclasses.dataclass
class Launch:
    """`times` launches of a kernel with one shape."""

    kernel: str
    phase: str  # of a profile (model/transformer.h, trainer/optimizer.cc)
    times: int
    bytes: float  # of device memory, each tensor once
    flops: float = 0.0

    @property
    def name(self):
        """As the device counts it."""
        return self.kernel.split(" ")[0]


@dataclasses.dataclass
class Product:
    """`times` matrix products [m, k] [k, n]."""

    phase: str
    times: int
    m: int
    n: int
    k: int
    bytes_of_result: int = BF16
    accumulates: bool = False

    @property
    def flops(self):
        return 2.0 * self.m * self.n * self.k

    @property
    def form(self):
        """Which factor is transposed, and whether the result is added to (tests/bench/products_bench.cc)."""
        if self.bytes_of_result == F32:
            form = "tn"
        elif self.phase == OUTPUT:
            form = "nt" if self.n > self.k else "nn"
        else:
            form = "nn" if "forward" in self.phase else "nt"
        return form + "+" * self.accumulates

    @property
    def bytes(self):
        result = self.bytes_of_result * self.m * self.n
        return BF16 * (self.m * self.k + self.k * self.n) + (2 if self.accumulates else 1) * result


def sentences():
    return round(ROWS * len(LENGTHS) / sum(LENGTHS))


def tiles(length):
    return -(-length // 16)


def attention_flops(preset, backward, causal):
    """Operations of the products of 16 x 8 x 16 of one attention of a layer; queries and keys of a sentence are as many."""
    products = 0.0
    of_length = sentences() / len(LENGTHS)
    for length in LENGTHS:
        side = tiles(length)
        pairs = side * (side + 1) / 2 if causal else side * side
        # Of 16 queries and 16 keys each product takes 2 * d_head / 16: two forward; backward five, or seven in two kernels' turns.
        times = (7 if length > 64 else 5) if backward else 2
        products += of_length * preset.heads * pairs * times * 2 * (preset.d_model // preset.heads) / 16
    return 4096 * products


def rows_of_partial(rows):
    """backend/cuda/column_sums.cuh."""
    return max(32, -(-rows // 264))


def step(preset, rows=ROWS):
    """(launches, products, other work by name -> (times, bytes)) of a training step on one device."""
    d, ff, layers, vocabulary = preset.d_model, preset.d_ff, preset.layers, preset.vocabulary
    launches, products = [], []
    row = rows * d * BF16  # bytes of an activation
    partials = -(-rows // rows_of_partial(rows))
    forward = {"encoder": "encoder forward", "decoder": "decoder forward"}
    backward = {"encoder": "encoder backward", "decoder": "decoder backward"}
    output = OUTPUT

    def columns(phase, times, cols, masked=False):
        """Sums of the gradient of a bias by blocks of rows; `masked`: the gradient is first set to 0 where ReLU's result is."""
        launches.append(Launch("sum_columns masked" if masked else "sum_columns", phase, times,
                               (3 if masked else 1) * rows * cols * BF16 + partials * cols * F32, rows * cols))  # fmt: skip

    def add(phase, times, cols):
        """All such sums of a layer, `cols` in total."""
        launches.append(Launch("add_columns", phase, times, partials * cols * F32, partials * cols))

    def linear(side, times, n, k, first=False):
        """A linear layer: y = x W, dW += x^T dy, dx = dy W^T."""
        products.append(Product(forward[side], times, rows, n, k))
        products.append(Product(backward[side], times, k, n, rows, F32, accumulates=True))
        products.append(Product(backward[side], times, rows, k, n, accumulates=first))

    for side, sublayers in (("encoder", 2), ("decoder", 3)):
        launches += [
            Launch("embed", forward[side], 1, 2 * row, 4 * rows * d),
            Launch("list_work", forward[side], sublayers - 1, 40 * sentences()),
            Launch("norm_forward", forward[side], sublayers * layers, 4 * row + 8 * rows, 10 * rows * d),
            Launch("norm_backward", backward[side], sublayers * layers, 4 * row + 8 * rows, 14 * rows * d),
        ]
        # Of its norms, with the biases before them; of its other biases.
        add(backward[side], layers, sublayers * 3 * d + ff + (2 if side == "encoder" else 3) * d)
        for causal in ((False,) if side == "encoder" else (True, False)):
            launches += [
                Launch("attend_on_tensor_cores", forward[side], layers, 4 * row, attention_flops(preset, False, causal)),
                Launch("gradients_on_tensor_cores", backward[side], layers, 7 * row, attention_flops(preset, True, causal)),
            ]
        # Self-attention, of the decoder also attention to the encoder, feed-forward.
        linear(side, layers, 3 * d, d, first=True)
        linear(side, layers, d, d)
        if side == "decoder":
            linear(side, layers, d, d, first=True)
            linear(side, layers, d, d)
            columns(backward[side], layers, d)
            linear(side, 1, 2 * d * layers, d)
            columns(backward[side], 1, d * layers)
            add(backward[side], 1, d * layers)
        linear(side, layers, ff, d, first=True)
        linear(side, layers, d, ff)
        columns(backward[side], layers, ff, masked=True)
        columns(backward[side], layers, 2 * d)
        pieces = -(-rows // 32)
        launches += [
            Launch("sum_runs", backward[side], 1, row + 2 * pieces * d * F32, 2 * rows * d),
            Launch("join_runs", backward[side], 1, 2 * pieces * d * F32),
        ]
    logits = rows * vocabulary
    launches += [
        Launch("cross_entropy_row", output, 1, 2 * logits * BF16, 8 * logits),
        Launch("sum_losses", output, 1, 8 * rows),
    ]
    products += [
        Product(output, 1, rows, vocabulary, d),
        Product(output, 1, rows, d, vocabulary),
        Product(output, 1, vocabulary, d, rows, F32, accumulates=True),
    ]
    count = preset.parameters
    chunks = -(-count // 16384)
    launches += [
        Launch("chunk_squares", "gradient norm", 1, count * F32, 2 * count),
        Launch("sum_partials", "gradient norm", 1, chunks * 8),
        Launch("plan", "gradient norm", 1, 0),
        Launch("search", "gradient norm", 1, 0),
        Launch("adam_step", "Adam", 1, 30 * count, 12 * count),
    ]
    others = {
        "memset": ("zeroing gradients", 3, F32 * count + 2 * 16),
        "copy to device": ("batch to the device", 2, 7 * rows * 4),
        "copy to host": ("batch to the device", 1, 64),
    }
    return launches, products, others


def counts(preset):
    """name -> launches of a step, as the emulated device counts them."""
    launches, products, others = step(preset)
    found = collections.Counter()
    for launch in launches:
        found[launch.name] += launch.times
    found["product"] = sum(product.times for product in products)
    for name, (_, times, _) in others.items():
        found[name] = times
    return dict(found)


def counted_on_the_emulated_device(file=LAUNCHES_TEST):
    """(layers of a side, name -> launches of a step in bf16 with post-norm), from the table of the test."""
    text = file.read_text(encoding="utf-8")
    layers = re.search(r"encoder_layers = config\.decoder_layers = (\d+);", text)
    table = re.search(r"kTrainingStep\[\] = \{\n(.*?)\n\};", text, re.DOTALL)
    rows = re.findall(r'\{"([^"]+)",\s*\{\s*(\d+),\s*(\d+),\s*(\d+)\}\}', table[1]) if table else []
    if not layers or not rows:
        raise ValueError(f"{file}: neither the layers nor the table kTrainingStep of a training step were found")
    return int(layers[1]), {name: int(bf16) for name, _, bf16, _ in rows if int(bf16)}


def wrong_counts(file=LAUNCHES_TEST):
    """Lines: where the launches of this file are not those of the emulated device."""
    layers, counted = counted_on_the_emulated_device(file)
    stated = counts(dataclasses.replace(PRESETS["base"], layers=layers))
    return [f"{name}: {counted.get(name, 0)} launches a step in {file.name} ({layers} layers a side), "
            f"{stated.get(name, 0)} in kernel_bill_step.py; correct step() there"
            for name in sorted({*counted, *stated}) if counted.get(name, 0) != stated.get(name, 0)]  # fmt: skip


OUR_KERNELS = {launch.name for launch in step(PRESETS["base"])[0]}
