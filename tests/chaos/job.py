# SPDX-License-Identifier: Apache-2.0
"""One start of a training job: its command line, its ranks, its log, and its end."""

import json
import os
import re
import subprocess
import time

# Short against the milliseconds of a step.
POLL_SECONDS = 0.002
HIDDEN = ("OMPI_", "PMIX_", "PMI_", "SLURM_")


TAIL_BYTES = 1 << 16  # more than a line


def newest_step(path):
    """The step of the last whole line of a log; 0 without one."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL_BYTES))
            return json.loads(file.read().split(b"\n")[-2])["step"]
    except (OSError, IndexError, ValueError):
        return 0


class Metrics:
    """metrics.jsonl in this start. The program cuts the file and reports the start in it after loading its checkpoint: until
    then nothing changes it, as the earlier start has ended."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "metrics.jsonl")
        self.before = self.identity()

    def identity(self):
        try:
            status = os.stat(self.path)
            return status.st_ino, status.st_mtime_ns, status.st_size
        except OSError:
            return None

    def step(self):
        """The last step in the log, which may be that of the checkpoint; None before it is loaded."""
        return None if self.identity() in (None, self.before) else newest_step(self.path)


class Job:
    """A running training job. `environment` marks its processes; see Surroundings."""

    def __init__(self, words, folder, log, environment, cwd):
        kept = {key: value for key, value in os.environ.items() if not key.startswith(HIDDEN)}
        self.metrics = Metrics(folder)
        self.log_path = log
        self.begin = time.monotonic()
        with open(log, "wb") as stream:
            # The job ends with the campaign, even if that is killed.
            self.process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *words],
                stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT,
                env={**kept, **environment}, cwd=cwd, start_new_session=True)  # fmt: skip

    def wait(self, condition, seconds):
        """Waits until the condition holds (True), the job has ended (False), or the time is up (None)."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if condition():
                return True
            if self.process.poll() is not None:
                return False
            time.sleep(POLL_SECONDS)
        return None

    def ended(self, seconds):
        """Waits for the end; False on a timeout."""
        try:
            self.process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def find_rank(self, rank, candidates):
        """The process of a rank among the candidates, or None if there is none yet."""
        for process in candidates:
            try:
                with open(f"/proc/{process}/environ", "rb") as file:
                    words = file.read().split(b"\0")
                with open(f"/proc/{process}/comm", encoding="utf-8") as file:
                    command = file.read().strip()
            except OSError:
                continue
            if command.startswith("ventris") and f"OMPI_COMM_WORLD_RANK={rank}".encode() in words:
                return process
        return None

    def text(self):
        return self.read(self.log_path)

    @staticmethod
    def read(path):
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()


def errors_in(text):
    """The error messages of the program in the output of a job."""
    return re.findall(r"^.*ventris train: error: .*$", text, re.MULTILINE)
