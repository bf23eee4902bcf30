# SPDX-License-Identifier: Apache-2.0
"""A job of 64 ranks on whatever cores there are: it starts, trains, loses a rank, and resumes on other numbers of ranks."""

import json
import os
import signal
import unittest

import support

# 64 shards, which just hold the longest sentence: every rank has one.
MODEL = [
    *("--encoder-layers", 1, "--decoder-layers", 1, "--d-model", 16, "--d-ff", 32, "--heads", 2, "--dropout", 0.2),
    *("--batch-source-tokens", 6400, "--batch-target-tokens", 6400, "--logical-shards", 64, "--warmup-steps", 20),
    *("--valid-every", 0, "--log-every", 1, "--threads", 1, "--device", "cpu", "--reduction", "reproducible"),
    *("--save-every", 2, "--check-ranks-every", 4),
]
RANKS = 64


@unittest.skipUnless(support.MPIEXEC, "built without MPI")
class ManyRanks(support.CommandLineTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.corpus = cls.prepare_demo(train_pairs=3000, vocabulary=120)

    def words(self, name, steps=8):
        return ["train", "--corpus", self.corpus, "--model-dir", self.path(name), *MODEL, "--max-steps", steps]

    def ranks_of(self, process):
        """Process ids of the ranks of a job."""
        found = []
        for task in os.listdir(f"/proc/{process.pid}/task"):
            with open(f"/proc/{process.pid}/task/{task}/children", encoding="ascii") as children:
                found += [int(child) for child in children.read().split()]
        return found

    def digest(self, name):
        path = self.path(name, "checkpoint-00000008.h5")
        return json.loads(self.succeed("inspect", path, "--json"))["parameter_digest"]

    def test_they_train_and_resume_after_one_is_killed_to_the_bits_of_one_rank(self):
        self.succeed(*self.words("alone"))
        process = support.start(
            support.command(*self.words("many"), "--shard-optimizer", ranks=RANKS, sanitizer=support.SANITIZER_OF_THE_KILLED)
        )
        saved = self.path("many", "checkpoint-00000002.h5")
        self.assertTrue(support.wait_for(lambda: os.path.exists(saved), process, seconds=120))
        self.addCleanup(process.kill)
        ranks = self.ranks_of(process)
        self.assertEqual(len(ranks), RANKS)
        os.kill(ranks[RANKS // 2], signal.SIGKILL)
        text = process.communicate(timeout=120)[1].decode(errors="replace")
        self.assertNotEqual(process.returncode, 0, text)
        self.assertFalse(os.path.exists(self.path("many", "checkpoint-00000008.h5")), "it was killed too late")
        self.succeed(*self.words("many", steps=6), ranks=24)
        self.succeed(*self.words("many"), "--shard-optimizer", ranks=RANKS)
        self.assertEqual(self.digest("many"), self.digest("alone"))


if __name__ == "__main__":
    unittest.main()
