# SPDX-License-Identifier: Apache-2.0
"""A job of 64 ranks on whatever cores there are: it starts, trains, loses a rank, and resumes on other numbers of ranks."""

import os
import signal
import unittest

import support

RANKS = 64


@unittest.skipUnless(support.MPIEXEC, "built without MPI")
class ManyRanks(support.RunTest):
    # 64 shards, which just hold the longest sentence: every rank has one.
    MODEL = support.later_win(
        *(*support.TINIEST_MODEL, "--dropout", 0.2, "--batch-source-tokens", 6400, "--batch-target-tokens", 6400, "--logical-shards", 64),
        *("--device", "cpu", "--reduction", "reproducible", "--save-every", 2, "--max-steps", 8),
    )
    CORPUS = {"train_pairs": 3000, "vocabulary": 120}

    def test_they_train_and_resume_after_one_is_killed_to_the_bits_of_one_rank(self):
        self.succeed(*self.train("alone"))
        words = support.command(*self.train("many", "--shard-optimizer"), ranks=RANKS, sanitizer=support.SANITIZER_OF_THE_KILLED)
        process = support.start(words)
        self.addCleanup(process.kill)
        self.wait_for(lambda: os.path.exists(self.checkpoint("many", 2)), process)
        ranks = support.children_of(process.pid)
        self.assertEqual(len(ranks), RANKS)
        os.kill(ranks[RANKS // 2], signal.SIGKILL)
        text = self.end_of(process)
        self.assertNotEqual(process.returncode, 0, text)
        self.assertFalse(os.path.exists(self.checkpoint("many", 8)), "it was killed too late")
        self.succeed(*self.train("many", max_steps=6), ranks=24)
        self.succeed(*self.train("many", "--shard-optimizer"), ranks=RANKS)
        self.assert_same_parameters("many", "alone", 8)


if __name__ == "__main__":
    unittest.main()
