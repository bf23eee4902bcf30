# SPDX-License-Identifier: Apache-2.0
"""ventris train: what a run writes, what it repeats, and what it refuses."""

import json
import os
import unittest

import support


class Train(support.RunTest):
    def test_a_run_folder_has_what_it_should(self):
        result = json.loads(self.succeed(*self.train("run", max_steps=12, valid_every=6, save_every=4), "--json"))
        self.assertEqual((result["end"], result["step"]), ("done", 12))
        self.assertEqual(result["last_checkpoint"], self.checkpoint("run", 12))
        self.assertIn(result["best_step"], (6, 12))
        intervals = [line for line in self.lines("run") if "loss" in line]
        validations = [line for line in self.lines("run") if "valid_loss" in line]
        self.assertEqual([line["step"] for line in validations], [6, 12])
        self.assertEqual(intervals[-1]["step"], 12)
        self.assertLess(intervals[-1]["loss"], intervals[0]["loss"])

    def test_the_last_checkpoint_follows_the_last_validation(self):
        # Else a run that is killed between them ends without that validation.
        words = self.train("last", max_steps=10, valid_every=8, save_every=5)
        self.succeed(*words)
        self.assertIn("valid_loss", self.lines("last")[-1])
        self.assertGreaterEqual(os.stat(self.checkpoint("last", 10)).st_mtime_ns, os.stat(self.path("last", "metrics.jsonl")).st_mtime_ns)
        # Nor is the checkpoint that was the best before left as the best.
        best = json.loads(self.read(self.path("last", "best.json")))
        older = json.dumps({**best, "checkpoint": "checkpoint-00000005.h5", "value": 0})
        self.write(os.path.join("last", "best.json"), older)
        self.succeed(*words)
        self.assertEqual(json.loads(self.read(self.path("last", "best.json"))), best)

    def test_a_profile_tells_the_phases_and_changes_no_bit(self):
        result = support.run(*self.train("profiled", max_steps=6, logical_shards=2), "--profile", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.succeed(*self.train("unprofiled", max_steps=6, logical_shards=2))
        self.assert_same_parameters("profiled", "unprofiled", 6)
        support.check_profile(self, result, steps=4)
        self.assertIn("too few steps", self.told(*self.train("short", max_steps=2), "--profile"))

    def test_two_runs_and_any_threads_write_the_same_parameters_and_another_seed_does_not(self):
        for name, settings in (("one", {}), ("again", {}), ("threads", {"threads": 2}), ("other", {"seed": 2})):
            self.succeed(*self.train(name, max_steps=4, **settings))
        self.assert_same_parameters("again", "one", 4)
        self.assert_same_parameters("threads", "one", 4)
        with self.assertRaises(AssertionError):
            self.assert_same_parameters("other", "one", 4)

    @unittest.skipUnless(support.MPIEXEC, "built without MPI")
    def test_one_message_for_a_failure_of_all_ranks(self):
        words = ("train", "--corpus", self.path("none.h5"), "--model-dir", self.path("m"))
        message = self.told(*words, ranks=2, code=66)
        self.assertEqual(message.count("ventris train: error: "), 1, message)
        self.assertRegex(message, r"\[rank 0 on \S+\] ventris train: error: .*none\.h5")
        self.told("export", "--model", "x", "--output", self.path("w.h5"), ranks=2, code=64)  # a command of one process

    def test_settings_that_cannot_be(self):
        self.refuse(78, *self.train("bad", max_positions=4), says="max")
        self.refuse(78, *self.train("bad", heads=3), says="heads")
        self.refuse(78, *self.train("bad", batch_source_tokens=3), says="batch-source-tokens")
        file = self.write("file", "x")
        self.refuse(73, *self.train("file/run", max_steps=2), says=file)


if __name__ == "__main__":
    unittest.main(verbosity=2)
