# SPDX-License-Identifier: Apache-2.0
"""How large and how long the measurements of the kit are: on a GPU, and to try the scripts where there is none."""
import dataclasses

import kernel_bill_step as plan


@dataclasses.dataclass(frozen=True)
class Sizes:
    device: str = "cuda"  # of ventris
    peer_device: str = "cuda"  # of PyTorch
    models: dict = dataclasses.field(default_factory=lambda: {"base": [], "big": []})  # preset: options in addition
    shapes: dict = dataclasses.field(default_factory=lambda: dict(plan.PRESETS))  # of these models
    peer_presets: dict = dataclasses.field(default_factory=lambda: {"base": "base", "big": "big"})
    peer_options: tuple = ()  # of PyTorch's trainings
    batch_tokens: int = plan.ROWS  # of a side; 198 x 128, so that no padding to 128 is needed
    options: tuple = ()  # of every training
    small: tuple = ("--preset", "tiny")  # model of runs whose digests are compared
    small_tokens: int = 4096
    few_steps: int = 12  # where digests are compared
    many_steps: int = 600  # where a run is killed
    save_every: int = 50
    log_every: int = 10
    seconds: float = 8.0  # of a measurement of training
    warmup_seconds: float = 3.0
    brief_seconds: float = 2.0  # of one of a pair, and of steps without a graph
    brief_warmup_seconds: float = 1.0
    peer_seconds: float = 6.0
    peer_warmup_seconds: float = 3.0
    packed_seconds: float = 4.0
    compile_seconds: float = 60.0
    large: int = 8192  # rows of the large product
    test_filter: str = "*"
    ranks: tuple = (2, 4)
    multi30k: dict = dataclasses.field(default_factory=lambda: {"DEVICE": "cuda", "PRECISION": "bf16"})  # variables of the recipe
    multi30k_bleu: float = 39.72  # of the CPU, docs/results.md
    multi30k_tolerance: float = 1.0
    patience: float = 1.0  # by which the limits of stages are multiplied


# Emulated devices have the speed of a CPU divided by some hundred.
SMALL_MODEL = ["--encoder-layers", "1", "--decoder-layers", "1", "--d-model", "16", "--d-ff", "32", "--heads", "2"]
SMALL_SHAPE = plan.Preset(1, 16, 32, 2, tokens=120)
TRIAL = Sizes(
    peer_device="cpu",
    models={"base": SMALL_MODEL, "big": SMALL_MODEL},
    shapes={"base": SMALL_SHAPE, "big": SMALL_SHAPE},
    peer_presets={"base": "tiny", "big": "tiny"},
    # Threads of PyTorch wait for each other without sleeping: where cores are shared, two take ten times as long as one.
    peer_options=("--layers", "1", "--threads", "1"),
    batch_tokens=192,
    options=("--threads", "1", "--logical-shards", "2"),
    small=("--preset", "tiny", *SMALL_MODEL),
    small_tokens=192,
    few_steps=3,
    many_steps=8,
    save_every=2,
    log_every=1,
    seconds=2.0,
    warmup_seconds=0.5,
    brief_seconds=1.0,
    brief_warmup_seconds=0.2,
    peer_seconds=2.0,
    peer_warmup_seconds=0.5,
    packed_seconds=1.0,
    compile_seconds=400.0,  # a layer a side takes 70 s of processor time, and took 290 s on cores with much other work
    large=64,
    test_filter="*CudaGolden*/post_norm_f32",
    ranks=(2,),
    multi30k={"DEVICE": "cpu", "PRECISION": "f32", "RANKS": "1", "MAX_STEPS": "1"},
    multi30k_bleu=0.0,
    patience=10.0,
)
