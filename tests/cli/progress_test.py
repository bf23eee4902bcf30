# SPDX-License-Identifier: Apache-2.0
"""What train shows of its progress: the live line of a terminal, also behind mpirun, and lines of a log."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import unittest

import support

OPTIONS = [*support.TINY_MODEL[: support.TINY_MODEL.index("--valid-every")], "--threads", "1"]
LIVE = re.compile(rb"\r\x1b\[K" + rb"step \d+/\d+  ")


class Terminal:
    """A process whose standard error is a terminal."""

    def __init__(self, words, columns, term="xterm-256color"):
        self.reader, writer = pty.openpty()
        self.resize(columns)
        self.process = subprocess.Popen(
            words,
            stdout=subprocess.DEVNULL,
            stderr=writer,
            env=support.environment(TERM=term),
            start_new_session=True,
        )
        os.close(writer)
        self.text = b""

    def resize(self, columns):
        fcntl.ioctl(self.reader, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))

    def read(self):
        """Some more text; False at its end."""
        if not select.select([self.reader], [], [], 60)[0]:
            return False
        try:
            piece = os.read(self.reader, 1 << 16)
        except OSError:  # how the end of a terminal is told
            return False
        self.text += piece
        return bool(piece)

    def read_until(self, pattern, begin=0):
        """Until the text has the pattern behind `begin`. Returns whether it came."""
        while not re.search(pattern, self.text[begin:]):
            if not self.read():
                return False
        return True

    def end(self, stop=None):
        """Sends the signal, reads what is left, and returns the exit code."""
        if stop is not None and self.process.poll() is None:
            os.killpg(self.process.pid, stop)
        while self.read():
            pass
        os.close(self.reader)
        return self.process.wait(timeout=60)


class Progress(support.CommandLineTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.corpus = cls.prepare_demo()

    def train(self, name, *options, ranks=1):
        folders = ["--corpus", self.corpus, "--model-dir", self.path(name)]
        if "--valid-every" not in options:
            options = (*options, "--valid-every", 0)
        return support.command("train", *folders, *OPTIONS, *options, ranks=ranks)

    def log(self, name, *options):
        result = support.run(*self.train(name, *options)[1:])
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stderr.decode()

    def check_that_a_narrowed_terminal_is_followed(self, terminal):
        self.assertTrue(terminal.read_until(LIVE), terminal.text)
        terminal.resize(30)
        begin = len(terminal.text)
        self.assertTrue(terminal.read_until(rb"\r\x1b\[Kstep \d[^\r]{23}\r", begin), terminal.text)

    def test_a_terminal_has_a_live_line_that_follows_its_width(self):
        terminal = Terminal(self.train("terminal", "--max-steps", 1000000), columns=200)
        self.check_that_a_narrowed_terminal_is_followed(terminal)
        self.assertEqual(terminal.end(stop=signal.SIGTERM), 75, terminal.text)
        self.assertRegex(terminal.text.decode(), r"10 steps in [^:]*: at this rate the rest takes about ")
        self.assertRegex(terminal.text.decode(), r"stopped on request at step \d+")

    @unittest.skipUnless(support.MPIEXEC, "built without MPI")
    def test_so_does_a_terminal_behind_mpirun(self):
        terminal = Terminal(self.train("mpirun", "--max-steps", 1000000, ranks=2), columns=200)
        self.check_that_a_narrowed_terminal_is_followed(terminal)
        terminal.end(stop=signal.SIGKILL)

    def test_a_log_has_none_though_its_shell_has_a_terminal(self):
        log = self.path("log")
        words = self.train("shell", "--max-steps", 20, "--log-every", 5)
        terminal = Terminal(["sh", "-c", 'log=$1; shift; "$@" 2> "$log"; true', "sh", log, *words], columns=200)
        self.assertEqual(terminal.end(), 0)
        self.assertEqual(terminal.text, b"")
        text = self.read(log).decode()
        self.assertNotIn("\r", text)
        self.assertEqual(text.count("  step 20/20  epoch "), 1)

    def test_a_long_interval_has_lines_between(self):
        text = self.log("between", "--max-steps", 200, "--log-every", 1000, "--log-seconds", 0.01)
        steps = [int(step) for step in re.findall(r"  step (\d+)/200  epoch ", text)]
        self.assertGreater(len(steps), 1, text)
        self.assertEqual(steps, sorted(set(steps)))
        with open(self.path("between", "metrics.jsonl"), encoding="utf-8") as file:
            self.assertEqual(len(file.readlines()), 1)
        text = self.log("quiet", "--max-steps", 20, "--log-every", 1000, "--log-seconds", 0)
        self.assertEqual(re.findall(r"  step (\d+)/20  epoch ", text), ["20"])

    def test_a_long_step_and_a_long_validation_say_that_they_go_on(self):
        text = self.log("long", "--max-steps", 2, "--logical-shards", 8, "--log-seconds", 1e-6,
                        "--valid-every", 2, "--valid-beam-size", 1)  # fmt: skip
        self.assertIn("  step 1/2  micro-batch 4 of 8 of this rank\n", text)
        self.assertNotIn("micro-batch 8 of 8", text)
        self.assertIn("  step 2/2  validating\n", text)

    def test_a_terminal_without_a_cursor_has_lines(self):
        terminal = Terminal(self.train("dumb", "--max-steps", 20, "--log-every", 5), columns=200, term="dumb")
        self.assertEqual(terminal.end(), 0)
        self.assertNotIn(b"\x1b", terminal.text)
        self.assertEqual(len(re.findall(rb"  step \d+/20  epoch ", terminal.text)), 4)

    def test_the_loss_is_called_smoothed_where_it_is(self):
        words = ("--max-steps", 5, "--log-every", 5)
        self.assertRegex(self.log("smoothed", *words), r"epoch [0-9.]+  smoothed loss [0-9.]+  perplexity")
        plain = self.log("plain", *words, "--label-smoothing", 0)
        self.assertRegex(plain, r"epoch [0-9.]+  loss [0-9.]+  perplexity")


if __name__ == "__main__":
    unittest.main(verbosity=2)
