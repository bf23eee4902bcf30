# SPDX-License-Identifier: Apache-2.0
"""The events of a campaign: a function of the plan's name, the seed and the number of faults, so that the same arguments
repeat the campaign."""

import dataclasses
import itertools
import random

# A run takes about a second without a fault: an epoch of the small corpus has about 15 steps.
STEPS = 100
SAVE_EVERY = 5
FIRST_FAULT_STEP = 8
LAST_FAULT_STEP = STEPS - 25


# A plan of train --mix, whose stages end among the faults: after steps, after an epoch, and after the validation of step 60.
STAGES = "clean 1 until 20 steps\nclean 1 bt 2 until bt 1\nclean 2 bt 1 until stalled 2\nbt 1\n"


@dataclasses.dataclass(frozen=True)
class Shape:
    """What the runs of one reference have in common."""

    name: str
    ranks: int
    options: tuple = ()
    # Whether the bits are the same on any number of ranks.
    elastic: bool = False
    # The plan of --mix.
    stages: str = ""

    def single(self):
        return self.ranks == 1


SHAPES = (
    Shape("two-f32", 2),
    Shape("four-bf16", 4, ("--precision", "bf16")),
    Shape("one-f32", 1),
    Shape("three-validated-stages", 3, ("--valid-every", "15"), stages=STAGES),
    Shape("two-bf16-average", 2, ("--precision", "bf16", "--ema", "0.9")),
    Shape("four-f32", 4),
    Shape("one-bf16-validated", 1, ("--precision", "bf16", "--valid-every", "15")),
)


@dataclasses.dataclass
class Fault:
    """One fault, at a moment of a start: `seconds` after a step is in the log, or after the start if no step is given.
    The kinds: kill (a rank), kill-launcher, stop (a rank), signal (to the launcher), full (the disk)."""

    kind: str
    step: int | None
    seconds: float
    rank: int = 0
    signal: str = ""
    # The number of ranks of the starts after it, if that changes.
    ranks_after: int | None = None
    # A flip of the newest checkpoint before the next start: the position in the file, and the bits to change.
    flip_at: float | None = None
    flip_mask: int = 0


# One reference for any number of ranks.
def elastic_shape(ranks, precision):
    options = ("--reduction", "reproducible", "--precision", precision)
    return Shape(f"elastic-{precision}", ranks, options, elastic=True)


def fast_shape(ranks):
    return Shape(f"fast-{ranks}", ranks, ("--reduction", "fast"))


@dataclasses.dataclass
class Run:
    """A training run from its start to its last step, through these faults."""

    number: int
    shape: Shape
    faults: list
    seed: int = 1


COUNTS = {
    "ci": {"kill": 20, "stop": 5, "signal": 5, "full": 3, "flip": 20},
    "half": {"kill": 10, "stop": 3, "signal": 3, "full": 2, "flip": 10},
    "kills": {"kill": 1000},
    "elastic": {"kill": 16},
}
FAULTS_OF_A_RUN = 5


def make_faults(counts, rng):
    """The faults in a random order, without their moments."""
    faults = []
    for _ in range(counts.get("kill", 0)):
        # A killed launcher ends its ranks, another way for a job to end.
        faults.append(Fault("kill-launcher" if rng.random() < 0.15 else "kill", None, 0.0))
    faults += [Fault("stop", None, 0.0) for _ in range(counts.get("stop", 0))]
    for index in range(counts.get("signal", 0)):
        faults.append(Fault("signal", None, 0.0, signal=("SIGUSR1", "SIGTERM")[index % 2]))
    faults += [Fault("full", None, 0.0) for _ in range(counts.get("full", 0))]
    rng.shuffle(faults)
    for fault in rng.sample(faults, counts.get("flip", 0)):
        fault.flip_at = rng.random()
        fault.flip_mask = rng.randint(1, 255)
    return faults


def place(faults, shape, rng, at_start=0.25):
    """Sets the moments of the faults of a run, one in each section of the run, and their ranks. `at_start`: the share of
    kills while MPI starts, the checkpoint is read, or the first steps run."""
    ranks = shape.ranks
    stretch = (LAST_FAULT_STEP - FIRST_FAULT_STEP) / len(faults)
    for index, fault in enumerate(faults):
        fault.step = FIRST_FAULT_STEP + int(stretch * (index + rng.random()))
        fault.seconds = rng.uniform(0.0, 0.03)
        fault.rank = rng.randrange(ranks)
        ranks = fault.ranks_after or ranks
        if fault.kind.startswith("kill") and rng.random() < at_start:
            fault.step, fault.seconds = None, rng.uniform(0.0, 1.0)


def elastic_runs(seed, rng):
    """Every pair of numbers of ranks: killed on the first, resumed on the second, and back after another kill; then the
    same with the fast reduction, killed once."""
    planned = []
    pairs = list(itertools.product((1, 2, 3, 4), repeat=2))
    for first, second in pairs:
        shape = elastic_shape(first, ("f32", "bf16")[rng.randrange(2)])
        some = [Fault("kill", None, 0.0, ranks_after=after) for after in (second, first)]
        place(some, shape, rng, at_start=0)  # there is a checkpoint to resume from
        planned.append(Run(len(planned), shape, some, seed))
    for first, second in pairs:
        some = [Fault("kill", None, 0.0, ranks_after=second)]
        place(some, fast_shape(first), rng, at_start=0)
        planned.append(Run(len(planned), fast_shape(first), some, seed))
    return planned


def runs(plan, seed, count=None):
    """The runs of a plan. `count` replaces the plan's number of kills or stops."""
    rng = random.Random(f"{plan} {seed}")
    if plan == "elastic":
        return elastic_runs(seed, rng)
    counts = dict(COUNTS[plan])
    if count is not None:
        counts = dict.fromkeys(counts, count)
    faults = make_faults(counts, rng)
    shapes = itertools.cycle(rng.sample(SHAPES, len(SHAPES)))
    planned = []
    for begin in range(0, len(faults), FAULTS_OF_A_RUN):
        some = faults[begin : begin + FAULTS_OF_A_RUN]
        shape = next(shapes)
        while shape.single() and any(fault.kind == "stop" for fault in some):
            shape = next(shapes)
        place(some, shape, rng)
        planned.append(Run(len(planned), shape, some, seed))
    return planned
