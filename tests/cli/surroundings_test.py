# SPDX-License-Identifier: Apache-2.0
"""The program in bad surroundings: closed streams, limits on files, outputs that are inputs, killed ranks."""

import fcntl
import json
import os
import pty
import re
import resource
import signal
import struct
import subprocess
import termios
import time
import unittest

import support


def run_with(prepare, *arguments):
    """Runs the program after calling `prepare` in its process; returns what subprocess.run does."""
    return subprocess.run(
        support.command(*arguments), stdin=subprocess.DEVNULL, capture_output=True, env=support.environment(),
        preexec_fn=prepare, timeout=240, check=False)  # fmt: skip


def limit_files_to(size):
    """For run_with: no file may grow past `size` bytes, as under `ulimit -f`."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


class Surroundings(support.CommandLineTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.corpus = cls.prepare_demo()

    def train(self, name, *options):
        folders = ["--corpus", self.corpus, "--model-dir", self.path(name)]
        return ["train", *folders, *support.TINY_MODEL, *options]

    def prepare(self, *options):
        text = [self.demo_path("train.en"), self.demo_path("train.de")]
        return ["prepare", "--train-sets", *text, "--vocab-size", support.VOCABULARY, *options]

    def test_messages_of_a_closed_stream_go_into_no_file(self):
        for name, streams in (("error", (2,)), ("all", (0, 1, 2))):
            result = run_with(lambda: [os.close(fd) for fd in streams], *self.train(name, "--max-steps", 10))  # noqa: B023
            self.assertEqual(result.returncode, 0)
            lines = self.read(self.path(name, "metrics.jsonl")).splitlines()
            self.assertEqual([json.loads(line)["step"] for line in lines], [5, 10])
            self.succeed("inspect", self.path(name, "checkpoint-00000010.h5"), "--verify")

    def test_an_output_that_nobody_reads_does_not_change_what_training_came_to(self):
        read_end, write_end = os.pipe()
        os.close(read_end)
        self.addCleanup(os.close, write_end)
        outputs = {"closed": (lambda: os.close(1), "Bad file descriptor"),
                   "unread": (lambda: os.dup2(write_end, 1), "was closed")}  # fmt: skip
        if os.path.exists("/dev/full"):
            outputs["full"] = (lambda: os.dup2(os.open("/dev/full", os.O_WRONLY), 1), "No space left")
        for name, (prepare, reason) in outputs.items():
            options = ["--json"] if name == "full" else []
            result = run_with(prepare, *self.train(name, "--max-steps", 10, *options))
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertRegex(result.stderr.decode(), f"Warning: the result could not be written.*{reason}")
            status = self.status(name)
            self.assertEqual((status["state"], status["exit_code"], status["retryable"]), ("done", 0, False))
            self.succeed("inspect", status["last_checkpoint"], "--verify")
        result = subprocess.run(
            support.command("--", support.BINARY, *self.train("supervised", "--max-steps", 10), binary=support.SUPERVISE),
            stdout=write_end, stderr=subprocess.PIPE, env=support.environment(), timeout=240, check=False)  # fmt: skip
        message = result.stderr.decode()
        self.assertEqual((result.returncode, message.count("supervise: started")), (0, 1), message)
        # The same of a run that is asked to stop.
        process = subprocess.Popen(
            support.command(*self.train("stopped", "--max-steps", 100000)), stdout=write_end,
            stderr=subprocess.PIPE, env=support.environment())  # fmt: skip
        support.wait_for(lambda: self.status("stopped")["state"] == "running", process)
        process.send_signal(signal.SIGUSR1)
        message = process.communicate(timeout=60)[1].decode()
        self.assertEqual(process.returncode, 75, message)
        self.assertIn("Warning: the result could not be written", message)
        self.assertEqual(self.status("stopped")["state"], "stopped")

    def test_closed_input(self):
        result = run_with(lambda: os.close(0), "bleu", "--reference", self.demo_path("test.de"))
        self.assertEqual(result.returncode, 74)
        self.assertIn(b"standard input", result.stderr)

    def test_a_limit_on_files_is_an_error_and_leaves_nothing(self):
        result = run_with(limit_files_to(20000), *self.prepare("--output", self.path("limited.h5")))
        self.assertEqual(result.returncode, 74, result.stderr)
        self.assertIn(b"File too large", result.stderr)
        result = run_with(limit_files_to(2000), "demo-corpus", "--output-dir", self.path("limited"))
        self.assertEqual(result.returncode, 74, result.stderr)
        self.assertFalse([name for name in os.listdir(self.folder) if name.startswith("limited.h5")])
        self.assertEqual(os.listdir(self.path("limited")), [])

    def test_a_checkpoint_that_cannot_be_written_leaves_those_before(self):
        self.succeed(*self.train("kept", "--max-steps", 4))
        before = self.read(self.path("kept", "checkpoint-00000004.h5"))
        result = run_with(limit_files_to(50000), *self.train("kept", "--max-steps", 8))
        self.assertEqual(result.returncode, 74, result.stderr)
        self.assertEqual(self.read(self.path("kept", "checkpoint-00000004.h5")), before)
        self.assertFalse([name for name in os.listdir(self.path("kept")) if ".tmp" in name])
        self.succeed(*self.train("kept", "--max-steps", 8))

    def test_what_is_read_is_not_written_over(self):
        text = self.demo_path("train.de")
        before = self.read(text)
        self.refuse(64, *self.prepare("--output", text), says=text)
        corpus = ["--output", self.path("o.h5")]
        self.refuse(64, *self.prepare(*corpus, "--dropped-report", text), says=text)
        self.refuse(64, *self.prepare(*corpus, "--dropped-report", self.path(".", "o.h5")), says="o.h5")
        self.assertEqual(self.read(text), before)

    def test_pipes_are_refused_instead_of_waited_for(self):
        os.mkfifo(self.path("pipe"))
        self.refuse(64, "prepare", "--train-sets", self.path("pipe"), self.demo_path("train.de"), "--output",
                    self.path("o.h5"), says=["twice", "pipe"])  # fmt: skip
        self.refuse(73, *self.prepare("--output", self.path("pipe")), says="pipe")

    def test_evaluate_looks_at_its_output_before_it_works(self):
        texts = ["--source", self.demo_path("test.en"), "--reference", self.demo_path("test.de")]
        start = ["evaluate", "--model", self.path("none"), *texts, "--output"]
        self.refuse(73, *start, self.folder, says="a folder")
        self.refuse(73, *start, self.path("nowhere", "out"), says="nowhere")

    def test_a_refused_run_leaves_the_description_of_the_one_it_found(self):
        self.succeed(*self.train("described", "--max-steps", 2))
        files = [self.path("described", name) for name in ("config.json", "command.txt", "metrics.jsonl")]
        before = [self.read(file) for file in files]
        self.refuse(78, *self.train("described", "--max-steps", 4, "--seed", 9), says="seed")
        self.refuse(78, *self.train("described", "--max-steps", 4, "--resume", "never"), says="--resume")
        self.assertEqual([self.read(file) for file in files], before)

    def test_the_live_line_fits_a_narrow_terminal(self):
        reader, writer = pty.openpty()
        fcntl.ioctl(writer, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        words = support.command(*self.train("narrow", "--max-steps", 20))
        process = subprocess.Popen(
            words, stdout=subprocess.DEVNULL, stderr=writer, env=support.environment(TERM="xterm-256color")
        )
        os.close(writer)
        text = b""
        try:
            while piece := os.read(reader, 1 << 16):
                text += piece
        except OSError:  # how the end of a terminal is told
            pass
        os.close(reader)
        self.assertEqual(process.wait(timeout=120), 0)
        lines = re.findall(r"\x1b\[K(step [^\r]*)", text.decode())
        self.assertTrue(any(line.startswith("step 20/20  loss ") for line in lines), text)
        self.assertLess(max(map(len, lines)), 80)

    @unittest.skipUnless(support.MPIEXEC, "built without MPI")
    def test_a_killed_rank_ends_the_job_and_leaves_the_checkpoint(self):
        words = support.command(*self.train("killed", "--max-steps", 1000000, "--save-every", 10), ranks=2)
        silence = subprocess.DEVNULL
        process = subprocess.Popen(words, stdout=silence, stderr=silence, env=support.environment())
        deadline = time.monotonic() + 120
        saved = self.path("killed", "checkpoint-00000010.h5")
        while not os.path.exists(saved) and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="ascii") as children:
            os.kill(int(children.read().split()[-1]), signal.SIGKILL)
        self.assertNotEqual(process.wait(timeout=120), 0)
        newest = max(name for name in os.listdir(self.path("killed")) if name.endswith(".h5"))
        self.succeed("inspect", self.path("killed", newest), "--verify")


if __name__ == "__main__":
    unittest.main(verbosity=2)
