# SPDX-License-Identifier: Apache-2.0
"""A disk that is slow makes ranks wait, not end; one that hangs ends the job in --save-timeout."""

import os
import shutil
import signal
import subprocess
import time
import unittest

import support

FAULTS = os.environ.get("VENTRIS_FAULTS", "")
MODEL = [
    *("--encoder-layers", "1", "--decoder-layers", "1", "--d-model", "16", "--d-ff", "32", "--heads", "2"),
    *("--batch-source-tokens", "192", "--batch-target-tokens", "192", "--logical-shards", "2"),
    *("--warmup-steps", "20", "--valid-every", "0", "--threads", "1", "--save-every", "2"),
]


@unittest.skipUnless(FAULTS, "built with a sanitizer, which wants to be the first library")
class SlowDisk(support.CommandLineTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.corpus = cls.prepare_demo(train_pairs=200, vocabulary=120)

    def start(self, name, *options, ranks, steps=6, step=0, seconds=0):
        """Starts a run whose first fsync of the checkpoint of this step takes so many seconds longer; 0: for ever."""
        folders = ["--corpus", self.corpus, "--model-dir", self.path(name)]
        faults = {
            "LD_PRELOAD": FAULTS,
            "VENTRIS_FAULT_PREFIX": self.checkpoint(name, step),
            "VENTRIS_FAULT_NAMED_ONLY": 1,  # so that its file can be told from others
            "VENTRIS_FAULT_CALL": "fsync",
            "VENTRIS_FAULT_LOG": self.path(f"{name}.calls"),
            "VENTRIS_FAULT_AT": 1,
            "VENTRIS_FAULT": "wait",
            "VENTRIS_FAULT_SECONDS": seconds,
        }
        words = support.command("train", *folders, *MODEL, "--max-steps", steps, *options, ranks=ranks)
        return support.start(words, **(faults if step else {}))

    def checkpoint(self, name, step):
        return self.path(name, f"checkpoint-{step:08}.h5")

    def end_of(self, process):
        """What the job said."""
        try:
            return process.communicate(timeout=60)[1].decode(errors="replace")
        except subprocess.TimeoutExpired:
            process.kill()
            self.fail(process.communicate()[1].decode(errors="replace"))

    def check_whole_run(self, name, process, last=6):
        text = self.end_of(process)
        self.assertEqual(process.returncode, 0, text)
        self.assertNotIn("error: ", text)
        self.succeed("inspect", self.checkpoint(name, last), "--verify")

    @unittest.skipUnless(support.MPIEXEC, "built without MPI")
    def test_a_save_may_take_longer_than_ranks_wait_for_one_another(self):
        for step in (4, 6):  # the next save waits for it; the end does
            name = f"slow{step}"
            process = self.start(name, "--comm-timeout", 4, ranks=2, step=step, seconds=7)
            self.check_whole_run(name, process)

    @unittest.skipUnless(support.MPIEXEC, "built without MPI")
    def test_a_rank_that_hangs_while_a_save_is_waited_for_is_found(self):
        process = self.start("silent", "--comm-timeout", 5, ranks=2, step=4, seconds=12)
        deadline = time.monotonic() + 60
        while not os.path.exists(self.path("silent.calls")) and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.5)  # from here on rank 0 waits for the disk; steps take a millisecond
        with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="ascii") as children:
            ranks = [int(child) for child in children.read().split()]
        os.kill(ranks[1], signal.SIGSTOP)
        text = self.end_of(process)
        self.assertEqual(process.returncode, 69, text)
        self.assertRegex(text, rf"rank 0 of 2 has waited 5(\.\d)? s in .* for rank 1 on \S+ \(pid {ranks[1]}, stopped\)")

    def check_hanging_disk(self, name, ranks):
        self.check_whole_run(name, self.start(name, ranks=ranks, steps=2), last=2)
        before = self.read(self.checkpoint(name, 2))
        process = self.start(name, "--save-timeout", 2, "--comm-timeout", 60, ranks=ranks, step=4)
        text = self.end_of(process)
        self.assertEqual(process.returncode, 74, text)
        place = rf"\[rank 0 on {os.uname().nodename}\] " if ranks > 1 else ""
        self.assertRegex(
            text,
            rf"(?m)^{place}ventris train: error: rank 0 on {os.uname().nodename} has been writing "
            rf"{self.checkpoint(name, 4)} for 2 s, longer than --save-timeout allows: .* raise --save-timeout",
        )
        self.assertEqual(self.read(self.checkpoint(name, 2)), before)
        self.assertFalse(os.path.exists(self.checkpoint(name, 4)))
        process = self.start(name, ranks=ranks)
        text = self.end_of(process)
        self.assertEqual(process.returncode, 0, text)
        self.assertIn(f"resuming from {self.checkpoint(name, 2)} at step 2", text)
        self.assertFalse([file for file in os.listdir(self.path(name)) if ".tmp." in file])
        shutil.rmtree(self.path(name))

    def test_a_disk_that_hangs_ends_the_run(self):
        self.check_hanging_disk("hanging1", ranks=1)

    @unittest.skipUnless(support.MPIEXEC, "built without MPI")
    def test_a_disk_that_hangs_ends_the_job(self):
        self.check_hanging_disk("hanging2", ranks=2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
