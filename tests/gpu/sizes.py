"""How large and how long the measurements of the kit are: on a GPU, and to try the scripts where there is none."""
import dataclasses


@dataclasses.dataclass(frozen=True)
class Sizes:
    device: str = "cuda"  # of ventris
    peer_device: str = "cuda"  # of PyTorch
    models: dict = dataclasses.field(default_factory=lambda: {"base": [], "big": []})  # preset: options in addition
    peer_presets: dict = dataclasses.field(default_factory=lambda: {"base": "base", "big": "big"})
    peer_options: tuple = ()  # of PyTorch's trainings
    batch_tokens: int = 25344  # rows of a side; 198 x 128, so that no padding to 128 is needed
    options: tuple = ()  # of every training
    precisions: tuple = ("bf16", "f32")  # of the comparison of graphs with single launches
    few_steps: int = 12  # where digests are compared
    many_steps: int = 60  # where a run is killed
    save_every: int = 10
    profile_steps: int = 200
    log_every: int = 10
    seconds: float = 12.0  # of a measurement of training
    warmup_seconds: float = 5.0
    compile_seconds: float = 90.0
    gemm_size: int = 8192  # rows of the large product
    attention_min_seconds: float = 0.1
    attention_seconds: float = 50.0  # of all backends of PyTorch
    test_filter: str = "*"
    selftest: tuple = ("--preset", "base")
    device_tests: tuple = ("RealDevice",)
    ranks: tuple = (2, 4)
    multi30k: dict = dataclasses.field(default_factory=lambda: {"DEVICE": "cuda", "PRECISION": "bf16"})  # variables of the recipe
    multi30k_bleu: float = 39.72  # of the CPU, docs/results.md
    multi30k_tolerance: float = 1.0
    patience: float = 1.0  # by which the limits of stages are multiplied


# Emulated devices have the speed of a CPU divided by some hundred.
SMALL_MODEL = ["--encoder-layers", "1", "--decoder-layers", "1", "--d-model", "16", "--d-ff", "32", "--heads", "2"]
TRIAL = Sizes(
    peer_device="cpu",
    models={"base": SMALL_MODEL, "big": SMALL_MODEL},
    peer_presets={"base": "tiny", "big": "tiny"},
    # Threads of PyTorch wait for each other without sleeping: where cores are shared, two take ten times as long as one.
    peer_options=("--layers", "1", "--threads", "1"),
    batch_tokens=192,
    options=("--threads", "1", "--logical-shards", "2"),
    precisions=("bf16",),
    few_steps=3,
    many_steps=8,
    save_every=2,
    profile_steps=13,
    log_every=1,
    seconds=2.0,
    warmup_seconds=0.5,
    compile_seconds=400.0,  # a layer a side takes 70 s of processor time, and took 290 s on cores with much other work
    gemm_size=256,
    attention_min_seconds=0.01,
    attention_seconds=5.0,
    selftest=("--preset", "tiny", "--d-model", "16", "--d-ff", "32", "--heads", "2", "--rows", "64"),
    device_tests=("EmulatedDevice.test_the_version_tells_of_cuda",),
    test_filter="*CudaGolden*/post_norm_f32",
    ranks=(2,),
    multi30k={"DEVICE": "cpu", "PRECISION": "f32", "RANKS": "1", "MAX_STEPS": "1"},
    multi30k_bleu=0.0,
    patience=3.0,
)
