# SPDX-License-Identifier: Apache-2.0
"""train --reduction, and runs that go on with another number of ranks."""

import json
import shutil
import unittest

import h5py
import numpy

import support


@unittest.skipUnless(support.MPIEXEC, "built without MPI")
class Reduction(support.RunTest):
    MODEL = [*support.TINY_MODEL, "--dropout", 0.3, "--attention-dropout", 0.1, "--save-every", 0]

    def state(self, path):
        """All numbers that the next step depends on: parameters, moments, place in the data."""
        found = {name: values.view(numpy.uint32) for name, values in support.datasets(path, "model", "adam").items()}
        with h5py.File(path, "r") as file:
            keys = ("step", "epoch", "epoch_index", "target_tokens", "logical_shards", "skipped_steps")
            return found | {key: file.attrs[key] for key in keys}

    def losses(self, name):
        return [(line["step"], line["loss"], line["gradient_norm"]) for line in self.lines(name) if "loss" in line]

    def test_every_number_of_ranks_and_threads_trains_the_same_bits(self):
        options = {"reduction": "reproducible", "max_steps": 4, "log_every": 1}
        self.succeed(*self.train("1", **options))
        self.assertEqual(self.state(self.checkpoint("1", 4))["logical_shards"], 8)
        for ranks, threads in ((2, 3), (3, 1), (4, 1), (8, 1)):
            self.succeed(*self.train(str(ranks), **options, threads=threads), ranks=ranks)
            self.assert_same_checkpoints(str(ranks), "1", 4, self.state)
            self.assertEqual(self.losses(str(ranks)), self.losses("1"))

    def test_where_memory_lies_and_what_was_in_it_change_nothing(self):
        options = {"reduction": "reproducible", "max_steps": 4}
        layouts = {
            "usual": {},
            "heap": {"MALLOC_MMAP_MAX_": 0, "MALLOC_TOP_PAD_": 12345},
            "filled": {"MALLOC_MMAP_THRESHOLD_": 1, "MALLOC_PERTURB_": 165},
        }
        for name, variables in layouts.items():
            self.succeed(*self.train(name, **options), ranks=2, variables=variables)
            self.assert_same_checkpoints(name, "usual", 4, self.state)

    def test_more_ranks_than_shards_and_bf16_arithmetic(self):
        options = {"reduction": "reproducible", "max_steps": 4, "logical_shards": 3, "precision": "bf16"}
        self.succeed(*self.train("few-1", **options))
        said = self.told(*self.train("few-4", **options), ranks=4)
        self.assertIn("1 of 4 ranks work only in validation: a batch has 3 logical shards", said)
        self.assert_same_checkpoints("few-4", "few-1", 4, self.state)

    def go_on_with_other_ranks(self, **options):
        """Yields the folders of runs of six steps of which three were on another number of ranks."""
        for before, after in ((1, 4), (4, 3), (3, 2), (2, 1)):
            name = f"from-{before}-to-{after}"
            self.succeed(*self.train(name, max_steps=3, **options), ranks=before)
            self.succeed(*self.train(name, max_steps=6, **options), ranks=after)
            yield name
            shutil.rmtree(self.path(name))

    def test_a_reproducible_run_goes_on_with_any_number_of_ranks_to_the_same_bits(self):
        self.succeed(*self.train("whole", reduction="reproducible", max_steps=6))
        for name in self.go_on_with_other_ranks(reduction="reproducible"):
            self.assert_same_checkpoints(name, "whole", 6, self.state)

    def test_a_fast_run_goes_on_with_any_number_of_ranks_on_the_same_batches(self):
        # Without ReLU: what is 0 but for rounding passes all of a gradient through it or nothing, which one sum in another
        # order decides.
        shards = {"logical_shards": 4, "activation": "swish"}
        self.succeed(*self.train("whole-fast", **shards, max_steps=6))
        expected = self.state(self.checkpoint("whole-fast", 6))
        parameters = support.parameters(self.checkpoint("whole-fast", 6))
        for name in self.go_on_with_other_ranks(**shards):
            got = self.state(self.checkpoint(name, 6))
            for key in ("step", "epoch", "epoch_index", "target_tokens", "logical_shards"):
                self.assertEqual(got[key], expected[key], f"{name}: {key}")
            for key, values in support.parameters(self.checkpoint(name, 6)).items():
                difference = numpy.linalg.norm(values - parameters[key])
                self.assertLessEqual(difference, 1e-5 * numpy.linalg.norm(parameters[key]), f"{name}: {key}")

    def test_the_shards_of_a_run_stay_what_they_were(self):
        self.succeed(*self.train("kept", max_steps=2), ranks=2)
        self.succeed(*self.train("kept", max_steps=4), ranks=3)
        self.assertEqual(self.state(self.checkpoint("kept", 4))["logical_shards"], 2)
        self.assertEqual(json.loads(self.read(self.path("kept", "config.json")))["logical_shards"], 2)

    def test_bf16_sums_are_refused(self):
        words = self.train("bf16", reduction="reproducible", gradient_dtype="bf16", max_steps=2)
        self.refuse(78, *words, ranks=2, says=("--gradient-dtype", "f32"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
