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
from job import Job, newest_step

SUPERVISE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "launch", "supervise.sh")
OPTIONS = (
    *("--encoder-layers", 2, "--decoder-layers", 2, "--d-model", 64, "--d-ff", 256, "--heads", 4),
    *("--batch-source-tokens", 8192, "--batch-target-tokens", 8192, "--logical-shards", 8, "--save-every", 2),
)
SHAPE = plans.Shape("mixed", 2, (*OPTIONS, "--max-steps", 1000000))
# (kind, share). flip: rank 0 is killed and the newest checkpoint damaged.
KINDS = (("kill", 8), ("kill-launcher", 3), ("stop", 3), ("signal", 3), ("full", 2), ("flip", 3))
DISK_BYTES = 256 << 20
FULL_SECONDS = 2.0
STOP_TIMEOUT = 4
POLL_SECONDS = 0.01
RESTART_SECONDS = 120
# Seconds after a fault in which the command may end; a later end is a failure.
END_SECONDS = 20


def find_launcher(surroundings):
    for process in surroundings.processes("mixed"):
        try:
            with open(f"/proc/{process}/comm", encoding="utf-8") as file:
                if file.read().strip() in ("mpirun", "orterun"):
                    return process
        except OSError:
            pass
    return None


class Mixed:
    """The training: how far it came, and what was done to it."""

    def __init__(self, campaign, seed, folder):
        self.campaign, self.folder = campaign, folder
        self.rng = random.Random(f"mixed {seed}")
        train = campaign.words(SHAPE, SHAPE.ranks, folder, seed, STOP_TIMEOUT)
        self.job = campaign.start_words([SUPERVISE, "--back-off", "0.25", "--max-restarts", "20", "--", *train], "mixed", folder)
        self.furthest = 0
        self.useful = 0.0  # seconds in which it computed steps for the first time
        self.first_time = self.last_time = None  # of a new step
        self.fault_time = None  # of one that it has not recovered from
        self.last_fault_time = -END_SECONDS
        self.told, self.rest = open(self.job.log_path, encoding="utf-8", errors="replace"), ""

    def look(self):
        """Reads what is new in its log and in what supervise.sh told."""
        now = time.monotonic()
        *lines, self.rest = (self.rest + self.told.read()).split("\n")
        ends = [line for line in lines if re.search(r"supervise: .*; restart \d+ of \d+ in ", line)]
        if ends and now - self.last_fault_time > END_SECONDS:
            raise Failure(f"the command has ended without a fault: {ends[0]}")
        if self.job.process.poll() is not None:
            raise Failure(f"supervise.sh has ended with {self.job.process.returncode}")
        step = newest_step(self.job.metrics.path)
        if step > self.furthest:
            self.first_time = self.first_time or now
            if self.fault_time is not None:
                self.campaign.recoveries.append(now - self.fault_time)
                self.fault_time = None
            elif self.last_time is not None:
                self.useful += now - self.last_time
            self.furthest, self.last_time = step, now
        elif self.fault_time is not None and now - self.fault_time > RESTART_SECONDS:
            raise Failure(f"no new step {RESTART_SECONDS} s after a fault: {self.campaign.stacks('mixed')}")

    def inject(self):
        names, shares = zip(*KINDS)
        kind = self.rng.choices(names, shares)[0]
        rank = 0 if kind == "flip" else self.rng.randrange(SHAPE.ranks)
        target = find_launcher(self.campaign.surroundings) if kind in ("kill-launcher", "signal") else self.job.rank_process(rank)
        if target is None:
            return
        self.fault_time = self.last_fault_time = time.monotonic()
        if kind == "full":
            faults.fill(self.folder, self.job, SHAPE.ranks)
            time.sleep(FULL_SECONDS)
            faults.give_space(self.folder)
        else:
            os.kill(target, {"stop": signal.SIGSTOP, "signal": signal.SIGUSR1}.get(kind, signal.SIGKILL))
        damaged = {}
        if kind == "flip":
            step, path = oracle.checkpoints(self.folder)[-1]
            damaged = {"step": step, "offset": faults.flip(path, self.rng.random(), self.rng.randint(1, 255))}
        self.campaign.count(kind)
        self.campaign.event("fault", kind=kind, rank=rank, at_step=self.furthest, **damaged)

    def disturb(self, minutes, every):
        begin = time.monotonic()
        due = begin + self.rng.uniform(0.5, 1.5) * every
        # A stop in the start after a fault would leave lines of steps after the last checkpoint for the next start.
        while (now := time.monotonic()) < begin + 60 * minutes or self.fault_time is not None:
            self.look()
            if now >= due and self.fault_time is None and len(oracle.checkpoints(self.folder)) >= 2:
                due = now + self.rng.uniform(0.5, 1.5) * every
                self.inject()
            time.sleep(POLL_SECONDS)
        total = time.monotonic() - self.first_time
        self.campaign.event("useful", minutes=round(total / 60, 2), steps=self.furthest, share=round(self.useful / total, 4))
        print(f"chaos: {total / 60:.1f} minutes, {self.furthest} steps, {100 * self.useful / total:.1f} % of the time useful", flush=True)


def go(campaign, seed, minutes, every):
    """Executes the plan; the results are in the campaign's log."""
    folder = campaign.surroundings.path("mixed")
    campaign.surroundings.small_disk(folder, DISK_BYTES)
    mixed = Mixed(campaign, seed, folder)
    mixed.disturb(minutes, every)
    os.kill(mixed.job.process.pid, signal.SIGUSR1)
    if not mixed.job.ended(RESTART_SECONDS) or mixed.job.process.returncode != 75:
        raise Failure(f"supervise.sh ended with {mixed.job.process.returncode} on SIGUSR1: {campaign.stacks('mixed')}")
    if crash := faults.CRASHES.search(Job.read(mixed.job.log_path)):
        raise Failure(f"the output has '{crash[0]}'")
    step, path = oracle.checkpoints(folder)[-1]
    shape = plans.Shape("quiet-mixed", SHAPE.ranks, (*OPTIONS, "--max-steps", step, "--save-every", 0))
    steps, digest, _ = campaign.reference(plans.Run(0, shape, [], seed))
    found = oracle.logged_steps(folder, whole=True)
    if problem := oracle.differing_step(found, steps, whole=True):
        raise Failure(problem)
    if missing := sorted(steps.keys() - found.keys()):
        raise Failure(f"metrics.jsonl lacks steps {missing}")
    if oracle.state_digest(path) != digest:
        raise Failure(f"{path} differs from that of the quiet run")
    if left := re.findall(r"\S+\.tmp\.\d+", " ".join(os.listdir(folder))):
        raise Failure(f"{left} remain in the run folder")
    campaign.event("equal", step=step, digest=digest)
