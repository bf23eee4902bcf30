# SPDX-License-Identifier: Apache-2.0
"""A rank that is killed ends the job: the launcher names it with its signal, and no process of the job lives on."""

import os
import signal
import time
import unittest

import support

FAULTS = os.environ.get("VENTRIS_FAULTS", "")


@unittest.skipUnless(support.MPIEXEC, "built without MPI")
class KilledRanks(support.RunTest):
    MODEL = support.later_win(*support.TINIEST_MODEL, "--batch-source-tokens", 400, "--batch-target-tokens", 400, "--logical-shards", 4)
    CORPUS = {"train_pairs": 200, "vocabulary": 120}

    def start(self, name, ranks, variables=None, **settings):
        words = support.command(*self.train(name, **settings), ranks=ranks, sanitizer=support.SANITIZER_OF_THE_KILLED)
        process = support.start(words, **(variables or {}))
        self.wait_for(lambda: self.status(name)["last_checkpoint"], process)
        processes = support.children_of(process.pid)
        self.assertEqual(len(processes), ranks)
        return process, processes

    def end_of_all(self, process, processes, code):
        """What the job said, once it has ended with all its processes."""
        text = self.end_of(process, code)
        deadline = time.monotonic() + 20
        while any(map(support.is_running, processes)) and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertEqual([pid for pid in processes if support.is_running(pid)], [], text)
        return text

    def test_any_signal_to_any_rank(self):
        for ranks, victim, sent in ((2, 0, signal.SIGKILL), (2, 1, signal.SIGSEGV), (4, 0, signal.SIGBUS), (4, 2, signal.SIGKILL)):
            with self.subTest(ranks=ranks, victim=victim, signal=sent.name):
                name = f"{ranks}-{victim}-{sent.name}"
                process, processes = self.start(name, ranks, max_steps=1000000, save_every=5)
                os.kill(processes[victim], sent)
                text = self.end_of_all(process, processes, 128 + sent)
                self.assertRegex(text, rf"process rank {victim} with PID \d+ on node {os.uname().nodename} exited on signal {int(sent)} ")
                status = self.status(name)
                self.assertEqual((status["state"], status["exit_code"]), ("running", None))
                self.succeed("inspect", status["last_checkpoint"], "--verify")

    @unittest.skipUnless(FAULTS, "built with a sanitizer, which wants to be the first library")
    def test_a_rank_that_hangs_in_mpi_finalize_is_not_waited_for_without_end(self):
        faults = {"LD_PRELOAD": FAULTS, "VENTRIS_FAULT_STOP_IN_FINALIZE": 1}
        process, processes = self.start("last", 3, faults, max_steps=10, comm_timeout=8)
        text = self.end_of_all(process, processes, 69)
        self.assertRegex(text, r"\[rank [02] on \S+\] ventris: error: rank [02] \(pid \d+\) has waited 8 s in \S+ for other ranks"
                               rf"; on this host rank 1 \(pid {processes[1]}\) is stopped")  # fmt: skip
        self.assertEqual(self.status("last")["state"], "done")
        self.succeed("inspect", self.checkpoint("last", 10), "--verify")


if __name__ == "__main__":
    unittest.main(verbosity=2)
