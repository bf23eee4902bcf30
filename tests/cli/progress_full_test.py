# SPDX-License-Identifier: Apache-2.0
"""train --progress full: the picture at the end of a terminal, in a pseudoterminal and in tmux."""

import fcntl
import json
import os
import pty
import re
import select
import shlex
import shutil
import signal
import struct
import subprocess
import tempfile
import termios
import time
import unittest

import support

OPTIONS = [*support.TINY_MODEL[: support.TINY_MODEL.index("--valid-every")], "--threads", "1"]
SCORES = ["--valid-beam-size", "1", "--valid-max-sentences", "4"]
ENDLESS = ["--max-steps", "1000000"]
LOG = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  \S|  [a-z]+ +\S|Computing on ")  # a message, or a row of the table at the start
# Rows of the picture, by how they begin.
PICTURE = re.compile(
    r"step \d+/|(smoothed )?loss \d|no loss yet|lr \d|\d+ (target )?tokens|\d+: |\d+ ranks?( |$)|validation  |validated at|no validation|no best|best "
    r"| *\d+ +\d\.\d{4} |.* (elapsed|left$)|memory | *loss \d+ +\d+$| *([\d.e+]+ )?[⠁-⣿ ]+$"
)
RESULT = re.compile(r"Next: |Stopped on request|trained at |best valid ")  # what comes after the end
VALIDATION = re.compile(r"step (\d+)  validation: smoothed loss [0-9.]+  perplexity \S+  BLEU [0-9.]+ \([0-9.]+ to [0-9.]+\)(  best so far)?  \(\d+ s\)$")


def environment(**variables):
    """Of a terminal with colours and UTF-8, unless the variables say otherwise."""
    kept = support.environment(TERM="xterm-256color", LC_ALL="C.UTF-8")
    for name in ("NO_COLOR", "TMUX", "XTERM_VERSION"):
        kept.pop(name, None)
    return {**kept, **variables}


class Screen:
    """The rows of a terminal that is wide enough for all of them, as they are after some bytes."""

    def __init__(self):
        self.rows, self.row, self.column = [[]], 0, 0

    def feed(self, text):
        for code, argument, what, character in re.findall(r"(\x1b\[([0-9]*)([A-Za-z]))|(.)", text, re.DOTALL):
            if code:
                self.control(int(argument or 1), what)
            elif character == "\n":
                self.row += 1
                if self.row == len(self.rows):
                    self.rows.append([])
            elif character == "\r":
                self.column = 0
            else:
                row = self.rows[self.row]
                row.extend(" " * (self.column + 1 - len(row)))
                row[self.column] = character
                self.column += 1
        return self

    def control(self, number, what):
        if what == "A":
            assert number <= self.row, "above the first row"
            self.row -= number
        elif what in "JK":
            del self.rows[self.row][self.column :]
            if what == "J":
                del self.rows[self.row + 1 :]
        else:
            assert what == "m", what

    def text(self):
        return ["".join(row).rstrip() for row in self.rows]


class Terminal:
    """A process whose standard error is its terminal."""

    def __init__(self, words, columns=220, rows=24, **variables):
        self.reader, writer = pty.openpty()
        fcntl.ioctl(self.reader, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.process = subprocess.Popen(
            words,
            stdin=writer,
            stdout=subprocess.DEVNULL,
            stderr=writer,
            env=environment(**variables),
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(writer)
        self.bytes = b""

    def read(self):
        if not select.select([self.reader], [], [], 60)[0]:
            return False
        try:
            piece = os.read(self.reader, 1 << 16)
        except OSError:  # how the end of a terminal is told
            return False
        self.bytes += piece
        return bool(piece)

    def read_until(self, pattern):
        while not re.search(pattern, self.bytes):
            if not self.read():
                return False
        return True

    def end(self):
        """All text, once the process has ended."""
        while self.read():
            pass
        os.close(self.reader)
        self.code = self.process.wait(timeout=60)
        return self.bytes.decode()


class FullProgressTest(support.CommandLineTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.corpus = cls.prepare_demo()

    def train(self, name, *options, ranks=1, form="full"):
        folders = ["--corpus", self.corpus, "--model-dir", self.path(name)]
        if "--valid-every" not in options:
            options = (*options, "--valid-every", 0)
        return support.command("train", *folders, *OPTIONS, *SCORES, "--progress", form, *options, ranks=ranks)

    def check_log_and_picture(self, lines, resized=False):
        """That the lines are those of the log, each whole, followed by one picture. Returns the picture and the log. A terminal
        that was resized may have blank rows between."""
        while lines and (not lines[-1] or RESULT.match(lines[-1])):
            lines.pop()
        begins = [i for i, line in enumerate(lines) if re.match(r"step \d+/", line)]
        self.assertEqual(len(begins), 1, "\n".join(lines))
        log, picture = lines[: begins[-1]], lines[begins[-1] :]
        self.assertEqual(log[-1:], [""], "\n".join(lines))  # the first row of the picture
        for line in log[:-1]:
            self.assertTrue(LOG.match(line) or (resized and not line), f"{line!r} in\n" + "\n".join(lines))
        for line in picture:
            self.assertTrue(not line or PICTURE.match(line), f"{line!r} in\n" + "\n".join(lines))
        return picture, log

    def check_validations(self, log, every, least):
        steps = [int(match[1]) for match in map(VALIDATION.search, log) if match]
        self.assertEqual(steps, list(range(every, every * (len(steps) + 1), every)), "\n".join(log))
        self.assertGreaterEqual(len(steps), least)
        self.assertEqual(len(steps), sum("validation: " in line for line in log))


class FullProgress(FullProgressTest):
    def test_the_log_stays_above_one_picture(self):
        terminal = Terminal(self.train("model", "--max-steps", 60, "--log-every", 5, "--valid-every", 10))
        text = terminal.end()
        self.assertEqual(terminal.code, 0, text)
        picture, log = self.check_log_and_picture(Screen().feed(text).text())
        self.check_validations(log, 10, 6)
        self.assertIn("  done at step 60 ", "\n".join(log))
        # The last one has the last state.
        self.assertRegex(picture[0], r"step 60/60, done  epoch \d+\.\d+  ⣿+  100.0 %$")
        self.assertEqual([int(line.split()[0]) for line in picture[5:8]], [60, 50, 40])
        with open(self.path("model", "best.json"), encoding="utf-8") as file:
            best = json.load(file)
        step = int(re.search(r"\d+", best["checkpoint"])[0])
        self.assertTrue(picture[8].startswith(f"best BLEU {best['value']:.2f} at step {step} "), picture[8])
        self.assertRegex(picture[8], r"  loss 5 +60$")
        self.assertRegex(picture[9], r"  checkpoint of step 60 \d+ s ago$")
        self.assertRegex(picture[10], r"^memory [\d.]+ MiB, host [\d.]+ [MG]iB of [\d.]+ [MGT]iB  model$")
        # Nothing hides the cursor or changes a mode.
        self.assertEqual(set(re.findall(r"\x1b(?!\[[0-9]*[AJKm])....", text)), set())

    def test_a_resumed_run_begins_with_what_its_log_has(self):
        words = ("--log-every", 5, "--valid-every", 10)
        support.run(*self.train("resumed", "--max-steps", 40, *words, form="none")[1:])
        text = Terminal(self.train("resumed", "--max-steps", 60, *words)).end()
        first = text[: text.index("\x1b[", text.index(" elapsed"))]  # the picture before the first step
        picture, _ = self.check_log_and_picture(Screen().feed(re.sub(r"\x1b\[[0-9]*m", "", first)).text())
        self.assertRegex(picture[0], r"step 40/60  epoch \d+\.\d+  [⣿⣇⣀]+  66.7 %")
        self.assertEqual([int(line.split()[0]) for line in picture[5:8]], [40, 30, 20])
        self.assertRegex(picture[8], r"^best BLEU [0-9.]+ at step \d+ +loss 5 +40$")
        self.assertRegex("\n".join(picture), r"[⠁-⣿]{3}\n")
        picture, log = self.check_log_and_picture(Screen().feed(text).text())
        self.assertEqual([int(line.split()[0]) for line in picture[5:8]], [60, 50, 40])
        self.assertRegex(picture[8], r"  loss 5 +60$")

    def test_where_it_goes_to_no_terminal_there_are_lines(self):
        def is_as_lines(text):
            self.assertNotIn("\x1b", text)
            self.assertEqual(len(re.findall(r"\d\d  step \d+/20  epoch .* left\r?\n", text)), 4, text)

        words = ("--max-steps", 20, "--log-every", 5)
        result = support.run(*self.train("pipe", *words)[1:])
        is_as_lines(result.stderr.decode())
        self.assertNotIn(b"\r", result.stderr)
        for name, term in (("dumb", "dumb"), ("unknown", "")):
            is_as_lines(Terminal(self.train(name, *words), TERM=term).end())

    def test_characters_and_colours_are_those_of_the_terminal(self):
        words = ("--max-steps", 20, "--log-every", 5)
        dots = Terminal(self.train("dots", *words)).end()
        self.assertRegex(dots, "\x1b\\[36m⣿+\x1b\\[0m")
        plain = Terminal(self.train("plain", *words), NO_COLOR="1").end()
        self.assertRegex(plain, "[^m]⣿+  100")
        self.assertNotIn("\x1b[3", plain)
        ascii_text = Terminal(self.train("ascii", *words), LC_ALL="C").end()
        self.assertTrue(ascii_text.isascii())
        self.assertRegex(ascii_text, r"\[#+\]\x1b\[0m  100.0 %")

    @unittest.skipUnless(support.EMULATED, "built without the emulated device")
    def test_it_shows_the_memory_of_the_device(self):
        words = self.train("device", "--device", "cuda", "--max-steps", 4, "--log-every", 2)
        text = Terminal([support.EMULATED, *words[1:]]).end()
        picture, _ = self.check_log_and_picture(Screen().feed(text).text())
        self.assertRegex(picture[10], r", device (?!0 )[\d.]+ [KMG]iB of [\d.]+ [MG]iB  device$")

    def test_it_changes_no_bit(self):
        words = ("--max-steps", 30, "--log-every", 5, "--valid-every", 10, "--save-every", 10)
        Terminal(self.train("watched", *words)).end()
        support.run(*self.train("unwatched", *words, form="none")[1:])
        for step in (10, 20, 30):
            bits = [support.checkpoint_bits(self.path(name, f"checkpoint-{step:08}.h5")) for name in ("watched", "unwatched")]
            self.assertEqual(*bits)

    def test_a_stop_leaves_the_picture_below_its_messages(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            terminal = Terminal(self.train(f"stopped{int(number)}", *ENDLESS))
            self.assertTrue(terminal.read_until(rb"\x1b\[Kstep [1-9]"), terminal.bytes)
            os.kill(terminal.process.pid, number)
            text = terminal.end()
            self.assertEqual(terminal.code, 75, text)
            picture, log = self.check_log_and_picture(Screen().feed(text).text())
            self.assertRegex(picture[0], r"^step \d+/1000000, stopped on request  ")
            self.assertNotIn(" left", picture[9])
            self.assertRegex("\n".join(log), r"stopping after this step")
            self.assertRegex("\n".join(log), r"stopped on request at step \d+")

    def test_a_lost_terminal_is_a_stop(self):
        terminal = Terminal(self.train("lost", *ENDLESS))
        self.assertTrue(terminal.read_until(rb"\x1b\[Kstep [1-9]"), terminal.bytes)
        os.close(terminal.reader)
        self.assertEqual(terminal.process.wait(timeout=60), 75)
        self.assertTrue([name for name in os.listdir(self.path("lost")) if name.startswith("checkpoint-")])

    def test_an_error_begins_below_the_picture(self):
        terminal = Terminal(self.train("moved", *ENDLESS, "--log-every", 5))
        self.assertTrue(terminal.read_until(rb"\x1b\[Kstep [1-9]"), terminal.bytes)
        os.rename(self.path("moved"), self.path("elsewhere"))
        text = terminal.end()
        self.assertEqual(terminal.code, 74, text)
        lines = Screen().feed(text).text()
        error = next(i for i, line in enumerate(lines) if line.startswith("ventris train: "))
        self.check_log_and_picture(lines[:error])
        self.assertIn("moved", "".join(lines[error:]))


@unittest.skipUnless(shutil.which("tmux"), "no tmux")
class Tmux(FullProgressTest):
    def setUp(self):
        # The path of its socket must be short.
        self.sockets = tempfile.mkdtemp(prefix="ventris-tmux-", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.sockets, ignore_errors=True)
        self.addCleanup(self.tmux, "kill-server", check=False)
        settings = self.write("tmux.conf", "set -g history-limit 20000\nset -g remain-on-exit on\nset -g status off\n")
        self.prefix = ["tmux", "-u", "-S", os.path.join(self.sockets, "socket"), "-f", settings]

    def tmux(self, *words, check=True):
        return subprocess.run([*self.prefix, *map(str, words)], env=environment(), capture_output=True, text=True, check=check, timeout=60).stdout

    def start(self, words, columns=80, rows=24):
        """With all the lines in the history, the screen as wide as asked for."""
        self.tmux("new-session", "-d", "-x", columns, "-y", rows, shlex.join(words))

    def resize(self, columns, rows):
        self.tmux("resize-window", "-x", columns, "-y", rows)

    def lines(self):
        """All rows from the beginning; what was broken where it was too long in one."""
        return [line.rstrip() for line in self.tmux("capture-pane", "-p", "-J", "-S", "-", "-E", "-").split("\n")]

    def wait_until(self, holds, seconds=60):
        """Until that holds for the lines, which it returns."""
        deadline = time.monotonic() + seconds
        while not holds(lines := self.lines()):
            self.assertLess(time.monotonic(), deadline, "\n".join(lines))
            time.sleep(0.05)
        return lines

    def step_shown(self, lines):
        steps = [int(match[1]) for match in (re.match(r"step (\d+)/", line) for line in lines) if match]
        return steps[-1] if steps else 0

    def frame(self):
        """The lines when the picture was redrawn since."""
        before = self.step_shown(self.lines())
        return self.wait_until(lambda lines: self.step_shown(lines) > before)

    def stop(self):
        self.tmux("send-keys", "C-c")
        return self.wait_until(lambda lines: any("stopped on request" in line for line in lines) and self.is_dead())

    def is_dead(self):
        return self.tmux("display", "-p", "#{pane_dead}").strip() == "1"

    def test_it_survives_resizes(self):
        self.start(self.train("resized", *ENDLESS, "--log-every", 5, "--valid-every", 50))
        self.wait_until(lambda lines: self.step_shown(lines) > 50)
        # Lower and narrower one after the other: of rows that rewrap while there is room for less, the first are out of reach.
        sizes = [(60, 24), (40, 24), (100, 24), (80, 24), (80, 15), (80, 24), (200, 50), (99, 50), (99, 30), (80, 30), (80, 24), (40, 24), (20, 24), (80, 24)]
        for columns, rows in sizes:
            self.resize(columns, rows)
            time.sleep(0.3)  # tmux tells of the next size at once again
            picture, log = self.check_log_and_picture(self.frame(), resized=True)
            self.check_validations(log, 50, 1)
            self.assertLessEqual(max(map(len, picture)), columns - 1)
            self.assertLessEqual(2 * len(picture) + 2, rows)
        self.resize(80, 5)  # one row, in place of many that are partly out of reach
        rows = [line for line in self.frame() if line]
        self.assertRegex(rows[-1], r"^step \d+/1000000  loss [0-9.]+  .* left$")
        self.resize(80, 24)
        lines = self.stop()
        stopped = re.search(r"stopped on request at step (\d+)", "\n".join(lines))
        self.assertEqual(self.step_shown(lines), int(stopped[1]))

    @unittest.skipUnless(support.MPIEXEC, "built without MPI")
    def test_it_follows_a_terminal_behind_mpirun(self):
        self.start(self.train("ranks", *ENDLESS, "--logical-shards", 2, ranks=2))
        self.wait_until(lambda lines: self.step_shown(lines) > 50)
        for columns in (60, 100):
            self.resize(columns, 24)
            picture, _ = self.check_log_and_picture(self.frame(), resized=True)
            self.assertLessEqual(max(map(len, picture)), columns - 1)
        self.assertRegex(picture[3], r"^\d+ target tokens/s  2 ranks")
        self.assertRegex(picture[10], r"^memory [\d.]+ MiB of rank 0, host ")

    def test_it_leaves_the_terminal_to_other_jobs(self):
        def pictures(lines):
            return sum(re.match(r"step \d+/", line) is not None for line in lines)

        def enter(words, shown):
            self.tmux("send-keys", words, "Enter")
            return self.wait_until(lambda lines: shown in lines)

        self.start(["env", "PS1=> ", "bash", "--norc", "-i"], columns=100, rows=40)
        words = self.train("jobs", *ENDLESS, "--log-every", 1000000, "--log-seconds", 0.2)
        self.tmux("send-keys", shlex.join(words), "Enter")
        self.wait_until(lambda lines: self.step_shown(lines) > 20)
        self.tmux("send-keys", "C-z")
        self.wait_until(lambda lines: any("Stopped" in line for line in lines))
        lines = enter("echo $((1 + 1)) between", "2 between")
        self.assertEqual(pictures(lines), 1)
        self.tmux("send-keys", "fg", "Enter")
        self.wait_until(lambda lines: pictures(lines) == 2)
        lines = self.frame()
        self.assertEqual(pictures(lines), 2)
        for line in ("2 between", "> fg"):  # what the shell wrote was not overwritten
            self.assertIn(line, lines)
        self.tmux("send-keys", "C-z")
        self.wait_until(lambda lines: sum("Stopped" in line for line in lines) == 2)
        self.tmux("send-keys", "bg", "Enter")
        report = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  step \d+/1000000  epoch ")
        self.wait_until(lambda lines: sum(report.search(line) is not None for line in lines) > 2)
        lines = enter("echo $((1 + 2)) in the background", "3 in the background")
        self.assertEqual(pictures(lines), 2)
        self.tmux("send-keys", "fg", "Enter")
        self.wait_until(lambda lines: pictures(lines) == 3)
        lines = self.frame()
        self.assertEqual(pictures(lines), 3)
        self.assertIn("3 in the background", lines)
        self.tmux("send-keys", "C-c")
        lines = self.wait_until(lambda lines: any("Stopped on request" in line for line in lines))
        self.assertEqual(pictures(lines), 3)

    def test_the_prompt_comes_below_it_after_a_kill(self):
        words = self.train("killed", *ENDLESS, "--log-every", 5)
        self.start(["sh", "-c", 'echo "pid $$"; "$@" & wait; echo "ended"; read -r line', "sh", *words])
        lines = self.wait_until(lambda lines: self.step_shown(lines) > 5)
        status = self.status("killed")
        os.kill(int(status["pid"]), signal.SIGKILL)
        lines = self.wait_until(lambda lines: "ended" in lines)
        self.assertEqual(self.tmux("display", "-p", "#{cursor_flag}").strip(), "1")
        lines = lines[1 : lines.index("ended")]
        self.check_log_and_picture([line for line in lines if line != "Killed"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
