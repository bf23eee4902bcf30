# SPDX-License-Identifier: Apache-2.0
"""What the command-line tests share: running the program, and a small trained model."""

import importlib.util
import json
import os
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
    "--encoder-layers",
    "1",
    "--decoder-layers",
    "2",
    "--d-model",
    "32",
    "--d-ff",
    "64",
    "--heads",
    "2",
    "--batch-source-tokens",
    "512",
    "--batch-target-tokens",
    "512",
    "--warmup-steps",
    "20",
    "--valid-every",
    "0",
    "--log-every",
    "5",
    "--threads",
    "1",
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


def parameters(path):
    """All datasets below /model of a file, by name."""
    import h5py  # here, as tests on machines without it call the program alone

    found = {}
    with h5py.File(path, "r") as file:
        file["model"].visititems(
            lambda name, item: found.__setitem__(name, item[()]) if isinstance(item, h5py.Dataset) else None
        )
    return found


def checkpoint_bits(path):
    """All bits of a checkpoint, by dataset and attribute, but for the clock and the command."""
    import h5py
    import numpy

    found = {}
    with h5py.File(path, "r") as file:
        file.visititems(
            lambda name, item: found.__setitem__(name, item[()].tobytes())
            if isinstance(item, h5py.Dataset) and item.dtype.kind != "O"
            else None
        )
        for key, value in file.attrs.items():
            if key not in ("elapsed_seconds", "provenance"):
                found[key] = value if isinstance(value, str) else numpy.asarray(value).tobytes()
    return found


def check_profile(test, result, steps):
    """What a run with --profile --json printed."""
    table = result.stderr.decode()
    test.assertIn(f"Profile of {steps} step", table)
    for phase, has_rate in PHASES.items():
        test.assertRegex(table, f"\n{phase} +[0-9.]+ +[0-9.]+%{' +[0-9.]+ [GT]FLOP/s' if has_rate else ''}\n")
    for line in (r"other +", r"step +", r"MFU [0-9.]+%, of a product of two \d+ x \d+ matrices in f32 at "):
        test.assertRegex(table, "\n" + line)
    profile = json.loads(result.stdout)["profile"]
    test.assertEqual(profile["steps"], steps)
    test.assertEqual([row["phase"] for row in profile["phases"]], list(PHASES))
    test.assertEqual(["model_flops_per_second" in row for row in profile["phases"]], list(PHASES.values()))
    parts = sum(row["ms"] for row in profile["phases"]) + profile["other_ms"]
    test.assertAlmostEqual(parts, profile["step_ms"], delta=1e-3 * profile["step_ms"])
    flops = sum(row.get("model_flops_per_second", 0) * row["ms"] for row in profile["phases"])
    test.assertAlmostEqual(
        flops / (profile["model_flops_per_second"] * profile["step_ms"]), 1, delta=1e-6, msg=profile
    )
    test.assertAlmostEqual(
        profile["mfu"] * profile["product_flops_per_second"] / profile["model_flops_per_second"], 1, delta=1e-6
    )


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
        options = [
            "--allow-run-as-root",
            "--oversubscribe",
            "--bind-to",
            "none",
            "-x",
            f"ASAN_OPTIONS={sanitizer}",
        ]
        words = [MPIEXEC, *options, "-np", str(ranks), *words]
    return words


def golden_module(name):
    """A script of tests/golden, as a module."""
    spec = importlib.util.spec_from_file_location(name, os.path.join(GOLDEN_DIR, name + ".py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(*arguments, ranks=1, stdin=b"", cwd=None, timeout=240, binary=BINARY, variables=None):
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


def wait_for(condition, process, seconds=60):
    """Waits until the condition holds, the process has ended, or the time is over. Returns whether it holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        if process.poll() is not None or time.monotonic() > deadline:
            return condition()
        time.sleep(0.0005)
    return True


class CommandLineTest(unittest.TestCase):
    """A test class with a folder of its own, removed at the end."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="ventris-cli-")
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def write(self, name, content):
        """Writes bytes or text to a file of the folder and returns its path."""
        data = content if isinstance(content, bytes) else content.encode()
        with open(self.path(name), "wb") as file:
            file.write(data)
        return self.path(name)

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

    @classmethod
    def prepare_demo(cls, train_pairs=400, vocabulary=VOCABULARY, options=()):
        """A small corpus: demo/ and corpus.h5 in the folder, prepared with these further options. Returns the path of the
        corpus file."""
        demo = os.path.join(cls.folder, "demo")
        corpus = os.path.join(cls.folder, "corpus.h5")
        for arguments in (
            (
                "demo-corpus",
                "--output-dir",
                demo,
                "--train-pairs",
                train_pairs,
                "--valid-pairs",
                20,
                "--test-pairs",
                24,
            ),
            (
                "prepare",
                "--train-sets",
                f"{demo}/train.en",
                f"{demo}/train.de",
                "--valid-sets",
                f"{demo}/valid.en",
                f"{demo}/valid.de",
                "--vocab-size",
                vocabulary,
                "--threads",
                2,
                "--output",
                corpus,
                *options,
            ),
        ):
            result = run(*arguments)
            assert result.returncode == 0, result.stderr.decode(errors="replace")
        return corpus

    @classmethod
    def train_demo(cls, steps, vocabulary=VOCABULARY):
        """A small model in the folder, trained on the corpus of prepare_demo(). Returns its run folder."""
        model = os.path.join(cls.folder, "model")
        result = run(
            *("train", "--corpus", cls.prepare_demo(vocabulary=vocabulary), "--model-dir", model, *TINY_MODEL),
            *("--max-steps", steps, "--learning-rate-scale", 0.5)
        )
        assert result.returncode == 0, result.stderr.decode(errors="replace")
        return model

    def status(self, name):
        """What status.json of a run folder says; before it is written, that nothing is known."""
        try:
            with open(self.path(name, "status.json"), encoding="utf-8") as file:
                return json.load(file)
        except FileNotFoundError:
            return {"state": "", "last_checkpoint": "", "started": ""}

    def demo_path(self, name):
        return self.path("demo", name)

    def read(self, path):
        with open(path, "rb") as file:
            return file.read()
