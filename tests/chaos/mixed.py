# SPDX-License-Identifier: Apache-2.0
"""One long training under launch/supervise.sh, with a fault about every half minute, until the time is up. The result
must be that of a quiet run of the same number of steps."""

import os
import random
import re
import signal
import time

import faults
import oracle
import plans
from faults import Failure
from job import Job, Metrics

SUPERVISE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "launch", "supervise.sh")
SHAPE = plans.Shape("mixed", 2, (
    *("--encoder-layers", 2, "--decoder-layers", 2, "--d-model", 64, "--d-ff", 256, "--heads", 4),
    *("--batch-source-tokens", 8192, "--batch-target-tokens", 8192, "--logical-shards", 8),
    *("--save-every", 2, "--max-steps", 1000000),
))  # fmt: skip
# (kind, share). flip: rank 0 is killed and the newest checkpoint damaged.
KINDS = (("kill", 8), ("kill-launcher", 3), ("stop", 3), ("signal", 3), ("full", 2), ("flip", 3))
DISK_BYTES = 256 << 20
FULL_SECONDS = 2.0
STOP_TIMEOUT = 4
POLL_SECONDS = 0.01
RESTART_SECONDS = 120
# Seconds after a fault in which the command may end; a later end is a failure.
END_SECONDS = 20
# The quiet run advances in parallel, in pieces of at least this number of steps, so that it is complete when the faults
# end. It is paused while the other run recovers, so that it does not slow down the recovery.
PIECE_STEPS = 200
PIECE_SECONDS = 3600
QUIET_TIMEOUT = 300


class Progress:
    """The use of the time: useful is the time in which the run computed steps for the first time."""

    def __init__(self, folder):
        self.folder = folder
        self.metrics = Metrics(folder)
        self.furthest = 0
        self.last_time = None
        self.useful = 0.0
        self.fault_time = None
        self.recoveries = []
        self.first_step_time = None

    def look(self):
        """Reads new lines of the log."""
        if self.metrics.file is not None and self.metrics.identity() != os.fstat(self.metrics.file.fileno()).st_ino:
            self.metrics.close()
            self.metrics = Metrics(self.folder)
            self.metrics.before = None
            self.last_time = None
        step = self.metrics.step() or 0
        if step <= self.furthest:
            return
        now = time.monotonic()
        self.first_step_time = self.first_step_time or now
        if self.last_time is not None:
            self.useful += now - self.last_time
        if self.fault_time is not None:
            self.recoveries.append(now - self.fault_time)
            self.fault_time = None
        self.furthest, self.last_time = step, now

    def fault(self):
        self.fault_time, self.last_time = time.monotonic(), None

    def tell(self, campaign):
        if self.first_step_time is None:
            return
        total = time.monotonic() - self.first_step_time
        campaign.recoveries = self.recoveries
        campaign.event("useful", minutes=round(total / 60, 2), steps=self.furthest,
                       share=round(self.useful / total, 4))  # fmt: skip
        print(f"chaos: {total / 60:.1f} minutes, {self.furthest} steps, "
              f"{100 * self.useful / total:.1f} % of the time useful", flush=True)  # fmt: skip


class Quiet:
    """The run without faults, up to the step of the one with faults."""

    def __init__(self, campaign, seed):
        self.campaign = campaign
        self.seed = seed
        self.folder = campaign.surroundings.path("quiet-mixed")
        self.job = None
        self.step = 0
        self.reached = 0
        self.stopped = []

    def start(self, step):
        shape = plans.Shape("quiet-mixed", SHAPE.ranks, (*SHAPE.options, "--max-steps", step, "--save-every", 0))
        run = plans.Run(0, shape, [], self.seed)
        self.step, self.job = step, self.campaign.start(
            run, "quiet-mixed", self.folder, SHAPE.ranks, QUIET_TIMEOUT)  # fmt: skip

    def finish(self):
        code = self.campaign.finish_start("quiet-mixed", self.job, None, SHAPE.ranks, PIECE_SECONDS)
        self.campaign.event("quiet", step=self.step, code=code)
        self.reached, self.job = self.step, None

    def stand_still(self, still):
        """Stops its processes, or continues them."""
        if still and self.job is not None and not self.stopped:
            self.stopped = self.campaign.surroundings.processes("quiet-mixed")
            self.tell(signal.SIGSTOP)
        elif not still and self.stopped:
            self.tell(signal.SIGCONT)
            self.stopped = []

    def tell(self, number):
        for process in self.stopped:
            try:
                os.kill(process, number)
            except ProcessLookupError:
                pass

    def go_on(self, furthest):
        """Starts the next piece if the previous one has ended. Does not wait."""
        if self.stopped:
            return
        if self.job is not None and self.job.process.poll() is not None:
            self.finish()
        if self.job is None and furthest >= self.reached + PIECE_STEPS:
            self.start(furthest)

    def go_to(self, step):
        """Continues to the step, and returns the steps of the log and the digest of the checkpoint."""
        if self.job is not None:
            self.finish()
        if self.reached < step:
            self.start(step)
            self.finish()
        path = oracle.checkpoints(self.folder)[-1][1]
        return oracle.logged_steps(self.folder, whole=True), oracle.state_digest(path)


class Ends:
    """The ends of the command that launch/supervise.sh has reported."""

    def __init__(self, log):
        self.stream = open(log, encoding="utf-8", errors="replace")
        self.rest = ""
        self.fault_time = None

    def look(self):
        *lines, self.rest = (self.rest + self.stream.read()).split("\n")
        for line in lines:
            if not re.search(r"supervise: .*; restart \d+ of \d+ in ", line):
                continue
            if self.fault_time is None or time.monotonic() - self.fault_time > END_SECONDS:
                raise Failure(f"the command has ended without a fault: {line}")


def find_launcher(surroundings):
    for process in surroundings.processes("mixed"):
        try:
            with open(f"/proc/{process}/comm", encoding="utf-8") as file:
                if file.read().strip() in ("mpirun", "orterun"):
                    return process
        except OSError:
            pass
    return None


def go(campaign, seed, minutes, every):
    """Executes the plan; the results are in the campaign's log."""
    rng = random.Random(f"mixed {seed}")
    folder = campaign.surroundings.path("mixed")
    campaign.surroundings.small_disk(folder, DISK_BYTES)
    train = campaign.words(SHAPE, SHAPE.ranks, folder, seed, STOP_TIMEOUT)
    words = [SUPERVISE, "--back-off", "0.25", "--max-restarts", "20", "--", *train]
    job = campaign.start_words(words, "mixed", folder)
    log = campaign.last_log
    ends = Ends(log)
    progress = Progress(folder)
    quiet = Quiet(campaign, seed)
    try:
        disturb(campaign, rng, job, ends, progress, quiet, minutes, every)
    finally:
        progress.tell(campaign)
    os.kill(job.process.pid, signal.SIGUSR1)
    if not job.ended(RESTART_SECONDS) or job.process.returncode != 75:
        raise Failure(f"supervise.sh ended with {job.process.returncode} on SIGUSR1: {campaign.stacks('mixed')}")
    check(campaign, log, quiet, folder)


def disturb(campaign, rng, job, ends, progress, quiet, minutes, every):
    """Injects the faults, while the quiet run follows."""
    begin = time.monotonic()
    due = begin + rng.uniform(0.5, 1.5) * every
    # A stop in the start after a fault would leave lines of steps after the last checkpoint for the next start.
    while (now := time.monotonic()) < begin + 60 * minutes or progress.fault_time is not None:
        progress.look()
        ends.look()
        quiet.stand_still(progress.fault_time is not None)
        quiet.go_on(progress.furthest)
        if job.process.poll() is not None:
            raise Failure(f"supervise.sh has ended with {job.process.returncode}")
        if progress.fault_time is not None and now - progress.fault_time > RESTART_SECONDS:
            raise Failure(f"no new step {RESTART_SECONDS} s after a fault: {campaign.stacks('mixed')}")
        if now >= due and progress.fault_time is None and len(oracle.checkpoints(progress.folder)) >= 2:
            due = now + rng.uniform(0.5, 1.5) * every
            inject(campaign, rng, job, progress.folder, progress)
            ends.fault_time = time.monotonic()
        time.sleep(POLL_SECONDS)
    quiet.stand_still(False)


def inject(campaign, rng, job, folder, progress):
    names, shares = zip(*KINDS)
    kind = rng.choices(names, shares)[0]
    rank = 0 if kind == "flip" else rng.randrange(SHAPE.ranks)
    target = find_launcher(campaign.surroundings) if kind in ("kill-launcher", "signal") else job.rank_process(rank)
    if target is None:
        return
    progress.fault()
    if kind in ("kill", "flip", "kill-launcher"):
        os.kill(target, signal.SIGKILL)
    elif kind == "stop":
        os.kill(target, signal.SIGSTOP)
    elif kind == "signal":
        os.kill(target, signal.SIGUSR1)
    else:
        faults.fill(folder, job, SHAPE.ranks)
        time.sleep(FULL_SECONDS)
        faults.give_space(folder)
    damaged = {}
    if kind == "flip":
        step, path = oracle.checkpoints(folder)[-1]
        damaged = {"step": step, "offset": faults.flip(path, rng.random(), rng.randint(1, 255))}
    campaign.count(kind)
    campaign.event("fault", kind=kind, rank=rank, at_step=progress.furthest, **damaged)


def check(campaign, log, quiet, folder):
    """Compares the run with the quiet one of the same number of steps."""
    if crash := faults.CRASHES.search(Job.read(log)):
        raise Failure(f"the output has '{crash[0]}'")
    step, path = oracle.checkpoints(folder)[-1]
    digest, found = oracle.state_digest(path), oracle.logged_steps(folder, whole=True)
    steps, expected = quiet.go_to(step)
    if problem := oracle.differing_step(found, steps, whole=True):
        raise Failure(problem)
    if missing := sorted(steps.keys() - found.keys()):
        raise Failure(f"metrics.jsonl lacks steps {missing}")
    if digest != expected:
        raise Failure(f"{path} differs from that of the quiet run")
    if left := re.findall(r"\S+\.tmp\.\d+", " ".join(os.listdir(folder))):
        raise Failure(f"{left} remain in the run folder")
    campaign.event("equal", step=step, digest=digest)
