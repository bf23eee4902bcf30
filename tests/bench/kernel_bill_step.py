# SPDX-License-Identifier: Apache-2.0
"""What a training step asks of the device, kernel by kernel: launches with their shapes, bytes and operations, and the products.

The rows below state per kernel what cannot be read from machine code: its blocks, how many packs a thread goes through, the bytes of
a pack. A pack is what a thread moves at a time; the bytes are compared with those that the loop moves (tests/bench/kernel_bill.py).
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
WARP = 32
PACK = 8  # elements (backend/cuda/elements.cuh)
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


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A row of the table. Bytes are those of accesses of `width` bytes by one thread to global and, if `shared`, shared memory:
    (loaded, stored).
    `once` is the way through the kernel without its loops; the loops are found by the bytes of a pack, of which they may move
    several at a time. None: the longest way, whatever it moves."""

    source: str
    instance: str = ""  # template arguments; those of a preset as {packs}
    width: int = 16
    shared: bool = True
    once: tuple | None = None
    loops: tuple = ()
    # Packs that a turn of a loop moves, where its code also has ways, which are never taken, that move more; 0: what it can.
    at_once: int = 0
    # Of tensor-core kernels the instructions of a product are counted: all of the kernel's, divided by its products.
    by_products: bool = False


KERNELS = {
    "embed": Kernel("embedding_cuda.cu", "<BF16, true>", loops=((48, 16),)),
    "list_work": Kernel("attention_work_cuda.cu", width=4, loops=((16, 0),)),
    "norm_forward": Kernel("layer_norm_cuda.cu", "<BF16, 1, {packs}, true>", once=("{packs}", 96, 32)),
    "norm_backward": Kernel("layer_norm_cuda.cu", "<BF16, {packs}, 1, true>", shared=False, loops=((32, 32),)),
    "attend_on_tensor_cores": Kernel("attention_tensor_cuda.cu", "<64>", by_products=True),
    "gradients_on_tensor_cores": Kernel("attention_tensor_backward_cuda.cu", "<64>", by_products=True),
    "cross_entropy_row": Kernel("cross_entropy_cuda.cu", "<BF16, true, false>", loops=((16, 0), (16, 0), (16, 16))),
    "sum_losses": Kernel("cross_entropy_cuda.cu", width=4, loops=((8, 0),)),
    "sum_columns": Kernel("bias_relu_cuda.cu", "<BF16, true>", loops=((16, 0),), at_once=4),
    "sum_columns masked": Kernel("bias_relu_cuda.cu", "<BF16, true>", loops=((32, 16),), at_once=4),
    "add_columns": Kernel("column_sums_cuda.cu", width=4, loops=((4, 0),)),
    "sum_runs": Kernel("embedding_cuda.cu", "<BF16, true>", loops=((16, 0),)),
    "join_runs": Kernel("embedding_cuda.cu", "<BF16, true>", loops=((32, 0),)),
    "chunk_squares": Kernel("global_norm_cuda.cu", "<true>", loops=((32, 0),)),
    "sum_partials": Kernel("global_norm_cuda.cu", width=8, loops=((8, 0),)),
    "plan": Kernel("update_plan_cuda.cu"),
    "search": Kernel("not_finite_cuda.cu"),
    "adam_step": Kernel("adam_cuda.cu", "<true>", once=(1, 128, 112)),
}


@dataclasses.dataclass
class Launch:
    """`times` launches of a kernel with one shape. `turns`: packs that a thread goes through in each of the kernel's loops."""

    kernel: str
    phase: str  # of a profile (model/phases.h, trainer/optimizer.cc)
    times: int
    blocks: int
    threads: int
    elements: float  # that instructions are counted for
    bytes: float  # of device memory, each tensor once
    turns: tuple = ()
    shared: int = 0  # dynamic, of a block
    flops: float = 0.0
    products: float = 0.0  # of tensor cores, 16 x 8 x 16
    pieces: int = 0  # of work that blocks draw; 0: one a block

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
        """Which factor is transposed, and whether the result is added to (`attention_bench --products`)."""
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


def attention(preset, backward, causal):
    """(products of 16 x 8 x 16, pieces of work) of one attention of a layer; queries and keys of a sentence are as many."""
    products = pieces = 0.0
    of_length = sentences() / len(LENGTHS)
    for length in LENGTHS:
        side = tiles(length)
        pairs = side * (side + 1) / 2 if causal else side * side
        # Of 16 queries and 16 keys each product takes 2 * d_head / 16: two forward; backward five, or seven in two kernels' turns.
        times = (7 if length > 64 else 5) if backward else 2
        products += of_length * preset.heads * pairs * times * 2 * (preset.d_model // preset.heads) / 16
        if length > 64:
            turns = (2 if backward else 1) * -(-length // 64)
        else:
            turns = 1 / (4 if length <= 16 else 2 if length <= 32 else 1)
        pieces += of_length * preset.heads * turns
    return products, round(pieces)


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
        block_rows = rows_of_partial(rows)
        launches.append(Launch("sum_columns masked" if masked else "sum_columns", phase, times, -(-cols // 256) * partials, 256, rows * cols,
                               (3 if masked else 1) * rows * cols * BF16 + partials * cols * F32, (block_rows / 8,), flops=rows * cols))  # fmt: skip

    def add(phase, times, cols):
        """All such sums of a layer, `cols` in total."""
        launches.append(Launch("add_columns", phase, times, -(-cols // 32), 512, partials * cols, partials * cols * F32,
                               (partials / 16,), flops=partials * cols))  # fmt: skip

    def linear(side, times, n, k, first=False):
        """A linear layer: y = x W, dW += x^T dy, dx = dy W^T."""
        products.append(Product(forward[side], times, rows, n, k))
        products.append(Product(backward[side], times, k, n, rows, F32, accumulates=True))
        products.append(Product(backward[side], times, rows, k, n, accumulates=first))

    packs = d // (WARP * PACK)  # of a row in the registers of a warp, or warps that share a row
    for side, sublayers in (("encoder", 2), ("decoder", 3)):
        launches += [
            Launch("embed", forward[side], 1, -(-rows // 4), 128, rows * d, 2 * row, (packs,), flops=4 * rows * d),
            Launch("list_work", forward[side], sublayers - 1, 1, 1024, sentences(), 40 * sentences(), (sentences() / 1024,)),
            Launch("norm_forward", forward[side], sublayers * layers, -(-rows // 4), 128, rows * d, 4 * row + 8 * rows,
                   flops=10 * rows * d),
            Launch("norm_backward", backward[side], sublayers * layers, partials, 256, rows * d, 4 * row + 8 * rows,
                   (rows_of_partial(rows) * packs / 8,), shared=3 * d * F32, flops=14 * rows * d),
        ]  # fmt: skip
        # Of its norms, with the biases before them; of its other biases.
        add(backward[side], layers, sublayers * 3 * d + ff + (2 if side == "encoder" else 3) * d)
        for causal in ((False,) if side == "encoder" else (True, False)):
            for back in (False, True):
                count, pieces = attention(preset, back, causal)
                head = d // preset.heads
                elements = 64 * (head + PACK)  # of a tile in shared memory
                shared = (4 * elements + 2 * 64 * (64 + PACK) if back else 3 * elements) * BF16
                launches.append(Launch("gradients_on_tensor_cores" if back else "attend_on_tensor_cores",
                                       (backward if back else forward)[side], layers, 8 * 132, 128, count,
                                       (7 if back else 4) * row, shared=shared, flops=4096 * count, products=count,
                                       pieces=pieces))  # fmt: skip
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
        grid = -(-pieces // 4) * -(-d // (WARP * PACK))
        launches += [
            Launch("sum_runs", backward[side], 1, grid, 128, rows * d, row + 2 * pieces * d * F32, (32,), flops=2 * rows * d),
            Launch("join_runs", backward[side], 1, grid, 128, pieces * d, 2 * pieces * d * F32, (1,)),
        ]  # fmt: skip
    logits = rows * vocabulary
    of_thread = VOCABULARY / (512 * PACK)
    launches += [
        Launch("cross_entropy_row", output, 1, rows, 512, logits, 2 * logits * BF16, 3 * (of_thread,), VOCABULARY * BF16,
               flops=8 * logits),
        Launch("sum_losses", output, 1, 1, 1024, rows, 8 * rows, (rows / 1024,)),
    ]
    products += [
        Product(output, 1, rows, vocabulary, d),
        Product(output, 1, rows, d, vocabulary),
        Product(output, 1, vocabulary, d, rows, F32, accumulates=True),
    ]
    count = preset.parameters
    chunks = -(-count // 16384)
    launches += [
        Launch("chunk_squares", "gradient norm", 1, chunks, 256, count, count * F32, (8,), flops=2 * count),
        Launch("sum_partials", "gradient norm", 1, 1, 256, chunks, chunks * 8, (chunks / 256,)),
        Launch("plan", "gradient norm", 1, 1, 1, WARP, 0),
        Launch("search", "gradient norm", 1, 1024, 256, 1024 * 256, 0),
        Launch("adam_step", "Adam", 1, -(-count // (256 * PACK)), 256, count, 30 * count, flops=12 * count),
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


def pack_of(entry, preset):
    """(bytes loaded, bytes stored) of one pack of a thread; with {packs}, of all packs of a row in the registers of a warp."""
    if len(entry) == 2:
        return entry
    packs = preset.d_model // (WARP * PACK) if entry[0] == "{packs}" else entry[0]
    return packs * entry[1], packs * entry[2]


def instance_of(kernel, preset):
    return kernel.instance.replace("{packs}", str(preset.d_model // (WARP * PACK)))
