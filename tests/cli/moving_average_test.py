# SPDX-License-Identifier: Apache-2.0
"""train --ema: the moving average in checkpoints, and who takes it."""

import json
import unittest

import h5py

import support
from digest_test import seal_hdf5


def ema(path):
    return support.datasets(path, "ema")


class MovingAverage(support.RunTest):
    CORPUS = {"train_pairs": 200}

    def assert_equal(self, got, expected):
        self.assertEqual(list(got), list(expected))
        for name, values in expected.items():
            self.assertTrue((got[name] == values).all(), name)

    def test_is_kept_exported_and_continued(self):
        self.succeed(*self.train("run", ema=0.9, max_steps=20, save_every=10))
        last = self.checkpoint("run", 20)
        average, model = ema(last), support.parameters(last)
        self.assertEqual({n: v.shape for n, v in average.items()}, {n: v.shape for n, v in model.items()})
        self.assertFalse((average["embedding"] == model["embedding"]).all())
        for command, expected in ((("export", "--model"), average), (("average", "--checkpoints"), model)):
            self.succeed(*command, last, "--output", self.path("weights.h5"))
            self.assert_equal(support.parameters(self.path("weights.h5")), expected)
        self.succeed(*self.train("run", ema=0.9, max_steps=30))
        self.succeed(*self.train("whole", ema=0.9, max_steps=30))
        self.assert_same_checkpoints("run", "whole", 30, lambda path: support.datasets(path, "ema", "model"))
        self.succeed("inspect", last, "--verify")
        with h5py.File(last, "r+") as file:  # which are not those of translations
            file["model/embedding"][0, 0] += 1
        seal_hdf5(last)
        self.refuse(65, "inspect", last, "--verify", says=[last, "parameters have the digest"])

    @unittest.skipUnless(support.MPIEXEC, "built without MPI")
    def test_chooses_the_best_by_chrf_on_all_ranks(self):
        options = {"ema": 0.5, "max_steps": 20, "logical_shards": 2, "valid_every": 10, "valid_metric": "chrf", "valid_max_sentences": 5}
        result = json.loads(self.succeed(*self.train("ranks", **options), "--json", ranks=2))
        chrf = self.values("ranks", "valid_chrf")
        self.assertEqual(list(chrf), [10, 20])
        self.assertAlmostEqual(result["best_chrf"], max(chrf.values()))
        self.assertEqual(chrf[result["best_step"]], max(chrf.values()))


if __name__ == "__main__":
    unittest.main(verbosity=2)
