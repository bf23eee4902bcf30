# SPDX-License-Identifier: Apache-2.0
"""launch/supervise.sh: a training that is killed again and again comes to the bits of one that was left alone."""

import mmap
import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import support

OPTIONS = [*support.TINY_MODEL[: support.TINY_MODEL.index("--log-every")], "--threads", "1", "--logical-shards", "2", "--dropout", "0.1", "--save-every", "10"]
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


class Shown:
    """What programs write to a terminal, of which this is the far end."""

    def __init__(self, terminal):
        self.terminal = terminal
        self.text = b""

    def until(self, condition, seconds=60):
        """Reads until the condition holds. Returns whether it came to that."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                return False
            if self.terminal < 0:
                time.sleep(0.01)
            elif select.select([self.terminal], [], [], 0.01)[0]:
                try:
                    self.text += os.read(self.terminal, 1 << 16)
                except OSError:  # no program has it open any longer
                    self.close()
        return True

    def close(self):
        if self.terminal >= 0:
            os.close(self.terminal)
        self.terminal = -1


class Supervise(support.CommandLineTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.corpus = cls.prepare_demo()

    def train(self, name, *options, ranks):
        folders = ["--corpus", self.corpus, "--model-dir", self.path(name)]
        return support.command("train", *folders, *OPTIONS, *options, ranks=ranks)

    def start(self, *words, **options):
        return support.start([support.SUPERVISE, *map(str, words)], **options)

    def end_of(self, process):
        """The standard error of a supervisor that ended."""
        try:
            return process.communicate(timeout=120)[1].decode(errors="replace")
        except subprocess.TimeoutExpired:
            process.terminate()
            self.fail(process.communicate()[1].decode(errors="replace"))

    def wait_for(self, condition, process):
        if not support.wait_for(condition, process):
            self.fail(self.end_of(process))

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

    def check_equal_parameters(self, name, ranks):
        self.succeed("train", "--corpus", self.corpus, "--model-dir", self.path("whole"), *OPTIONS,
                     "--max-steps", STEPS, ranks=ranks)  # fmt: skip
        last = f"checkpoint-{STEPS:08d}.h5"
        one, two = (support.parameters(self.path(folder, last)) for folder in (name, "whole"))
        self.assertEqual({k: v.tobytes() for k, v in one.items()}, {k: v.tobytes() for k, v in two.items()})

    @unittest.skipUnless(support.MPIEXEC, "built without MPI")
    def test_killed_launchers_and_ranks_change_nothing(self):
        launch = self.train("killed", "--max-steps", STEPS, ranks=2)
        process = self.start("--back-off", 0.1, "--", *launch)
        began = ""
        for victim in ("launcher", "rank", "launcher"):
            began = self.wait_for_checkpoint("killed", process, after=began)
            launchers, ranks = self.processes("killed", process)
            self.assertEqual((len(launchers), len(ranks)), (1, 2))
            os.kill(launchers[0] if victim == "launcher" else max(ranks), signal.SIGKILL)
        text = self.end_of(process)
        self.assertEqual(process.returncode, 0, text)
        self.assertEqual(text.count("supervise: started"), 4, text)
        self.assertIn("the command ended with 137 (SIGKILL)", text)
        self.assertIn("restart 1 of 10", text)
        self.assertNotIn("restart 2 of 10", text)  # every start made progress
        self.assertIn("on signal 9 (Killed)", text)  # the launcher names the rank
        self.assertEqual(self.status("killed")["state"], "done")
        self.assertEqual(processes_with(self.path("killed")), [])
        self.check_equal_parameters("killed", ranks=2)

    @unittest.skipUnless(support.MPIEXEC, "built without MPI")
    def test_what_a_killed_launcher_leaves_is_removed(self):
        process = self.start("--back-off", 0.1, "--", *self.train("left", "--max-steps", 1000000, ranks=2))
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
        text = self.end_of(process)
        self.assertEqual(process.returncode, 75, text)
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
            process = self.start("--", *self.train(name, "--max-steps", 1000000, ranks=1))
            self.wait_for_checkpoint(name, process)
            process.send_signal(sent)
            text = self.end_of(process)
            self.assertEqual(process.returncode, 75, text)
            self.assertIn(f"received {sent.name}; forwarded as SIGUSR1", text)
            status = self.status(name)
            self.assertEqual((status["state"], status["exit_code"], status["retryable"]), ("stopped", 75, True))
            self.assertTrue(os.path.exists(status["last_checkpoint"]))

    def test_a_stop_is_sent_again_until_somebody_hears_it(self):
        # mpirun drops a signal that comes before its ranks are there.
        ready = self.path("deaf")
        script = (
            "import os, signal, sys, time\n"
            "heard = []\n"
            "def hear(*_):\n"
            "    heard.append(1)\n"
            "    if len(heard) == 3: os._exit(75)\n"
            "signal.signal(signal.SIGUSR1, hear)\n"
            "open(sys.argv[1], 'w').close()\n"
            "while True: time.sleep(60)\n"
        )
        process = self.start("--", sys.executable, "-c", script, ready)
        self.wait_for(lambda: os.path.exists(ready), process)
        process.send_signal(signal.SIGTERM)
        text = self.end_of(process)
        self.assertEqual(process.returncode, 75, text)
        self.assertEqual(text.count("forwarded as"), 1, text)

    def test_a_launcher_that_ends_by_the_same_stop_before_training_is_stopped_too(self):
        # As where a batch system signals every process: mpirun ends with 1 then.
        ready = self.path("early")
        script = (
            "import os, signal, sys, time\n"
            "signal.signal(signal.SIGUSR1, signal.SIG_IGN)\n"
            "signal.signal(signal.SIGTERM, lambda *_: os._exit(1))\n"
            "open(sys.argv[1] + '.new', 'w').write(str(os.getpid()))\n"
            "os.rename(sys.argv[1] + '.new', sys.argv[1])\n"
            "while True: time.sleep(60)\n"
        )
        process = self.start("--", sys.executable, "-c", script, ready)
        self.wait_for(lambda: os.path.exists(ready), process)
        process.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        os.kill(int(self.read(ready)), signal.SIGTERM)
        text = self.end_of(process)
        self.assertEqual(process.returncode, 75, text)
        self.assertIn("stopped on request", text)

    def check_saved(self, name):
        status = self.status(name)
        self.assertEqual((status["state"], status["exit_code"]), ("stopped", 75), status)
        self.assertEqual(status["last_checkpoint"], self.path(name, f"checkpoint-{status['step']:08d}.h5"))
        self.assertTrue(os.path.exists(status["last_checkpoint"]))

    def check_that_the_job_saves(self, name, ranks, end):
        """Starts a supervisor as the leader of a session on a terminal, lets `end` end it, and waits for the job.
        Returns what the supervisor ended with."""
        words = [support.SUPERVISE, "--", *self.train(name, "--max-steps", 1000000, ranks=ranks)]
        supervisor, terminal = pty.fork()
        if supervisor == 0:
            signal.signal(signal.SIGHUP, signal.SIG_DFL)
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            os.execvpe(words[0], words, support.environment())
        shown = Shown(terminal)
        try:
            self.assertTrue(shown.until(lambda: self.status(name)["last_checkpoint"]), shown.text)
            end(supervisor, shown)
            self.assertTrue(shown.until(lambda: not processes_with(self.path(name))), shown.text)
            self.check_saved(name)
        finally:
            os.kill(supervisor, signal.SIGKILL)
            ended = os.waitpid(supervisor, 0)[1]
            shown.close()
        return os.waitstatus_to_exitcode(ended)

    def test_a_job_saves_though_its_supervisor_is_killed(self):
        for ranks in (1, 2) if support.MPIEXEC else (1,):
            ended = self.check_that_the_job_saves(f"orphan{ranks}", ranks, lambda process, _: os.kill(process, signal.SIGKILL))
            self.assertEqual(ended, -signal.SIGKILL)

    def test_a_lost_terminal_is_a_stop(self):
        for ranks in (1, 2) if support.MPIEXEC else (1,):
            # The system sends SIGHUP to the leader and refuses what is written from then on.
            ended = self.check_that_the_job_saves(f"lost{ranks}", ranks, lambda _, shown: shown.close())
            self.assertEqual(ended, 75)

    def test_an_ignored_hangup_is_none(self):
        process = self.start("--", *self.train("nohup", "--max-steps", 1000000, ranks=1), hangup=signal.SIG_IGN)
        self.wait_for_checkpoint("nohup", process)
        [_, [rank]] = self.processes("nohup", process)
        for pid in (process.pid, rank):
            os.kill(pid, signal.SIGHUP)
        seen = self.status("nohup")["last_checkpoint"]
        self.wait_for(lambda: self.status("nohup")["last_checkpoint"] != seen, process)
        process.send_signal(signal.SIGTERM)
        text = self.end_of(process)
        self.assertEqual(process.returncode, 75, text)
        self.assertNotIn("SIGHUP", text)

    def test_a_fatal_end_is_not_tried_again(self):
        process = self.start("--", support.BINARY, "train", "--corpus", self.path("none.h5"), "--model-dir", "m")
        text = self.end_of(process)
        self.assertEqual(process.returncode, 66, text)
        self.assertEqual(text.count("supervise: started"), 1, text)
        self.assertIn("giving up: the command ended with 66", text)

    def test_codes_of_a_launcher_and_of_the_shell_before_training_began_are_fatal(self):
        for code in (1, 127):
            process = self.start(*SHELL, f"exit {code}")
            text = self.end_of(process)
            self.assertEqual((process.returncode, text.count("supervise: started")), (code, 1), text)

    def test_retryable_ends_are_counted(self):
        for ending, code in (("exit 69", 69), ("exit 74", 74), ("kill -9 $$", 137), ("exit 137", 137), ("exit 141", 141)):
            process = self.start("--max-restarts", 2, *SHELL, ending)
            text = self.end_of(process)
            self.assertEqual((process.returncode, text.count("supervise: started")), (code, 3), text)
            self.assertIn("restart 2 of 2 in 0.2 s", text)
            self.assertIn("giving up after 2 restarts without a new checkpoint", text)

    def test_starts_that_come_no_further_are_counted(self):
        train = self.train("still", "--max-steps", 1, ranks=1)
        process = self.start("--max-restarts", 2, *SHELL, '"$@"; exit 74', "sh", *train)
        text = self.end_of(process)
        self.assertEqual((process.returncode, text.count("supervise: started")), (74, 3), text)
        self.assertIn("giving up after 2 restarts without a new checkpoint", text)

    def test_the_folder_may_stand_in_the_file_of_options(self):
        """Two steps more a start, each of which is killed but the last: each comes to a new checkpoint."""
        folder = self.path("filed")
        config = self.path("filed.ini")
        self.write("filed.ini", f"model-dir = {folder}\nsave-every = 1\n".encode())
        words = ["--corpus", self.corpus, "--config", config, *OPTIONS[: OPTIONS.index("--save-every")], "--save-every", "1"]
        script = 'n=$(ls "$0" 2>/dev/null | grep -c "^checkpoint.*h5$"); "$@" --keep-checkpoints 20 --max-steps $((n + 2)); [ $n -ge 8 ] || kill -9 $$'
        for option in ([], ["--model-dir", self.path("none")]):  # what is told to it counts
            process = self.start("--max-restarts", 2, *option, *SHELL, script, folder, *support.command("train", *words))
            text = self.end_of(process)
            self.assertEqual(process.returncode, 0 if not option else 137, text)
            self.assertEqual("restart 2 of 2" in text, bool(option), text)
            self.assertNotIn("names no run folder", text)
            shutil.rmtree(folder)
        process = self.start("--max-restarts", 0, *SHELL, "exit 74")
        self.assertIn("the command names no run folder", self.end_of(process))

    def test_processes_that_the_command_leaves_are_ended(self):
        mark = f"{time.time_ns()}"
        code = "import sys, time; time.sleep(600)"
        left = f"{sys.executable} -c '{code}' {mark} & exit 3"
        process = self.start(*SHELL, left)
        text = self.end_of(process)
        self.assertEqual(process.returncode, 3, text)
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
        steps = ["--max-steps", STEPS]
        options = ["--back-off", 0.1, "--launcher-timeout", 1, "--"]
        process = self.start(*options, self.launcher("hung"), *self.train("outlived", *steps, ranks=1))
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
        process = self.start(*options, self.launcher("asked"), *self.train("stopped", "--max-steps", 1000000, ranks=1))
        self.wait_for(lambda: self.status("stopped")["state"] == "running", process)
        os.kill(self.status("stopped")["pid"], signal.SIGUSR1)
        text = self.end_of(process)
        self.assertEqual(process.returncode, 75, text)
        self.assertIn("it is killed", text)
        self.assertIn("the command ended with 75; stopped at step", text)

    def test_a_script_that_goes_on_after_training_is_left_alone(self):
        train = self.train("quiet", "--max-steps", 1, ranks=1)
        script = ["sh", "-c", '"$@"; sleep 4; exit 0', "sh"]
        process = self.start("--launcher-timeout", 1, "--", *script, *train)
        text = self.end_of(process)
        self.assertEqual(process.returncode, 0, text)
        self.assertNotIn("has had no rank", text)
        busy = self.launcher("busy", "sleep 4")  # it has a child
        process = self.start("--launcher-timeout", 1, "--", busy, *train)
        text = self.end_of(process)
        self.assertEqual(process.returncode, 0, text)
        self.assertNotIn("has had no rank", text)

    def test_open_mpi_is_told_not_to_sleep_before_it_ends_ranks(self):
        show = ["--", "sh", "-c", "echo timeout $OMPI_MCA_odls_base_sigkill_timeout"]
        for variables, timeout in (({}, b"0"), ({"OMPI_MCA_odls_base_sigkill_timeout": 7}, b"7")):
            told = subprocess.run([support.SUPERVISE, *show], capture_output=True, check=True, env=support.environment(**variables))
            self.assertEqual(told.stdout, b"timeout " + timeout + b"\n")

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
            text = self.end_of(process := self.start(*words))
            self.assertEqual(process.returncode, code, text)
            self.assertIn(says, text)

    def test_help_behind_two_dashes_is_of_the_command(self):
        output = subprocess.run([support.SUPERVISE, "--", support.BINARY, "train", "--help"], capture_output=True, check=True).stdout
        self.assertIn(b"ventris train", output)


if __name__ == "__main__":
    unittest.main(verbosity=2)
