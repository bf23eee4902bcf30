# SPDX-License-Identifier: Apache-2.0
"""Faults: how each is injected into a running job, and how the job may then end."""

import os
import re
import resource
import signal

import oracle
from job import errors_in

# A program that was killed by a signal has this code, as in a shell.
KILLED = 128 + signal.SIGKILL
RANK_SECONDS = 60
# Text that must never be in the output of a job.
CRASHES = re.compile(
    r"Segmentation fault|Process received signal|terminate called|AddressSanitizer|ThreadSanitizer|"
    r"runtime error:|internal error"
)


class Failure(Exception):
    """Something that a job must not do."""


def inject(fault, job, ranks, folder):
    """Injects the fault into the job, after waiting for its ranks. Returns None if the job had ended before."""
    launcher = job.process.pid
    target = launcher
    if fault.kind in ("kill", "stop") and ranks > 1:
        if job.wait(lambda: job.rank_process(fault.rank) is not None, RANK_SECONDS) is None:
            raise Failure(f"rank {fault.rank} did not start within {RANK_SECONDS} s")
        target = job.rank_process(fault.rank)
    if target is None or job.process.poll() is not None:
        return None
    try:
        if fault.kind in ("kill", "kill-launcher"):
            os.kill(target, signal.SIGKILL)
        elif fault.kind == "stop":
            os.kill(target, signal.SIGSTOP)
        elif fault.kind == "signal":
            os.kill(launcher, signal.Signals[fault.signal])
        elif fault.kind == "full":
            return fill(folder, job, ranks)
    except ProcessLookupError:
        return None
    return {"process": target}


def ballast(folder):
    return os.path.join(folder, "ballast")


def fill(folder, job, ranks):
    """Fills the run's disk. If it has no disk of its own, the size of files of rank 0 is limited to a part of a checkpoint
    instead."""
    if os.path.ismount(folder):
        written = 0
        with open(ballast(folder), "wb", buffering=0) as file:
            try:
                while True:
                    written += file.write(bytes(4096))
            except OSError:
                pass
        return {"ballast": written}
    process = job.rank_process(0) if ranks > 1 else job.process.pid
    if process is None:
        return None
    size = os.path.getsize(oracle.checkpoints(folder)[-1][1]) // 2 if oracle.checkpoints(folder) else 4096
    hard = resource.prlimit(process, resource.RLIMIT_FSIZE)[1]
    resource.prlimit(process, resource.RLIMIT_FSIZE, (size, hard))
    return {"file_size_limit": size}


def give_space(folder):
    if os.path.exists(ballast(folder)):
        os.unlink(ballast(folder))


def flip(path, place, mask):
    """Changes a byte of the file. Returns its offset."""
    offset = int(place * os.path.getsize(path))
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ mask]))
    return offset


def check_end(fault, code, text, ranks):
    """Checks that the job ended as the fault permits (docs/exit-codes.md). Raises Failure with the reason."""
    if crash := CRASHES.search(text):
        raise Failure(f"the output has '{crash[0]}'")
    errors = errors_in(text)
    if len(errors) > 1:
        raise Failure(f"{len(errors)} error messages instead of one")
    if code < 0:
        code = 128 - code
    kind = fault.kind if fault else "none"
    # A job that was already at its end may end with 0.
    allowed = {"none": {0}, "kill": {KILLED, 69, 0}, "kill-launcher": {KILLED, 0}, "stop": {69, 0},
               "signal": {75, 0}, "full": {74, 0}}[kind]  # fmt: skip
    if kind == "kill" and fault.step is None and ranks > 1:
        # A rank that reports the end while mpirun ends may first end by SIGPIPE.
        allowed |= {128 + signal.SIGPIPE}
    if kind == "signal" and fault.signal == "SIGTERM" and ranks > 1:
        # mpirun ends with 1 after SIGTERM, for any exit codes of its ranks; it kills those that take more than a second
        # to save, which loses no more than a kill at any other moment.
        allowed |= {1}
    if code not in allowed:
        raise Failure(f"exit code {code} after {kind}; expected one of {sorted(allowed)}")
    if code in (69, 74) and len(errors) != 1:
        raise Failure(f"exit code {code} without a message")
    if code == 69 and kind == "stop" and not re.search(rf"rank {fault.rank} on \S+ \(pid \d+.*\), which did not arrive", errors[0]):
        raise Failure(f"rank {fault.rank} was stopped, but the message does not name it: {errors[0]}")
    if code == 74 and not re.search(r"No space left on device|File too large", errors[0]):
        raise Failure(f"the message does not mention the space: {errors[0]}")
    if code == 75 and "stopped on request" not in text:
        raise Failure("exit code 75, but the output does not report a stop on request")
    if code == KILLED and kind == "kill" and ranks > 1 and fault.step is not None:
        if not re.search(rf"rank {fault.rank} .*exited on signal 9", text):
            raise Failure(f"rank {fault.rank} was killed, but the output does not name it")
