# SPDX-License-Identifier: Apache-2.0
"""A rank that is killed ends the job: the launcher names it with its signal, and no process of the job lives on."""

import os
import signal
import subprocess
import time
import unittest

import support

FAULTS = os.environ.get("VENTRIS_FAULTS", "")
MODEL = [
    *("--encoder-layers", "1", "--decoder-layers", "1", "--d-model", "16", "--d-ff", "32", "--heads", "2"),
    *("--batch-source-tokens", "400", "--batch-target-tokens", "400", "--logical-shards", "4"),
    *("--warmup-steps", "20", "--valid-every", "0", "--log-every", "1", "--threads", "1"),
]


def is_running(process):
    try:
        with open(f"/proc/{process}/stat", encoding="ascii") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


@unittest.skipUnless(support.MPIEXEC, "built without MPI")
class KilledRanks(support.CommandLineTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.corpus = cls.prepare_demo(train_pairs=200, vocabulary=120)

    def start(self, name, *options, ranks, **variables):
        folders = ["--corpus", self.corpus, "--model-dir", self.path(name)]
        words = support.command("train", *folders, *MODEL, *options, ranks=ranks, sanitizer=support.SANITIZER_OF_THE_KILLED)
        return support.start(words, **variables)

    def ranks_of(self, process):
        """Process ids by rank."""
        if process.poll() is not None:
            self.fail(process.communicate()[1].decode(errors="replace"))
        with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="ascii") as children:
            return [int(child) for child in children.read().split()]

    def end_of(self, process, processes):
        """What the job said, once it has ended with all its processes."""
        try:
            text = process.communicate(timeout=60)[1].decode(errors="replace")
        except subprocess.TimeoutExpired:
            process.kill()
            self.fail(process.communicate()[1].decode(errors="replace"))
        self.wait_until_gone(processes, text)
        return text

    def wait_until_gone(self, processes, text):
        deadline = time.monotonic() + 10
        while any(map(is_running, processes)) and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertEqual([pid for pid in processes if is_running(pid)], [], text)

    def check_kill(self, name, ranks, victim, sent):
        process = self.start(name, "--max-steps", 1000000, "--save-every", 5, ranks=ranks)
        support.wait_for(lambda: self.status(name)["last_checkpoint"], process)
        processes = self.ranks_of(process)
        self.assertEqual(len(processes), ranks)
        os.kill(processes[victim], sent)
        text = self.end_of(process, processes)
        self.assertEqual(process.returncode, 128 + sent, text)
        self.assertRegex(
            text, rf"process rank {victim} with PID \d+ on node {os.uname().nodename} exited on signal {int(sent)} "
        )
        status = self.status(name)
        self.assertEqual((status["state"], status["exit_code"]), ("running", None))
        self.succeed("inspect", status["last_checkpoint"], "--verify")

    def test_of_two(self):
        for victim, sent in ((0, signal.SIGKILL), (1, signal.SIGKILL), (0, signal.SIGSEGV), (1, signal.SIGBUS)):
            with self.subTest(victim=victim, signal=sent.name):
                self.check_kill(f"two{victim}{sent.name}", 2, victim, sent)

    def test_of_four(self):
        for victim, sent in ((0, signal.SIGBUS), (2, signal.SIGKILL), (3, signal.SIGSEGV)):
            with self.subTest(victim=victim, signal=sent.name):
                self.check_kill(f"four{victim}{sent.name}", 4, victim, sent)

    @unittest.skipUnless(FAULTS, "built with a sanitizer, which wants to be the first library")
    def test_a_rank_that_hangs_in_mpi_finalize_is_not_waited_for_without_end(self):
        faults = {"LD_PRELOAD": FAULTS, "VENTRIS_FAULT_STOP_IN_FINALIZE": 1}
        process = self.start("last", "--max-steps", 10, "--comm-timeout", 8, ranks=3, **faults)
        support.wait_for(lambda: self.status("last")["last_checkpoint"], process)
        processes = self.ranks_of(process)
        text = self.end_of(process, processes)
        self.assertEqual(process.returncode, 69, text)
        self.assertRegex(
            text,
            r"\[rank [02] on \S+\] ventris: error: rank [02] \(pid \d+\) has waited 8 s in \S+ for other ranks"
            rf"; on this host rank 1 \(pid {processes[1]}\) is stopped",
        )
        self.assertEqual(text.count("ventris: error: "), 1, text)
        self.assertEqual(self.status("last")["state"], "done")
        self.succeed("inspect", self.path("last", "checkpoint-00000010.h5"), "--verify")


if __name__ == "__main__":
    unittest.main(verbosity=2)
