# SPDX-License-Identifier: Apache-2.0
"""What the command-line tests share: running the program, and a small trained model."""

import contextlib
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

BINARY = os.environ["VENTRIS_BINARY"]
# The same program on an emulated CUDA device (tests/emulation), where it was built.
EMULATED = os.environ.get("VENTRIS_EMULATED", "")
SOURCE_DIR = os.environ["VENTRIS_SOURCE_DIR"]
MPIEXEC = os.environ.get("VENTRIS_MPIEXEC", "")
SUPERVISE = os.path.join(SOURCE_DIR, "launch", "supervise.sh")
GOLDEN_DIR = os.path.join(SOURCE_DIR, "tests", "golden")

# ASAN_OPTIONS of several ranks: what the MPI library leaves at their end is no leak of ours.
SANITIZER = "detect_leaks=0"
# The same for ranks that are to be killed by signals which a sanitizer would take for faults of the program.
SANITIZER_OF_THE_KILLED = f"{SANITIZER}:handle_segv=0:handle_sigbus=0"

# A model and batches so small that a step takes milliseconds.
TINY_MODEL = [
    *("--encoder-layers", "1", "--decoder-layers", "2", "--d-model", "32", "--d-ff", "64", "--heads", "2"),
    *("--batch-source-tokens", "512", "--batch-target-tokens", "512", "--warmup-steps", "20"),
    *("--valid-every", "0", "--log-every", "5", "--threads", "1"),
]
# Steps of a millisecond, also on an emulated device.
TINIEST_MODEL = [
    *("--encoder-layers", "1", "--decoder-layers", "1", "--d-model", "16", "--d-ff", "32", "--heads", "2"),
    *("--batch-source-tokens", "192", "--batch-target-tokens", "192", "--logical-shards", "2", "--warmup-steps", "20"),
    *("--valid-every", "0", "--log-every", "1", "--threads", "1"),
]
VOCABULARY = 300

# Phases of train --profile, and whether they have a rate.
PHASES = {
    "batch to the device": False,
    "encoder forward": True,
    "decoder forward": True,
    "output layer and loss": True,
    "decoder backward": True,
    "encoder backward": True,
    "waiting for gradient sums": False,
    "gradient norm": False,
    "Adam": False,
    "zeroing gradients": False,
}


def datasets(path, *groups):
    """All datasets below these groups of a file, by name."""
    import h5py  # here, as tests on machines without it call the program alone

    found = {}
    with h5py.File(path, "r") as file:
        for group in groups:
            file[group].visititems(
                lambda name, item: found.__setitem__(name, item[()]) if isinstance(item, h5py.Dataset) else None
            )
    return found


def parameters(path):
    return datasets(path, "model")


def checkpoint_bits(path):
    """All bits of a checkpoint, by dataset and attribute, but for the clock and the command."""
    import h5py
    import numpy

    arrays = {name: numpy.asarray(value) for name, value in datasets(path, "/").items()}
    found = {name: array.tobytes() for name, array in arrays.items() if array.dtype.kind != "O"}
    with h5py.File(path, "r") as file:
        for key, value in file.attrs.items():
            if key not in ("elapsed_seconds", "provenance"):
                found[key] = value if isinstance(value, str) else numpy.asarray(value).tobytes()
    return found


def later_win(*words):
    """The words of options of which the last of each name counts."""
    found = {}
    for word in words:
        if isinstance(word, str) and word.startswith("--"):
            found[word] = []
            name = word
        else:
            found[name].append(word)
    return [word for name, values in found.items() for word in (name, *values)]


def check_profile(test, result, steps):
    """What a run with --profile --json printed."""
    table = result.stderr.decode()
    test.assertIn(f"Profile of {steps} step", table)
    test.assertRegex(table, r"\nMFU [0-9.]+%, of a product of two \d+ x \d+ matrices in f32 at ")
    profile = json.loads(result.stdout)["profile"]
    test.assertEqual(profile["steps"], steps)
    test.assertEqual([row["phase"] for row in profile["phases"]], list(PHASES))
    test.assertEqual(["model_flops_per_second" in row for row in profile["phases"]], list(PHASES.values()))
    parts = sum(row["ms"] for row in profile["phases"]) + profile["other_ms"]
    test.assertAlmostEqual(parts, profile["step_ms"], delta=1e-3 * profile["step_ms"])
    flops = sum(row.get("model_flops_per_second", 0) * row["ms"] for row in profile["phases"])
    test.assertAlmostEqual(flops / (profile["model_flops_per_second"] * profile["step_ms"]), 1, delta=1e-6, msg=profile)


def environment(**variables):
    """The environment of the tests without the traces of a launcher that may have started them, without the GPUs of the
    machine, and with these variables."""
    hidden = ("OMPI_", "PMIX_", "PMI_", "SLURM_")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(hidden)}
    return {**kept, "CUDA_VISIBLE_DEVICES": "-1", **{key: str(value) for key, value in variables.items()}}


def command(*arguments, ranks=1, binary=BINARY, sanitizer=SANITIZER):
    """The words of a command line. Strings, numbers and paths alike. `sanitizer`: ASAN_OPTIONS of several ranks."""
    words = [binary, *map(str, arguments)]
    if ranks > 1:
        options = ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-x", f"ASAN_OPTIONS={sanitizer}"]
        words = [MPIEXEC, *options, "-np", str(ranks), *words]
    return words


def golden_module(name):
    """A script of tests/golden, as a module."""
    spec = importlib.util.spec_from_file_location(name, os.path.join(GOLDEN_DIR, name + ".py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(*arguments, ranks=1, stdin=b"", cwd=None, timeout=600, binary=BINARY, variables=None):
    """Runs the program to its end and returns what subprocess.run does, with bytes."""
    return subprocess.run(
        command(*arguments, ranks=ranks, binary=binary),
        input=stdin,
        capture_output=True,
        cwd=cwd,
        env=environment(**(variables or {})),
        timeout=timeout,
        check=False,
    )


def start(words, hangup=signal.SIG_DFL, **variables):
    """Starts a command line with these variables and what it is to do at SIGHUP, and with the default action for SIGINT,
    whatever the tests were started with. The standard error is to be read from it."""
    return subprocess.Popen(
        words,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=environment(**variables),
        preexec_fn=lambda: (signal.signal(signal.SIGHUP, hangup), signal.signal(signal.SIGINT, signal.SIG_DFL)),
    )


def stop(process):
    """Stops a process. On return all of its threads stand still, which kill() alone does not promise."""
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED)


def wait_for(condition, process, seconds=600):
    """Waits until the condition holds, the process has ended, or the time is over. Returns whether it holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        if process.poll() is not None or time.monotonic() > deadline:
            return condition()
        time.sleep(0.0005)
    return True


def children_of(process):
    """The ids of the processes that one, or an mpirun, has started; of an mpirun by rank. None of one that has ended."""
    found = []
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for task in os.listdir(f"/proc/{process}/task"):
            with open(f"/proc/{process}/task/{task}/children", encoding="ascii") as file:
                found += map(int, file.read().split())
    return found


def is_running(process):
    try:
        with open(f"/proc/{process}/stat", encoding="ascii") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


class CommandLineTest(unittest.TestCase):
    """A test class with a folder of its own, removed at the end."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="ventris-cli-")
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)

    @classmethod
    def path(cls, *parts):
        return os.path.join(cls.folder, *parts)

    @classmethod
    def write(cls, name, content):
        """Writes bytes or text to a file of the folder and returns its path."""
        data = content if isinstance(content, bytes) else content.encode()
        with open(cls.path(name), "wb") as file:
            file.write(data)
        return cls.path(name)

    def program_on_hosts(self, host, binary=BINARY):
        """The path of the program with ranks on several hosts, as far as it knows: `host` is the number of that of $rank, in
        the arithmetic of the shell."""
        rank = "rank=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}"
        path = self.write("on_hosts.sh", f'#!/bin/sh\n{rank}\nexport NCCL_HOSTID=$(({host}))\nexec "{binary}" "$@"\n')
        os.chmod(path, 0o700)
        return path

    def succeed(self, *arguments, **options):
        """Runs the program, expects exit code 0, and returns the standard output."""
        result = run(*arguments, **options)
        self.assertEqual(result.returncode, 0, f"{arguments}: {result.stderr.decode(errors='replace')}")
        return result.stdout

    def refuse(self, code, *arguments, says=(), **options):
        """Runs the program, expects this exit code, no result, and an error that says all of `says`."""
        result = run(*arguments, **options)
        message = result.stderr.decode(errors="replace")
        self.assertEqual(result.returncode, code, f"{arguments}: {message}")
        self.assertEqual(result.stdout, b"")
        self.assertIn("error: ", message)
        for words in [says] if isinstance(says, str) else says:
            self.assertIn(words, message)
        return message

    def wait_for(self, condition, process, seconds=600):
        """Waits until the condition holds; where it does not come to that, fails with what the process said."""
        if not wait_for(condition, process, seconds):
            process.kill()
            self.fail(process.communicate()[1].decode(errors="replace"))

    def end_of(self, process, code=None, timeout=600):
        """What a process said that has ended, with this exit code."""
        try:
            text = process.communicate(timeout=timeout)[1].decode(errors="replace")
        except subprocess.TimeoutExpired:
            process.kill()
            self.fail(process.communicate()[1].decode(errors="replace"))
        if code is not None:
            self.assertEqual(process.returncode, code, text)
        return text

    @classmethod
    def made(cls, *arguments, **options):
        """Runs a command that makes what all tests of the class use, and returns its standard output."""
        result = run(*arguments, **options)
        assert result.returncode == 0, f"{arguments}: {result.stderr.decode(errors='replace')}"
        return result.stdout

    @classmethod
    def prepare_demo(cls, train_pairs=400, vocabulary=VOCABULARY, options=()):
        """A small corpus: demo/ and corpus.h5 in the folder, prepared with these further options. Returns the path of the
        corpus file."""
        demo = os.path.join(cls.folder, "demo")
        corpus = os.path.join(cls.folder, "corpus.h5")
        sizes = ("--train-pairs", train_pairs, "--valid-pairs", 20, "--test-pairs", 24)
        cls.made("demo-corpus", "--output-dir", demo, *sizes)
        sets = ("--train-sets", f"{demo}/train.en", f"{demo}/train.de", "--valid-sets", f"{demo}/valid.en", f"{demo}/valid.de")
        cls.made("prepare", *sets, "--vocab-size", vocabulary, "--threads", 2, "--output", corpus, *options)
        return corpus

    @classmethod
    def train_demo(cls, steps, vocabulary=VOCABULARY):
        """A small model in the folder, trained on the corpus of prepare_demo(). Returns its run folder."""
        model = os.path.join(cls.folder, "model")
        words = ("--corpus", cls.prepare_demo(vocabulary=vocabulary), "--model-dir", model, *TINY_MODEL)
        cls.made("train", *words, "--max-steps", steps, "--learning-rate-scale", 0.5)
        return model

    def status(self, name):
        """What status.json of a run folder says; before it is written, that nothing is known."""
        try:
            with open(self.path(name, "status.json"), encoding="utf-8") as file:
                return json.load(file)
        except FileNotFoundError:
            return {"state": "", "last_checkpoint": "", "started": ""}

    @classmethod
    def demo_path(cls, name):
        return cls.path("demo", name)

    @classmethod
    def read(cls, path):
        with open(path, "rb") as file:
            return file.read()


class RunTest(CommandLineTest):
    """Runs of a tiny model on a small corpus."""

    MODEL = TINY_MODEL
    CORPUS = {}  # what prepare_demo() takes

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.corpus = cls.prepare_demo(**cls.CORPUS)

    @classmethod
    def train(cls, name, *options, **settings):
        """The words of a run in the folder `name`; options, and settings such as max_steps=2, take the place of those of the
        model."""
        more = [word for key, value in settings.items() for word in ("--" + key.replace("_", "-"), value)]
        folders = ("--corpus", cls.corpus, "--model-dir", cls.path(name))
        return ["train", *later_win(*folders, *cls.MODEL, *options, *more)]

    def told(self, *words, code=0, **options):
        """Runs the program, expects this exit code, and returns the standard error."""
        result = run(*words, **options)
        self.assertEqual(result.returncode, code, result.stderr.decode(errors="replace"))
        return result.stderr.decode(errors="replace")

    @classmethod
    def checkpoint(cls, name, step):
        return cls.path(name, f"checkpoint-{step:08d}.h5")

    @classmethod
    def checkpoints(cls, name):
        """The names of the checkpoints of a run, in order of steps."""
        files = os.listdir(cls.path(name)) if os.path.isdir(cls.path(name)) else []
        return sorted(file for file in files if re.fullmatch(r"checkpoint-\d+\.h5", file))

    @classmethod
    def lines(cls, name):
        """The whole lines of metrics.jsonl."""
        if not os.path.exists(cls.path(name, "metrics.jsonl")):
            return []
        return [json.loads(line) for line in cls.read(cls.path(name, "metrics.jsonl")).splitlines(keepends=True) if line.endswith(b"\n")]

    def values(self, name, key):
        """The values of a key of metrics.jsonl, by step."""
        return {line["step"]: line[key] for line in self.lines(name) if key in line}

    def digests(self, name):
        return self.values(name, "digest")

    def assert_same_checkpoints(self, one, other, step, read=checkpoint_bits):
        """Those of two runs hold the same bits, as far as `read` gives them."""
        got, expected = (read(self.checkpoint(name, step)) for name in (one, other))
        self.assertEqual(got.keys(), expected.keys())
        for key, value in expected.items():
            same = got[key] == value
            self.assertTrue(same if isinstance(same, bool) else same.all(), f"{one}, {other}: {key}")

    def assert_same_parameters(self, one, other, step):
        self.assert_same_checkpoints(one, other, step, parameters)
