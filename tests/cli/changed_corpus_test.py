# SPDX-License-Identifier: Apache-2.0
"""A corpus that is changed, cut or replaced in place while a run has it mapped: never a crash, always 65."""

import json
import os
import signal
import unittest

import support


def write_over(path, data):
    with open(path, "r+b") as file:
        file.write(data)
        file.truncate(len(data))


class ChangedCorpus(support.RunTest):
    """Each change is made where the next check of the file is some hundred steps away: mostly the reading itself meets it."""

    def change_while_training(self, change, ranks=1, **settings):
        sound = self.read(self.corpus)
        run = f"run{len(os.listdir(self.folder))}"
        settings = {"max_steps": 1000000, "save_every": 0, "valid_every": 0, "log_every": 300, **settings}
        process = support.start(support.command(*self.train(run, **settings), ranks=ranks))
        self.addCleanup(process.kill)
        status = self.path(run, "status.json")
        self.wait_for(lambda: os.path.exists(status), process)
        try:
            change(self.corpus)
            message = self.end_of(process, 65)
        finally:
            write_over(self.corpus, sound)
        self.assertIn("changed while this run read it", message)
        told = json.loads(self.read(status))
        self.assertEqual((told["state"], told["exit_code"], told["retryable"]), ("failed", 65, False), told)

    def test_a_signal_of_a_crash_that_somebody_sends_ends_the_run_as_ever(self):
        for number in (signal.SIGSEGV, signal.SIGBUS):
            run = f"killed{number}"
            process = support.start(support.command(*self.train(run, max_steps=1000000, save_every=0, valid_every=0)))
            self.addCleanup(process.kill)
            self.assertTrue(support.wait_for(lambda: os.path.exists(self.path(run, "status.json")), process))  # noqa: B023
            process.send_signal(number)
            process.communicate(timeout=600)
            self.assertEqual(process.returncode, -number)

    def test_a_corpus_that_is_cut(self):
        for length in (0, 4096):
            self.change_while_training(lambda path: os.truncate(path, length))  # noqa: B023

    def test_a_corpus_whose_bytes_are_written_over(self):
        size = os.path.getsize(self.corpus)
        for filling in (b"\x5a", b"\x00"):
            self.change_while_training(lambda path: write_over(path, filling * size))  # noqa: B023

    @unittest.skipUnless(support.MPIEXEC, "built without MPI")
    def test_ranks_end_alike(self):
        self.change_while_training(lambda path: os.truncate(path, 0), ranks=2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
