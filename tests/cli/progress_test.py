# SPDX-License-Identifier: Apache-2.0
"""What train and prepare show of their progress on a terminal: a live line."""

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

LIVE = re.compile(rb"\r\x1b\[K" + rb"step \d+/\d+  ")


class Terminal:
    """A process whose standard error is a terminal."""

    def __init__(self, words, term="xterm-256color"):
        self.reader, writer = pty.openpty()
        self.resize(200)
        environment = support.environment(TERM=term)
        self.process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=writer, env=environment, start_new_session=True)
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
        return self.process.wait(timeout=600)


class Progress(support.RunTest):
    def steps(self, text):
        return [int(step) for step in re.findall(r"  step (\d+)/\d+  epoch ", text)]

    def test_a_terminal_has_a_live_line_that_follows_its_width(self):
        terminal = Terminal(support.command(*self.train("terminal", max_steps=1000000)))
        self.assertTrue(terminal.read_until(LIVE), terminal.text)
        terminal.resize(30)
        self.assertTrue(terminal.read_until(rb"\r\x1b\[Kstep \d[^\r]{23}\r", len(terminal.text)), terminal.text)
        self.assertEqual(terminal.end(stop=signal.SIGTERM), 75, terminal.text)

    def test_an_error_of_prepare_replaces_the_live_line(self):
        sets = ("--train-sets", self.demo_path("train.en"), self.demo_path("train.de"))
        terminal = Terminal(support.command("prepare", *sets, "--vocab-size", 900000, "--output", self.path("none.h5")))
        self.assertEqual(terminal.end(), 78, terminal.text)
        self.assertRegex(terminal.text, rb"\r\x1b\[Ktraining the tokenizer  [^\r\n]*\r\x1b\[Kventris prepare: error: a vocabulary of 900000")


if __name__ == "__main__":
    unittest.main(verbosity=2)
