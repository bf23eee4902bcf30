# SPDX-License-Identifier: Apache-2.0
"""A disk that is slow makes ranks wait, not end; one that hangs ends the job in VENTRIS_SAVE_TIMEOUT seconds."""

import os
import signal
import time
import unittest

import support

FAULTS = os.environ.get("VENTRIS_FAULTS", "")


@unittest.skipUnless(FAULTS, "built with a sanitizer, which wants to be the first library")
class SlowDisk(support.RunTest):
    MODEL = [*support.TINIEST_MODEL, "--save-every", "2", "--max-steps", 6]
    CORPUS = {"train_pairs": 200, "vocabulary": 120}

    def start(self, name, ranks, step=0, seconds=0, limit="", **settings):
        """Starts a run whose first fsync of the checkpoint of this step takes so many seconds longer; 0: for ever."""
        faults = {
            "VENTRIS_SAVE_TIMEOUT": limit,
            "LD_PRELOAD": FAULTS,
            "VENTRIS_FAULT_PREFIX": self.checkpoint(name, step),
            "VENTRIS_FAULT_NAMED_ONLY": 1,  # so that its file can be told from others
            "VENTRIS_FAULT_CALL": "fsync",
            "VENTRIS_FAULT_LOG": self.path(f"{name}.calls"),
            "VENTRIS_FAULT_AT": 1,
            "VENTRIS_FAULT": "wait",
            "VENTRIS_FAULT_SECONDS": seconds,
        }
        return support.start(support.command(*self.train(name, **settings), ranks=ranks), **(faults if step else {}))

    @unittest.skipUnless(support.MPIEXEC, "built without MPI")
    def test_a_save_may_take_longer_than_ranks_wait_for_one_another(self):
        for step in (4, 6):  # the next save waits for it; the end does
            name = f"slow{step}"
            text = self.end_of(self.start(name, 2, step, seconds=6, comm_timeout=3), 0)
            self.assertNotIn("error: ", text)
            self.succeed("inspect", self.checkpoint(name, 6), "--verify")

    @unittest.skipUnless(support.MPIEXEC, "built without MPI")
    def test_a_rank_that_hangs_while_a_save_is_waited_for_is_found(self):
        process = self.start("silent", 2, step=4, seconds=12, comm_timeout=5)
        self.wait_for(lambda: os.path.exists(self.path("silent.calls")), process)
        time.sleep(0.5)  # from here on rank 0 waits for the disk; steps take a millisecond
        rank = support.children_of(process.pid)[1]
        os.kill(rank, signal.SIGSTOP)
        text = self.end_of(process, 69)
        self.assertRegex(text, rf"rank 0 of 2 has waited 5(\.\d)? s in .* for rank 1 on \S+ \(pid {rank}, stopped\)")

    def test_a_disk_that_hangs_ends_the_job(self):
        host = os.uname().nodename
        for ranks in (1, 2) if support.MPIEXEC else (1,):
            name = f"hanging{ranks}"
            self.end_of(self.start(name, ranks, max_steps=2), 0)
            before = self.read(self.checkpoint(name, 2))
            text = self.end_of(self.start(name, ranks, step=4, limit=2, comm_timeout=60), 74)
            self.assertRegex(text, rf"(?m)^{rf'.rank 0 on {host}. ' if ranks > 1 else ''}ventris train: error: rank 0 on {host} has been writing "
                                   rf"{self.checkpoint(name, 4)} for 2 s, longer than VENTRIS_SAVE_TIMEOUT allows: ")  # fmt: skip
            self.assertEqual(self.read(self.checkpoint(name, 2)), before)
            self.assertFalse(os.path.exists(self.checkpoint(name, 4)))
            text = self.end_of(self.start(name, ranks), 0)
            self.assertIn(f"resuming from {self.checkpoint(name, 2)} at step 2", text)
            self.assertFalse([file for file in os.listdir(self.path(name)) if ".tmp." in file])

    def test_a_limit_that_is_none_is_refused(self):
        for limit in ("soon", "2s", "-1", "nan", "1e9"):
            self.refuse(64, *self.train("refused"), variables={"VENTRIS_SAVE_TIMEOUT": limit}, says=f"VENTRIS_SAVE_TIMEOUT={limit}: expected seconds")
        self.assertFalse(os.path.exists(self.path("refused")))


if __name__ == "__main__":
    unittest.main(verbosity=2)
