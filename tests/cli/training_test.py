# SPDX-License-Identifier: Apache-2.0
"""ventris train: what a run writes, what it repeats, its moving average (--ema), and what it refuses."""

import json
import os
import unittest

import h5py

import support
from digest_test import seal_hdf5


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

    def test_a_model_with_gelu_is_trained_resumed_and_exported(self):
        gelu = ["--activation", "gelu", "--save-every", 4]
        self.succeed(*self.train("gelu", *gelu, max_steps=4))
        self.succeed(*self.train("gelu", *gelu, max_steps=8))
        self.succeed(*self.train("at-once", *gelu, max_steps=8))
        self.assert_same_checkpoints("gelu", "at-once", 8)
        self.succeed(*self.train("relu", max_steps=8))
        with self.assertRaises(AssertionError):
            self.assert_same_parameters("gelu", "relu", 8)
        self.refuse(78, *self.train("gelu", max_steps=9), says=["--activation gelu", "has relu"])
        with h5py.File(self.checkpoint("gelu", 8)) as file:
            self.assertEqual(json.loads(file.attrs["config"])["activation"], "gelu")
        self.refuse(78, "export", "--model", self.path("gelu"), "--format", "marian", "--output", self.path("marian"), says="exact GELU")

    def test_settings_that_cannot_be(self):
        self.refuse(78, *self.train("bad", max_positions=4), says="max")
        self.refuse(78, *self.train("bad", heads=3), says="heads")
        self.refuse(78, *self.train("bad", batch_source_tokens=3), says="batch-source-tokens")
        file = self.write("file", "x")
        self.refuse(73, *self.train("file/run", max_steps=2), says=file)

    def assert_equal_tensors(self, got, expected):
        self.assertEqual(list(got), list(expected))
        for name, values in expected.items():
            self.assertTrue((got[name] == values).all(), name)

    def test_a_moving_average_is_kept_exported_and_continued(self):
        self.succeed(*self.train("ema", ema=0.9, max_steps=20, save_every=10))
        last = self.checkpoint("ema", 20)
        average, model = support.datasets(last, "ema"), support.parameters(last)
        self.assertEqual({n: v.shape for n, v in average.items()}, {n: v.shape for n, v in model.items()})
        self.assertFalse((average["embedding"] == model["embedding"]).all())
        for command, expected in ((("export", "--model"), average), (("average", "--checkpoints"), model)):
            self.succeed(*command, last, "--output", self.path("weights.h5"))
            self.assert_equal_tensors(support.parameters(self.path("weights.h5")), expected)
        self.succeed(*self.train("ema", ema=0.9, max_steps=30))
        self.succeed(*self.train("ema-whole", ema=0.9, max_steps=30))
        self.assert_same_checkpoints("ema", "ema-whole", 30, lambda path: support.datasets(path, "ema", "model"))
        self.succeed("inspect", last, "--verify")
        with h5py.File(last, "r+") as file:  # which are not those of translations
            file["model/embedding"][0, 0] += 1
        seal_hdf5(last)
        self.refuse(65, "inspect", last, "--verify", says=[last, "parameters have the digest"])

    @unittest.skipUnless(support.MPIEXEC, "built without MPI")
    def test_a_moving_average_chooses_the_best_by_chrf_on_all_ranks(self):
        options = {"ema": 0.5, "max_steps": 20, "logical_shards": 2, "valid_every": 10, "valid_metric": "chrf", "valid_max_sentences": 5}
        result = json.loads(self.succeed(*self.train("ranks", **options), "--json", ranks=2))
        chrf = self.values("ranks", "valid_chrf")
        self.assertEqual(list(chrf), [10, 20])
        self.assertAlmostEqual(result["best_chrf"], max(chrf.values()))
        self.assertEqual(chrf[result["best_step"]], max(chrf.values()))


if __name__ == "__main__":
    unittest.main(verbosity=2)
