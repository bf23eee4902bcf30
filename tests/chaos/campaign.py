# SPDX-License-Identifier: Apache-2.0
"""Executes the runs of a plan and compares each with the quiet run of its shape."""

import dataclasses
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import time

import faults
import oracle
import plans
from faults import Failure
from job import Job

# Time limits for the start of a job, from one fault to the next, and for its end: a guard against hanging, long enough
# for a loaded machine under a sanitizer. The job itself gives up a stopped rank after STOP_TIMEOUT.
START_SECONDS = 60
END_SECONDS = 60
QUIET_SECONDS = 3600
STOP_TIMEOUT = 6  # 2 s were too short to start two ranks on cores with seven other tests
LAUNCHER_SECONDS = 20
# Time in which the ranks end after their launcher has ended.
ORPHAN_SECONDS = 30
# A small disk: large enough for a run, small enough to be filled quickly.
DISK_BYTES = 16 << 20

MODEL = {
    **{"--encoder-layers": 1, "--decoder-layers": 1, "--d-model": 32, "--d-ff": 64, "--heads": 2},
    **{"--batch-source-tokens": 1536, "--batch-target-tokens": 1536, "--logical-shards": 12},
    **{"--warmup-steps": 20, "--dropout": 0.3, "--threads": 1, "--log-every": 1, "--valid-every": 0},
    **{"--max-steps": plans.STEPS, "--save-every": plans.SAVE_EVERY, "--keep-checkpoints": 4},
}


class Campaign:
    """`binary` and `mpiexec` are paths; `log` a stream of JSON lines."""

    def __init__(self, surroundings, binary, mpiexec, log):
        self.surroundings = surroundings
        self.binary = binary
        self.mpiexec = mpiexec
        self.log = log
        self.begin = time.monotonic()
        self.references = {}  # by shape and seed: (steps, digest, best)
        self.counts = {}
        self.failures = []
        self.recoveries = []
        self.last_log = None
        self.corpus = self.prepare()

    # Log and tools

    def event(self, name, **values):
        values = {"event": name, "seconds": round(time.monotonic() - self.begin, 3), **values}
        self.log.write(json.dumps(values) + "\n")
        self.log.flush()

    def count(self, name):
        self.counts[name] = self.counts.get(name, 0) + 1

    def output(self, *words):
        result = subprocess.run([self.binary, *words], check=False, capture_output=True, text=True)
        if result.returncode != 0:
            raise Failure(f"ventris {words[0]} ended with {result.returncode}: {result.stderr}")
        return result.stdout

    def prepare(self):
        demo = self.surroundings.path("demo")
        corpus = self.surroundings.path("corpus.h5")
        sizes = ("--train-pairs", "500", "--valid-pairs", "8", "--test-pairs", "8")
        self.output("demo-corpus", "--output-dir", demo, *sizes)
        words = ["prepare"]
        for name, lines in (("clean", slice(0, 200)), ("bt", slice(200, 500))):
            words += ["--train-set", name]
            for side in ("en", "de"):
                with open(f"{demo}/train.{side}", encoding="utf-8") as file:
                    part = file.readlines()[lines]
                words.append(f"{demo}/{name}.{side}")
                with open(words[-1], "w", encoding="utf-8") as file:
                    file.writelines(part)
        words += ["--valid-sets", f"{demo}/valid.en", f"{demo}/valid.de", "--vocab-size", "120", "--threads", "1"]
        self.output(*words, "--output", corpus)
        return corpus

    def words(self, shape, ranks, folder, seed, timeout):
        """The command line of a start."""
        settings = {**MODEL, "--seed": seed, "--comm-timeout": timeout, "--digest-every": 1}
        settings |= dict(zip(shape.options[::2], shape.options[1::2]))
        if shape.stages:
            settings["--mix"] = self.surroundings.path(f"{shape.name}.txt")
            with open(settings["--mix"], "w", encoding="utf-8") as file:
                file.write(shape.stages)
        words = [self.binary, "train", "--corpus", self.corpus, "--model-dir", folder]
        words += [str(word) for pair in settings.items() for word in pair]
        if ranks == 1:
            return words
        mpi = ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
        mpi += ["-x", "ASAN_OPTIONS=detect_leaks=0:disable_coredump=0"]
        return [self.mpiexec, *mpi, "-np", str(ranks), *words]

    # One start

    def start(self, run, name, folder, ranks, timeout=START_SECONDS):
        return self.start_words(self.words(run.shape, ranks, folder, run.seed, timeout), name, folder)

    def start_words(self, words, name, folder):
        room = self.surroundings.path(f"{name}-room")
        shared = os.path.join(self.surroundings.shared_memory, name)
        os.makedirs(room, exist_ok=True)
        os.makedirs(shared, exist_ok=True)
        environment = {
            "VENTRIS_CHAOS": f"{self.surroundings.token}/{name}",
            # Leftovers of MPI and cores must be found.
            "TMPDIR": room,
            "OMPI_MCA_btl_vader_backing_directory": shared,
        }
        log = self.surroundings.path(f"{name}.log")
        self.last_log = log
        job = Job(words, folder, log, environment, room)
        job.rank_process = lambda rank: job.find_rank(rank, self.surroundings.processes(name))
        return job

    def finish_start(self, name, job, fault, ranks, seconds=END_SECONDS):
        """Waits for the end of the job, and checks it and that nothing remains. Returns the exit code."""
        if not self.ended(name, job, fault, seconds):
            raise Failure(f"the job has not ended within {seconds} s: {self.stacks(name)}")
        code = job.process.returncode
        deadline = time.monotonic() + ORPHAN_SECONDS
        while left := self.surroundings.processes(name):
            if time.monotonic() > deadline:
                raise Failure(f"processes {left} of the job still run {ORPHAN_SECONDS} s after its end")
            time.sleep(0.01)
        self.surroundings.reap({job.process.pid})
        text = job.text()
        room = self.surroundings.path(f"{name}-room")
        if cores := glob.glob(os.path.join(room, "core*")):
            raise Failure(f"a core was left: {cores}")
        faults.check_end(fault, code, text, ranks)
        shared = os.path.join(self.surroundings.shared_memory, name)
        if os.listdir(shared) and fault is None:
            raise Failure(f"shared memory remains: {os.listdir(shared)}")
        for folder in (shared, room):
            shutil.rmtree(folder, ignore_errors=True)
        return code

    def ended(self, name, job, fault, seconds):
        """Waits for the end of the job. If a rank is killed while it connects to mpirun of Open MPI 4.1, mpirun may deadlock
        at its end, when all its ranks are gone; then it is killed and counted."""
        if fault is None or fault.kind != "kill" or fault.step is not None:
            return job.ended(seconds)
        if job.ended(LAUNCHER_SECONDS):
            return True
        if self.surroundings.processes(name) != [job.process.pid]:
            return job.ended(END_SECONDS)
        self.count("hung-launcher")
        self.event("hung-launcher", stacks=self.stacks(name))
        job.process.kill()
        return job.ended(END_SECONDS)

    def stacks(self, name):
        """The stacks of the processes of a job that hangs."""
        gdb = ("gdb", "-batch", "-ex", "thread apply all bt 12", "-p")
        processes = self.surroundings.processes(name)
        if not shutil.which("gdb"):
            return f"processes {processes}"
        return "\n".join(subprocess.run([*gdb, str(process)], check=False, capture_output=True, text=True).stdout for process in processes)

    # Checks of a run folder

    def reference(self, run):
        key = (run.shape.name, run.seed)
        if key not in self.references:
            name = f"quiet-{run.shape.name}-{run.seed}"
            folder = self.surroundings.path(name)
            job = self.start(run, name, folder, run.shape.ranks)
            code = self.finish_start(name, job, None, run.shape.ranks, QUIET_SECONDS)
            steps = oracle.logged_steps(folder, whole=True)
            path = oracle.checkpoints(folder)[-1][1]
            self.references[key] = (steps, oracle.state_digest(path), self.best(folder))
            self.event("quiet", shape=run.shape.name, code=code, steps=len(steps),
                       digest=self.references[key][1], took=round(time.monotonic() - job.begin, 3))  # fmt: skip
            shutil.rmtree(folder)
        return self.references[key]

    @staticmethod
    def best(folder):
        path = os.path.join(folder, "best.json")
        if not os.path.exists(path):
            return None
        with open(path, encoding="utf-8") as file:
            return json.load(file)

    def check_log(self, folder, steps, whole, changed):
        try:
            found = oracle.logged_steps(folder, whole)
        except ValueError as error:
            raise Failure(str(error)) from error
        if problem := oracle.differing_step(found, steps, whole, changed):
            raise Failure(problem)
        return found

    def check_last_step(self, folder, run, changed):
        steps, digest, best = self.reference(run)
        found = self.check_log(folder, steps, whole=True, changed=changed)
        if missing := sorted(steps.keys() - found.keys()):
            raise Failure(f"metrics.jsonl lacks steps {missing}")
        last_step, path = oracle.checkpoints(folder)[-1]
        if last_step != plans.STEPS:
            raise Failure(f"the last checkpoint is {path}, not that of step {plans.STEPS}")
        if changed is None and oracle.state_digest(path) != digest:
            raise Failure(f"{path} differs from that of the quiet run")
        if self.best(folder) != best:
            raise Failure(f"best.json is {self.best(folder)}, that of the quiet run {best}")
        if unknown := oracle.unknown_files(folder):
            raise Failure(f"{unknown} remain in the run folder")

    # One run

    def go(self, run):
        """Executes a run. A failure is recorded, and the campaign continues with the next run."""
        name = f"run{run.number}"
        folder = self.surroundings.path(name)
        self.event("run", number=run.number, shape=run.shape.name, seed=run.seed,
                   faults=[dataclasses.asdict(fault) for fault in run.faults])  # fmt: skip

        def doings():
            self.reference(run)
            if any(fault.kind == "full" for fault in run.faults):
                self.surroundings.small_disk(folder, DISK_BYTES)
            self.go_through(run, name, folder)

        self.go_guarded(name, run.number, doings)
        if not os.path.ismount(folder):
            shutil.rmtree(folder, ignore_errors=True)

    def go_guarded(self, name, number, doings):
        """Calls `doings`. A failure is recorded, and the processes of the name are ended."""
        try:
            doings()
        except Failure as failure:
            text = Job.read(self.last_log)[-4000:] if self.last_log else ""
            self.surroundings.end_processes(self.surroundings.processes(name))
            folder = self.surroundings.path(name)
            files = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
            self.failures.append((number, str(failure)))
            self.event("failure", run=number, reason=str(failure), output=text, files=files)
            print(f"chaos: {name}: {failure}\n{text}", file=sys.stderr)

    def go_through(self, run, name, folder):
        pending = list(run.faults)
        flips = []
        expected = Expected(ranks=run.shape.ranks)
        while True:
            fault = pending.pop(0) if pending else None
            code = self.one_start(run, name, folder, fault, expected)
            if fault is not None and fault.flip_at is not None:
                flips.append(fault)
            if fault is not None and fault.ranks_after is not None:
                expected.ranks = fault.ranks_after
            # A run that was killed after its last step finds in one more start that no work is left.
            finished = code == 0 and oracle.checkpoints(folder)[-1][0] == plans.STEPS
            if flips and len(oracle.checkpoints(folder)) >= 2:
                self.flip_newest(run, folder, flips.pop(0), expected)
                finished = False
            if finished and not pending:
                break
            if fault is None and not flips and not finished and expected.damaged is None:
                raise Failure("the job ended before its last step without a fault")
        self.check_last_step(folder, run, expected.changed)
        self.event("equal" if expected.changed is None else "near", run=run.number)

    def flip_newest(self, run, folder, fault, expected):
        step, path = oracle.checkpoints(folder)[-1]
        offset = faults.flip(path, fault.flip_at, fault.flip_mask)
        expected.damaged = path
        self.count("flip")
        self.event("flip", run=run.number, step=step, offset=offset, mask=fault.flip_mask)

    def one_start(self, run, name, folder, fault, expected):
        """Starts the job, injects the fault, waits for the end and checks it. Returns the exit code."""
        sound = [item for item in oracle.checkpoints(folder) if item[1] != expected.damaged]
        newest = sound[-1] if sound else None
        # Only the timeout depends on the fault.
        timeout = STOP_TIMEOUT if fault is not None and fault.kind == "stop" else START_SECONDS
        job = self.start(run, name, folder, expected.ranks, timeout)
        done = None
        fault_time = None
        resumed = newest[0] if newest else 0
        if expected.ranks != run.shape.ranks and not run.shape.elastic and expected.changed is None:
            expected.changed = resumed

        def step():
            # The log stays as it is in a start that ends before it goes on, or has nothing left to do.
            return job.metrics.step() or resumed

        def goes_on():
            return step() > resumed

        if fault is not None:
            if fault.step is None:
                job.wait(lambda: time.monotonic() - job.begin >= fault.seconds, START_SECONDS)
            elif job.wait(goes_on, START_SECONDS) is None:
                raise Failure(f"the job has not completed a step within {START_SECONDS} s: {self.stacks(name)}")
            else:
                self.recovered(expected)
                if job.wait(lambda: step() >= fault.step, START_SECONDS) is None:
                    raise Failure(f"the job has not reached step {fault.step}: {self.stacks(name)}")
                time.sleep(fault.seconds)
            fault_time = time.monotonic()
            at = step()
            # No stop after the last step: the rank may be inside MPI_Finalize (docs/exit-codes.md).
            if fault.kind != "stop" or at < plans.STEPS:
                done = faults.inject(fault, job, expected.ranks, folder)
            if done is not None:
                self.count(fault.kind)
            self.event("fault", run=run.number, kind=fault.kind, rank=fault.rank, at_step=at, done=done)
        elif job.wait(goes_on, START_SECONDS) is None:
            raise Failure(f"the job has not completed a step within {START_SECONDS} s: {self.stacks(name)}")
        else:
            self.recovered(expected)
        code = self.finish_start(name, job, fault if done is not None else None, expected.ranks)
        if done is not None:
            expected.fault_time = expected.fault_time or fault_time
        faults.give_space(folder)
        self.event("end", run=run.number, code=code, took=round(time.monotonic() - job.begin, 3))
        text = job.text()
        self.check_resumed(text, newest, expected, code)
        steps = self.reference(run)[0]
        self.check_log(folder, steps, whole=False, changed=expected.changed)
        return code

    def recovered(self, expected):
        if expected.fault_time is not None:
            self.recoveries.append(time.monotonic() - expected.fault_time)
            expected.fault_time = None

    @staticmethod
    def check_resumed(text, newest, expected, code):
        """Checks that the start resumed from the newest sound checkpoint, and set a damaged one aside by name."""
        match = re.search(r"resuming from (\S+) at step (\d+)", text)
        if match is None:
            # It may have been killed before it reported that.
            if code == 0 and newest is not None and newest[0] < plans.STEPS:
                raise Failure(f"the job did not resume from {newest[1]}")
            # Nor does the next start report what this one has set aside. One of that name may be there from before.
            if code != 0 and expected.damaged is not None and not os.path.exists(expected.damaged):
                expected.damaged = None
            return
        if newest is None or match[1] != newest[1]:
            raise Failure(f"the job resumed from {match[1]}, not from {newest[1] if newest else 'the start'}")
        if expected.damaged is not None:
            if f"renamed to {expected.damaged}.damaged" not in text:
                raise Failure(f"the output does not report that {expected.damaged} is damaged")
            if not os.path.exists(expected.damaged + ".damaged"):
                raise Failure(f"{expected.damaged}.damaged does not exist")
            expected.damaged = None


@dataclasses.dataclass
class Expected:
    """What the next start of a run must recover from."""

    ranks: int
    damaged: str | None = None
    fault_time: float | None = None
    # The step at which another number of ranks resumed, if that changes bits.
    changed: int | None = None
