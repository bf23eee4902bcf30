# SPDX-License-Identifier: Apache-2.0
"""The unpacked archive of pack.sh, and a stage of lease.py that runs its programs."""
import glob
import json
import os
import re
import signal
import subprocess
import tempfile
import time

import libraries
import table

# What programs and scripts print where there is no device that works.
NO_DEVICE = re.compile(r"no CUDA device can be used|--device cuda: ")
# Of runs that compare bits: which algorithm of a product is the fastest is measured anew by each run.
UNTIMED = {"VENTRIS_TUNE_GEMM": "0"}
LINKERS = ("/lib64/ld-linux-x86-64.so.*", "/lib/ld-linux-aarch64.so.*")
DEVICE_TOOLS = ("/usr/local/cuda*/bin", "/usr/local/cuda*/compute-sanitizer", "/opt/nvidia/nsight-compute/*")


class NoDevice(Exception):
    """No CUDA device works; the message is the reason."""


class Kit:
    """Paths of the programs and files of the archive. `python` has PyTorch; `work` is a folder for files of the stages, `results` that of the
    result files."""

    def __init__(self, root, python, work, results, sizes):
        self.root, self.python, self.work, self.results, self.sizes = root, python, work, results, sizes
        self.ventris, self.tests, self.products_bench, self.mpirun = (
            os.path.join(root, "bin", name) for name in ("ventris", "cuda_tests", "products_bench", "mpirun"))
        self.source = os.path.join(root, "source")
        self.corpus, self.ids = (os.path.join(root, "corpus", name) for name in ("corpus.h5", "corpus.npz"))
        self.multi30k = os.path.join(root, "multi30k")
        with open(os.path.join(root, "kit.json"), encoding="utf-8") as file:
            self.facts = json.load(file)
        self.measured = {}
        self.reason_without_device = None

    def find_libraries(self):
        """Tells the programs in bin/ where the libraries of CUDA are. Returns the names of those that are nowhere, and a report."""
        found, folders, report = libraries.find_all(self.facts["cuda_libraries"], ["python3", self.python])
        with open(os.path.join(self.root, "cuda_path"), "w", encoding="utf-8") as file:
            file.write(":".join(folders))
        return [name for name, path in found.items() if path is None], report

    def without_device(self):
        """The reason why no device works, or an empty string. Starts a program at the first call."""
        if self.reason_without_device is None:
            finished = table.execute([self.tests, "--gtest_filter=none"], 60)
            self.reason_without_device = table.last_words(finished.errors) if finished.code == 77 else ""
        return self.reason_without_device

    def without_shell(self, words):
        """The words of a command of the kit, with the program of bin/ started by the dynamic linker: ncu sees no kernel of a program that a shell
        becomes, and with --target-processes all it ends the process that reads HDF5 files."""
        name = os.path.basename(words[0])
        with open(os.path.join(self.root, "cuda_path"), encoding="utf-8") as file:
            of_cuda = file.read()
        folders = [os.path.join(self.root, "libs"), os.environ.get("LD_LIBRARY_PATH", ""), of_cuda]
        linkers = [path for pattern in LINKERS for path in glob.glob(pattern)]
        if not linkers:
            raise table.Failed(f"no dynamic linker is at {' or '.join(LINKERS)}")
        return [linkers[0], "--library-path", ":".join(filter(None, folders)), os.path.join(self.root, "programs", name), *words[1:]]

    def result(self, name):
        """The path of a result file."""
        return os.path.join(self.results, name)

    def environment(self, **variables):
        return {**os.environ, **variables}


class Stage:
    """A stage while it runs: everything that it runs is written to its log and ended with it."""

    def __init__(self, kit, name, seconds, log):
        self.kit, self.name, self.log = kit, name, log
        self.begin = time.monotonic()
        self.end = self.begin + seconds
        self.messages = ""  # that all commands printed on the standard error

    def seconds(self):
        return time.monotonic() - self.begin

    def left(self):
        """Seconds. Raises table.Failed if there are none."""
        left = self.end - time.monotonic()
        if left <= 0:
            raise table.Failed(f"not finished after {self.end - self.begin:.0f} s")
        return left

    def path(self, *parts):
        """A path in the folder of the stage."""
        folder = os.path.join(self.kit.work, self.name)
        os.makedirs(folder, exist_ok=True)
        return os.path.join(folder, *parts)

    def note(self, text):
        self.log.write(text.rstrip() + "\n")
        self.log.flush()

    def observe(self, command, finished):
        self.note(f"$ {' '.join(map(str, command))}\n{finished.output}{finished.errors}" + (f"-> {finished.reason}\n" if finished.reason else ""))
        self.messages += finished.errors

    def says_no_device(self):
        return bool(NO_DEVICE.search(self.messages))

    def run(self, *command, most=None, codes=(0,), **variables):
        """Runs a command of strings and numbers within the time of the stage, and at most `most` seconds. Raises table.Failed if it ends with
        another exit code."""
        finished = self.attempt(*command, most=most, **variables)
        if finished.code not in codes:
            raise table.Failed(finished.reason)
        return finished

    def attempt(self, *command, most=None, **variables):
        """The same without raising."""
        seconds = self.left() if most is None else min(most, self.left())
        return table.execute([str(word) for word in command], seconds, self.kit.environment(**variables))

    def train(self, name, *options, steps, small=False, **training):
        """A run of `ventris train` with a digest of the last step, or of each `digest_every`. Returns its folder."""
        self.run(*self.training(name, *options, steps=steps, small=small, **{"digest_every": steps, **training}), **UNTIMED)
        return self.path(name)

    def training(self, name, *options, steps, small=False, preset="base", precision="bf16", save_every=0, digest_every=0):
        """The words of that command; the last step is always saved. `small`: of the small model in the place of a preset's."""
        sizes = self.kit.sizes
        model = sizes.small if small else ["--preset", preset, *sizes.models[preset]]
        rows = sizes.small_tokens if small else sizes.batch_tokens
        return [self.kit.ventris, "train", "--corpus", self.kit.corpus, "--model-dir", self.path(name), "--device", sizes.device, *model,
                "--precision", precision, "--batch-source-tokens", rows, "--batch-target-tokens", rows, "--max-steps", steps, "--valid-every", 0,
                "--save-every", save_every, "--log-every", sizes.log_every, "--digest-every", digest_every, *sizes.options, *options]


class Failures:
    """Collects the reasons of parts of a stage that failed; the others are still tried."""

    def __init__(self, stage):
        self.stage, self.reasons = stage, []

    def attempt(self, name, work):
        """The result of work(), or None."""
        try:
            self.stage.left()
            return work()
        except Exception as error:  # whatever it is, the other parts are tried
            reason = str(error) if isinstance(error, table.Failed) else f"{type(error).__name__}: {error}"
            self.reasons.append(f"{name}: {reason}")
            return None

    def raise_any(self):
        if self.reasons:
            raise table.Failed("; ".join(self.reasons))


class Background:
    """A process in a group of its own while a block runs, with all that it starts."""

    def __init__(self, stage, words, **variables):
        self.stage, self.words = stage, [str(word) for word in words]
        self.environment = stage.kit.environment(**variables)

    def __enter__(self):
        self.output = tempfile.TemporaryFile("w+", errors="replace")
        self.process = subprocess.Popen(self.words, stdout=self.output, stderr=self.output, env=self.environment, start_new_session=True)
        return self

    def __exit__(self, *_):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        self.stage.observe(self.words, table.Finished(self.process.returncode, "", self.said(), None))
        self.output.close()

    def said(self):
        self.output.seek(0)
        return self.output.read()

    def wait_for(self, condition):
        """Until the condition holds. Raises table.Failed if the process ends before, or the time of the stage."""
        while not condition():
            if self.process.poll() is not None and not condition():
                raise table.Failed(f"ended before its time, exit code {self.process.returncode}: {table.last_words(self.said())}")
            self.stage.left()
            time.sleep(0.005)

    def end(self, seconds):
        """The exit code. Raises table.Failed if there is none within these seconds."""
        try:
            return self.process.wait(min(seconds, self.stage.left()))
        except subprocess.TimeoutExpired as error:
            raise table.Failed(f"not ended after {error.timeout:.0f} s") from error

    def children(self):
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children", encoding="ascii") as file:
            return [int(child) for child in file.read().split()]


def metrics(folder, key):
    """The lines of metrics.jsonl of a run folder that have this key; none if there is no file yet. The last line may be incomplete."""
    found = []
    try:
        with open(os.path.join(folder, "metrics.jsonl"), encoding="utf-8") as file:
            for line in file:
                try:
                    found.append(json.loads(line))
                except ValueError:
                    break
    except FileNotFoundError:
        pass
    return [line for line in found if key in line]


def digests(folder):
    """{step: digest of all parameters} of a run folder; that of a run again counts."""
    return {line["step"]: line["digest"] for line in metrics(folder, "digest") if line["type"] == "digest"}


def require_equal(names, found):
    """Raises table.Failed at the first step at which two runs of the same steps have other digests."""
    first, second = found
    if not first or first.keys() != second.keys():
        raise table.Failed(f"{names[0]} has digests of {len(first)} steps, {names[1]} of {len(second)}")
    for step, digest in first.items():
        if second[step] != digest:
            raise table.Failed(f"{names[0]} and {names[1]} differ from step {step} on: digests {digest} and {second[step]}")
