# SPDX-License-Identifier: Apache-2.0
"""train --ema: the moving average in checkpoints, and who takes it."""

import json
import unittest

import h5py
import numpy

import support
from digest_test import seal_hdf5


class MovingAverage(support.CommandLineTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.corpus = cls.prepare_demo(train_pairs=200)

    def train(self, name, *options, valid_every=0, **more):
        model = list(support.TINY_MODEL)
        model[model.index("--valid-every") + 1] = valid_every
        return self.succeed(
            *("train", "--corpus", self.corpus, "--model-dir", self.path(name), *model),
            *("--save-every", 10, *options),
            **more,
        )

    def ema(self, path):
        found = {}
        with h5py.File(path, "r") as file:
            file["ema"].visititems(
                lambda name, item: found.__setitem__(name, item[()]) if isinstance(item, h5py.Dataset) else None
            )
        return found

    def assert_equal(self, got, expected):
        self.assertEqual(list(got), list(expected))
        for name, values in expected.items():
            self.assertTrue(numpy.array_equal(got[name], values), name)

    def test_is_kept_exported_and_continued(self):
        self.train("run", "--ema", 0.9, "--max-steps", 20)
        last = self.path("run", "checkpoint-00000020.h5")
        ema, model = self.ema(last), support.parameters(last)
        self.assertEqual({n: v.shape for n, v in ema.items()}, {n: v.shape for n, v in model.items()})
        self.assertFalse(numpy.array_equal(ema["embedding"], model["embedding"]))
        self.succeed("export", "--model", last, "--output", self.path("weights.h5"))
        self.assert_equal(support.parameters(self.path("weights.h5")), ema)
        self.assertIn(b": average of 1 checkpoint\n", self.succeed("average", "--checkpoints", last, "--output", self.path("averaged.h5")))
        self.assert_equal(support.parameters(self.path("averaged.h5")), model)
        self.train("run", "--ema", 0.9, "--max-steps", 30)
        self.train("whole", "--ema", 0.9, "--max-steps", 30)
        for read in (self.ema, support.parameters):
            end = "checkpoint-00000030.h5"
            self.assert_equal(read(self.path("run", end)), read(self.path("whole", end)))
        self.succeed("inspect", last, "--verify")
        with h5py.File(last, "r+") as file:  # which are not those of translations
            file["model/embedding"][0, 0] += 1
        seal_hdf5(last)
        self.refuse(65, "inspect", last, "--verify", says=[last, "parameters have the digest"])
        self.refuse(
            78,
            *("train", "--corpus", self.corpus, "--model-dir", self.path("run"), *support.TINY_MODEL),
            *("--max-steps", 40),
            says="ema 0.9, but this run has none",
        )

    @unittest.skipUnless(support.MPIEXEC, "built without MPI")
    def test_is_the_same_on_all_ranks_and_chooses_the_best_by_chrf(self):
        output = self.train(
            "ranks",
            *("--ema", 0.5, "--max-steps", 20, "--logical-shards", 2, "--json"),
            *("--valid-metric", "chrf", "--valid-max-sentences", 5),
            valid_every=10,
            ranks=2,
        )
        result = json.loads(output)
        lines = [json.loads(line) for line in self.read(self.path("ranks", "metrics.jsonl")).splitlines()]
        chrf = {line["step"]: line["valid_chrf"] for line in lines if "valid_chrf" in line}
        self.assertEqual(list(chrf), [10, 20])
        self.assertAlmostEqual(result["best_chrf"], max(chrf.values()))
        self.assertEqual(chrf[result["best_step"]], max(chrf.values()))

    def test_bad_options_are_refused(self):
        start = ("train", "--corpus", self.corpus, "--model-dir", self.path("bad"))
        self.refuse(64, *start, "--ema", 1, says="--ema")
        self.refuse(78, *start, "--valid-metric", "chrf", "--valid-beam-size", 0, says=["--valid-metric", "--valid-beam-size is 0"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
