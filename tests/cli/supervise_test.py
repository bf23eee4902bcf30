# SPDX-License-Identifier: Apache-2.0
"""launch/supervise.sh: a training that is killed again and again comes to the bits of one that was left alone."""

import fcntl
import mmap
import os
import pty
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
import time
import unittest

import support

STEPS = 400
SHELL = ["--back-off", "0.1", "--", "sh", "-c"]


def processes_with(word):
    """The ids of all processes, but this one, that have `word` in their command line."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
        except OSError:
            continue
        if word.encode() in words and int(name) != os.getpid():
            found.append((int(name), words[0].decode()))
    return found


class Supervise(support.RunTest):
    MODEL = support.later_win(*support.TINY_MODEL, "--logical-shards", 2, "--dropout", 0.1, "--save-every", 10, "--log-every", 100)

    def command(self, name, *options, ranks=1, steps=1000000):
        return support.command(*self.train(name, *options, max_steps=steps), ranks=ranks)

    def start(self, *words, **options):
        return support.start([support.SUPERVISE, *map(str, words)], **options)

    def wait_for_checkpoint(self, name, process, after=""):
        """Until a start of the run, later than the one that began at `after`, has saved. Returns when it began."""

        def began():
            status = self.status(name)
            return status["state"] == "running" and status["started"] > after

        self.wait_for(began, process)
        first = self.status(name)["last_checkpoint"]
        self.wait_for(lambda: self.status(name)["last_checkpoint"] != first, process)
        return self.status(name)["started"]

    def processes(self, name, supervisor):
        """The launchers and the ranks of a run."""
        found = [item for item in processes_with(self.path(name)) if item[0] != supervisor.pid]
        return [[pid for pid, program in found if program == which] for which in (support.MPIEXEC, support.BINARY)]

    @unittest.skipUnless(support.MPIEXEC, "built without MPI")
    def test_killed_launchers_and_ranks_change_nothing(self):
        process = self.start("--back-off", 0.1, "--", *self.command("killed", ranks=2, steps=STEPS))
        began = ""
        for victim in ("launcher", "rank", "launcher"):
            began = self.wait_for_checkpoint("killed", process, after=began)
            launchers, ranks = self.processes("killed", process)
            self.assertEqual((len(launchers), len(ranks)), (1, 2))
            os.kill(launchers[0] if victim == "launcher" else max(ranks), signal.SIGKILL)
        text = self.end_of(process, 0)
        self.assertEqual(text.count("supervise: started"), 4, text)
        self.assertIn("the command ended with 137 (SIGKILL)", text)
        self.assertIn("restart 1 of 10", text)
        self.assertNotIn("restart 2 of 10", text)  # every start made progress
        self.assertIn("on signal 9 (Killed)", text)  # the launcher names the rank
        self.assertEqual(self.status("killed")["state"], "done")
        self.assertEqual(processes_with(self.path("killed")), [])
        self.succeed(*self.train("whole", max_steps=STEPS), ranks=2)
        self.assert_same_parameters("killed", "whole", STEPS)

    @unittest.skipUnless(support.MPIEXEC, "built without MPI")
    def test_what_a_killed_launcher_leaves_is_removed(self):
        process = self.start("--back-off", 0.1, "--", *self.command("left", ranks=2))
        began = self.wait_for_checkpoint("left", process)
        [launcher], ranks = self.processes("left", process)
        segments = set()
        for rank in ranks:
            with open(f"/proc/{rank}/maps", encoding="utf-8") as maps:
                segments |= {line.split()[-1] for line in maps if "/dev/shm/vader_segment" in line}
        os.kill(launcher, signal.SIGKILL)
        self.wait_for_checkpoint("left", process, after=began)
        self.assertEqual([path for path in segments if os.path.exists(path)], [])
        process.send_signal(signal.SIGTERM)
        text = self.end_of(process, 75)
        if segments:
            self.assertIn("removed leftovers of killed jobs", text)
        self.assertEqual(self.status("left")["state"], "stopped")

    @unittest.skipUnless(os.geteuid() == 0 and os.path.isdir("/dev/shm"), "needs root, and /dev/shm")
    def test_what_others_have_or_use_is_not_removed(self):
        def segment(name):
            file, path = tempfile.mkstemp(prefix=f"vader_segment.{name}.", dir="/dev/shm")
            self.addCleanup(lambda: os.path.exists(path) and os.unlink(path))
            os.write(file, bytes(mmap.PAGESIZE))
            return file, path

        left, theirs, used = segment("left"), segment("theirs"), segment("used")
        os.chown(theirs[1], 1, 1)
        with mmap.mmap(used[0], 0):
            for _ in range(3):  # the supervisor of another test may be the first
                text = self.end_of(self.start("--max-restarts", 1, *SHELL, "exit 69"))
                if os.path.exists(left[1]) or left[1] in text:
                    break
                os.close(left[0])
                left = segment("left")
        self.assertIn(f"removed leftovers of killed jobs: {left[1]}", text)
        self.assertEqual([os.path.exists(path) for path in (left[1], theirs[1], used[1])], [False, True, True])
        for file, _ in (left, theirs, used):
            os.close(file)

    def test_a_signal_reaches_the_training_which_saves(self):
        for sent in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP):
            name = sent.name
            process = self.start("--", *self.command(name))
            self.wait_for_checkpoint(name, process)
            process.send_signal(sent)
            text = self.end_of(process, 75)
            self.assertIn(f"received {sent.name}; forwarded as SIGUSR1", text)
            status = self.status(name)
            self.assertEqual((status["state"], status["exit_code"], status["retryable"]), ("stopped", 75, True))
            self.assertTrue(os.path.exists(status["last_checkpoint"]))

    def test_a_stop_that_nobody_hears_or_that_ends_the_launcher_is_a_stop(self):
        # mpirun drops a signal that comes before its ranks are there, and ends with 1 where a batch system signals every process.
        ready = self.path("ready")
        script = (
            "import os, signal, sys, time\n"
            "heard = []\n"
            "def hear(*_):\n"
            "    heard.append(1)\n"
            "    if len(heard) == 3: os._exit(75)\n"
            "signal.signal(signal.SIGUSR1, hear)\n"
            "signal.signal(signal.SIGTERM, lambda *_: os._exit(1))\n"
            "open(sys.argv[1] + '.new', 'w').write(str(os.getpid()))\n"
            "os.rename(sys.argv[1] + '.new', sys.argv[1])\n"
            "while True: time.sleep(60)\n"
        )
        for everybody in (False, True):
            process = self.start("--", sys.executable, "-c", script, ready)
            self.wait_for(lambda: os.path.exists(ready), process)
            process.send_signal(signal.SIGTERM)
            if everybody:
                time.sleep(0.2)
                os.kill(int(self.read(ready)), signal.SIGTERM)
            text = self.end_of(process, 75)
            self.assertEqual(text.count("forwarded as"), 1, text)
            self.assertIn("stopped on request", text)
            os.remove(ready)

    def check_that_the_job_saves(self, name, process, end):
        """Calls `end`, which ends the supervisor or takes its terminal away, once the job has saved, and waits for the job."""
        self.assertTrue(support.wait_for(lambda: self.status(name)["last_checkpoint"], process))
        end()
        deadline = time.monotonic() + 60
        while processes_with(self.path(name)) and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertEqual(processes_with(self.path(name)), [])
        status = self.status(name)
        self.assertEqual((status["state"], status["exit_code"]), ("stopped", 75), status)
        self.assertEqual(status["last_checkpoint"], self.checkpoint(name, status["step"]))

    def test_a_job_saves_though_its_supervisor_is_killed(self):
        process = self.start("--", *self.command("orphan", ranks=2 if support.MPIEXEC else 1))
        self.check_that_the_job_saves("orphan", process, process.kill)
        process.communicate()

    def test_a_lost_terminal_is_a_stop(self):
        far, near = pty.openpty()
        environment = support.environment()
        process = subprocess.Popen([support.SUPERVISE, "--", *self.command("lost")], stdin=near, stdout=subprocess.DEVNULL, stderr=near, env=environment,
                                   start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))  # fmt: skip
        os.close(near)
        # The system sends SIGHUP to the leader and refuses what is written from then on.
        self.check_that_the_job_saves("lost", process, lambda: os.close(far))
        self.assertEqual(process.wait(timeout=600), 75)

    def test_an_ignored_hangup_is_none(self):
        process = self.start("--", *self.command("nohup"), hangup=signal.SIG_IGN)
        self.wait_for_checkpoint("nohup", process)
        [_, [rank]] = self.processes("nohup", process)
        for pid in (process.pid, rank):
            os.kill(pid, signal.SIGHUP)
        seen = self.status("nohup")["last_checkpoint"]
        self.wait_for(lambda: self.status("nohup")["last_checkpoint"] != seen, process)
        process.send_signal(signal.SIGTERM)
        text = self.end_of(process, 75)
        self.assertNotIn("SIGHUP", text)

    def test_ends_that_are_tried_again_and_ends_that_are_not(self):
        gone = support.command("train", "--corpus", self.path("none.h5"), "--model-dir", "m")
        for words, code, starts in (
            (["--", *gone], 66, 1),
            ([*SHELL, "exit 1"], 1, 1),  # a launcher, before training began
            ([*SHELL, "exit 127"], 127, 1),
            ([*SHELL, "exit 69"], 69, 3),
            ([*SHELL, "exit 74"], 74, 3),
            ([*SHELL, "kill -9 $$"], 137, 3),
            ([*SHELL, "exit 141"], 141, 3),
            ([*SHELL, '"$@"; exit 74', "sh", *self.command("still", steps=1)], 74, 3),  # comes no further
        ):
            process = self.start("--max-restarts", 2, *words)
            text = self.end_of(process, code)
            self.assertEqual(text.count("supervise: started"), starts, text)
            self.assertIn("giving up after 2 restarts without a new checkpoint" if starts > 1 else f"giving up: the command ended with {code}", text)

    def test_the_folder_may_stand_in_the_file_of_options(self):
        """Two steps more a start, each of which is killed but the last: each comes to a new checkpoint."""
        folder = self.path("filed")
        config = self.write("filed.ini", f"model-dir = {folder}\n")
        words = support.later_win(*self.train("filed", save_every=1)[1:], "--config", config)
        at = words.index("--model-dir")
        script = 'n=$(ls "$0" 2>/dev/null | grep -c "^checkpoint.*h5$"); "$@" --keep-checkpoints 20 --max-steps $((n + 2)); [ $n -ge 8 ] || kill -9 $$'
        for option in ([], ["--model-dir", self.path("none")]):  # what is told to it counts
            train = support.command("train", *words[:at], *words[at + 2 :])
            process = self.start("--max-restarts", 2, *option, *SHELL, script, folder, *train)
            text = self.end_of(process, 0 if not option else 137)
            self.assertEqual("restart 2 of 2" in text, bool(option), text)
            shutil.rmtree(folder)

    def test_processes_that_the_command_leaves_are_ended(self):
        mark = f"{time.time_ns()}"
        code = "import sys, time; time.sleep(600)"
        left = f"{sys.executable} -c '{code}' {mark} & exit 3"
        process = self.start(*SHELL, left)
        text = self.end_of(process, 3)
        self.assertIn("ended 1 processes left by the command", text)
        self.assertEqual(processes_with(mark), [])

    def launcher(self, name, last_words="read line < {fifo}"):
        """A script that is named mpirun, starts what it is given and then says or waits for something."""
        folder = self.path(name)
        os.mkdir(folder)
        os.mkfifo(os.path.join(folder, "fifo"))
        path = os.path.join(folder, "mpirun")
        with open(path, "w", encoding="utf-8") as file:
            words = last_words.format(fifo=os.path.join(folder, "fifo"))
            file.write(f'#!/bin/sh\ntrap : USR1\n"$@" &\nwait\nwait\n{words}\n')
        os.chmod(path, 0o755)
        return path

    def test_a_launcher_that_lives_on_after_its_ranks_is_ended(self):
        options = ["--back-off", 0.1, "--launcher-timeout", 1, "--"]
        process = self.start(*options, self.launcher("hung"), *self.command("outlived", steps=STEPS))
        self.wait_for_checkpoint("outlived", process)
        os.kill(self.status("outlived")["pid"], signal.SIGKILL)
        text = self.end_of(process)
        # The second start trains to the end, which its launcher outlives too.
        self.assertEqual(process.returncode, 0, text)
        self.assertEqual(text.count("has had no rank on this host for 1 s; it is killed"), 2, text)
        self.assertIn("the command ended with 137 (SIGKILL); running at step", text)
        self.assertEqual(text.count("supervise: started"), 2, text)
        self.assertEqual(self.status("outlived")["state"], "done")

    def test_the_end_of_the_run_counts_and_not_that_of_its_launcher(self):
        options = ["--back-off", 0.1, "--max-restarts", 0, "--launcher-timeout", 1, "--"]
        process = self.start(*options, self.launcher("asked"), *self.command("stopped"))
        self.wait_for(lambda: self.status("stopped")["state"] == "running", process)
        os.kill(self.status("stopped")["pid"], signal.SIGUSR1)
        text = self.end_of(process, 75)
        self.assertIn("it is killed", text)
        self.assertIn("the command ended with 75; stopped at step", text)

    def test_a_script_that_goes_on_after_training_is_left_alone(self):
        train = self.command("quiet", steps=1)
        for words in (["sh", "-c", '"$@"; sleep 4; exit 0', "sh", *train], [self.launcher("busy", "sleep 4"), *train]):  # the second has a child
            self.assertNotIn("has had no rank", self.end_of(self.start("--launcher-timeout", 1, "--", *words), 0))

    def test_a_signal_in_a_pause_ends_it(self):
        process = self.start("--back-off", 300, "--", "sh", "-c", "exit 69")
        lines = []
        for line in process.stderr:
            lines.append(line.decode())
            if "restart 1 of 10 in 300 s" in lines[-1]:
                break
        process.send_signal(signal.SIGTERM)
        text = "".join(lines) + self.end_of(process)
        self.assertEqual(process.returncode, 75, text)
        self.assertIn("stopped on request (SIGTERM) before the restart", text)

    def test_commands_that_cannot_be_started(self):
        for words, code, says in ((["--"], 64, "no command given"), (["--", "no-such-program"], 66, "cannot start no-such-program"),
                                  (["--back-of", 1], 64, "unknown option --back-of"), (["--back-off", "x"], 64, "needs a number")):  # fmt: skip
            self.assertIn(says, self.end_of(self.start(*words), code))
        # Help behind two dashes is of the command.
        output = subprocess.run([support.SUPERVISE, "--", support.BINARY, "train", "--help"], capture_output=True, check=True).stdout
        self.assertIn(b"ventris train", output)


if __name__ == "__main__":
    unittest.main(verbosity=2)
