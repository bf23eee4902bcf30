# SPDX-License-Identifier: Apache-2.0
"""How long the stages of lease.py may take, and how long they are predicted to take.

The limits of a call fit into its budget, so that each stage of it has its time whatever becomes of the others. Predictions are sums of what
the last lease measured ("measured": an H100, docs/results.md, "CUDA") and of what nobody has measured yet ("assumed"); measured.json has the
seconds of each stage, with which both can be corrected.
"""
BUDGETS = {"A": 380, "B": 300}
LIMITS = {
    "card": 12, "tests": 30, "steps": 50, "digests": 30, "ranks": 65, "kernels": 75, "memcheck": 65, "variants": 50,
    "eager": 50, "packed": 140, "attention": 25, "racecheck": 85,
    "multi30k": 120,  # at least: all that is left
}  # fmt: skip

START = 2.0  # assumed: a process until its first kernel: driver, machine code of all kernels, memory
TORCH = 12.0  # assumed: import of PyTorch, its context, the first step
STEP = {"base": 0.0277, "big": 0.0708}  # measured
# 8 candidates, as many as cuBLASLt offers (measured), each run 8 times (backend/gemm_plans_cuda.cu), of 20 shapes; the mean product of a
# step of base takes 14.2 ms / 186 (measured).
TUNING = 8 * 8 * 20 * 14.2e-3 / 186
SAVE = 3.0  # measured: a checkpoint of base, 12 bytes a parameter (docs/formats.md), written and read again
SMALL_RUN = START + 0.5  # assumed: some hundred steps of tiny with few rows, saved
NCCL = 3.0  # assumed: a communicator between processes
TESTS = 2.5  # measured
MEMCHECK = 60.0  # measured: 117 s beside seven other programs, assumed to be half of it alone
RACECHECK = 50.0  # assumed: all shapes took more than 115 s beside seven other programs; the small ones are 169 of 297 tests
LIBRARIES = 2.0  # assumed: looking through folders, nvidia-smi
PRODUCTS = 2.0  # assumed: 25 products of a step and their memory
TOOL = 10.0  # assumed: start of a program under ncu
NCU_LAUNCH = 0.02  # assumed: a launch that ncu measures in one pass
LAUNCHES = 343  # measured: of a step
LATE = 5.0  # seconds of --comm-timeout (checks.py)
COMPILE = 45.0  # assumed: two layers, the embedding and the loss
ATTENTION_CASES = 12
MULTI30K = 113.0  # measured: beside seven other programs


def predict(sizes):
    """Seconds by stage."""
    timed = lambda seconds: START + TUNING + sizes.warmup_seconds + seconds
    brief = START + TUNING + sizes.brief_warmup_seconds + sizes.brief_seconds
    of_base = START + TUNING + sizes.few_steps * STEP["base"] + SAVE
    peers = len(sizes.peer_presets)
    return {
        "card": LIBRARIES + 2 * START + PRODUCTS,
        "tests": START + TESTS,
        "steps": len(sizes.models) * timed(sizes.seconds) + brief,
        # With a graph and without, of base and in f32; a run, one that is killed, and its rest.
        "digests": 2 * of_base + 5 * SMALL_RUN,
        # Two ranks of base; one rank, four kinds of runs, of which two at a time; two that lose a rank.
        "ranks": of_base + NCCL + SMALL_RUN + 4 * (SMALL_RUN + NCCL) + 2 * (START + NCCL) + LATE + 2,
        "kernels": len(sizes.models) * (START + TOOL + 2.5 * LAUNCHES * NCU_LAUNCH),
        "memcheck": START + MEMCHECK,
        "variants": sizes.variants * 2 * brief,
        "eager": peers * (TORCH + sizes.peer_warmup_seconds + sizes.peer_seconds),
        "packed": peers * (TORCH + 2 * (1 + sizes.packed_seconds)) + peers * COMPILE,
        "attention": START + ATTENTION_CASES * 11 * sizes.attention_min_seconds + TORCH + ATTENTION_CASES * 0.1,
        "racecheck": START + RACECHECK,
        "multi30k": MULTI30K,
    }
