"""How long the stages of first_hour.py may take.

A limit is the sum of the limits of its parts, where these have limits of their own, and else three times what the amounts of work are
predicted to take, but half a minute at least. The amounts are those of sizes.py, of the programs, or counted on emulated devices. Seconds
marked "assumed" nobody has measured on a GPU: hence the three. Those marked "measured" are of an H100 (docs/results.md, "CUDA"). measured.json has the
seconds of each stage, with which they can be corrected.
"""
import math

MARGIN = 3
LEAST = 30

START = 2.0  # assumed: a process until its first kernel: driver, machine code of all kernels, memory
TORCH = 12.0  # assumed: import of PyTorch, its context, the first step
STEP = {"base": 0.0277, "big": 0.0708}  # measured
# Two thirds of a step are products, which have a fifteenth of the rate in f32 without TF32 (data sheet of the H200: 67 and 989 TFLOP/s).
F32_STEP = STEP["base"] * (1 / 3 + 2 / 3 * 989 / 67)
LAUNCHES = 354  # of a step of base, by the same table
ALONE = 10e-6  # assumed: a launch by the host, without a graph
# 32 candidates, each run 8 times (backend/gemm_plans_cuda.cu), of 20 shapes; the mean product of a step takes 14.1 ms / 186.
TUNING = 32 * 8 * 20 * 14.1e-3 / 186
SAVE = 3.0  # measured: a checkpoint of base, 12 bytes a parameter (docs/formats.md), written and read again
DIGEST = 0.3  # measured: of the parameters of base, copied to the host and hashed there
NCCL = 3.0  # assumed: a communicator between processes
TESTS = 2.5  # measured
# Tests of operations under compute-sanitizer, half of what they took beside seven other programs: 117, more than 115, and 57 s.
SANITIZED = {"memcheck": 60.0, "racecheck": 80.0, "initcheck": 30.0}
TOOL = 30.0  # assumed: start of a program under ncu
PROGRAM_RUNS = 52  # processes of tests/cli/device_test.py, counted on emulated devices
SELFTEST = 17.0  # measured
NCU_LAUNCH = 0.03  # assumed: a launch that ncu measures in one pass
NCU_DETAILS = 1.0  # assumed: one in all sections, in about forty passes
NCU_SHAPES = 40  # of the ten costliest kernels
TINY_STEP = 1.5e-3  # assumed: 4 + 4 layers of width 128, some 250 kernels of at most 6 us
TINY_VALIDATION = 2.0  # assumed: 200 sentences with a beam of 4, in some 50 tokens of some 150 kernels each


def of_peer(sizes, compiled):
    """Seconds for one model in PyTorch. One that hangs in its compiler must not use up the time of the other."""
    return MARGIN * TORCH + sizes.warmup_seconds + sizes.seconds + (sizes.compile_seconds if compiled else 0)


def of_attention(sizes):
    """Seconds for our attention, and for PyTorch's."""
    return 60.0, sizes.attention_seconds + 30.0


PRODUCT = 60.0  # the large product of PyTorch


def run(steps, step, saves=1, digests=True):
    """Predicted seconds of `ventris train`."""
    return START + TUNING + steps * (step + (DIGEST if digests else 0.0)) + saves * SAVE


def predict(sizes):
    """Seconds of the stages whose parts have no limits of their own."""
    base, few, saves = STEP["base"], sizes.few_steps, sizes.many_steps // sizes.save_every
    per_rank_count = [run(few, ranks * base) + ranks * NCCL for ranks in sizes.ranks]
    return {
        "libraries": 4 * START + TORCH,
        "tests": START + TESTS,
        "selftest": START + SELFTEST,
        **SANITIZED,
        "program": PROGRAM_RUNS * START,
        "graph": 2 * run(few, base) + 2 * run(few, F32_STEP),
        # Whole; killed after two saves; the rest of it.
        "resume": run(sizes.many_steps, base, saves) + run(2 * sizes.save_every, base, 2) + run(sizes.many_steps, base, saves),
        "steps": len(sizes.models) * (run(0, 0.0) + sizes.warmup_seconds + sizes.seconds),
        "profile": run(sizes.profile_steps, base + LAUNCHES * ALONE, digests=False),
        # Plain, with the time of each launch, with details.
        "kernels": 3 * run(3, base, digests=False) + 2 * TOOL + 3 * LAUNCHES * NCU_LAUNCH + NCU_SHAPES * NCU_DETAILS,
        # Fast and reproducible, with a graph and without.
        "ranks": run(few, base) + 4 * sum(per_rank_count),
        # launch/recipes/multi30k.sh: 8,000 steps, a validation each 500, prepare, the average, the test set.
        "multi30k": run(8000, TINY_STEP, digests=False) + 16 * TINY_VALIDATION + 10 + 3 * START + 5 * TINY_VALIDATION,
    }


def limits(sizes):
    """Seconds by stage."""
    found = {stage: max(LEAST, 5 * math.ceil(MARGIN * seconds / 5)) for stage, seconds in predict(sizes).items()}
    models = len(sizes.peer_presets)
    found["attention"] = round(sum(of_attention(sizes)))
    found["pytorch"] = round(PRODUCT + models * of_peer(sizes, False))
    found["compile"] = round(models * of_peer(sizes, True))
    return found
