# SPDX-License-Identifier: Apache-2.0
"""train --reduction, and runs that go on with another number of ranks."""

import json
import shutil
import subprocess
import unittest

import h5py
import numpy

import support

RANKS = (1, 2, 3, 4)


@unittest.skipUnless(support.MPIEXEC, "built without MPI")
class Reduction(support.CommandLineTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.corpus = cls.prepare_demo()

    def train(self, name, *options):
        """The words of a run in the folder `name`, with every kind of dropout."""
        words = (*support.TINY_MODEL, "--dropout", 0.3, "--attention-dropout", 0.1, "--save-every", 0, *options)
        settings = dict(zip(words[::2], words[1::2]))  # `options` take the place of those of the model
        flat = [word for pair in settings.items() for word in pair]
        return ["train", "--corpus", self.corpus, "--model-dir", self.path(name), *flat]

    def checkpoint(self, name, step):
        return self.path(name, f"checkpoint-{step:08d}.h5")

    def state(self, name, step):
        """All numbers that the next step depends on: parameters, moments, place in the data."""
        found = {}
        with h5py.File(self.checkpoint(name, step), "r") as file:
            for group in ("model", "adam"):
                file[group].visititems(
                    lambda name, item: found.__setitem__(name, item[()].view(numpy.uint32))
                    if isinstance(item, h5py.Dataset)
                    else None
                )
            for key in ("step", "epoch", "epoch_index", "target_tokens", "logical_shards", "skipped_steps"):
                found[key] = file.attrs[key]
        return found

    def assert_same_state(self, got, expected, words):
        self.assertEqual(got.keys(), expected.keys())
        for name in expected:
            self.assertTrue(numpy.array_equal(got[name], expected[name]), f"{words}: {name}")

    def losses(self, name):
        lines = [json.loads(line) for line in self.read(self.path(name, "metrics.jsonl")).splitlines()]
        return [(line["step"], line["loss"], line["gradient_norm"]) for line in lines if "loss" in line]

    def test_every_number_of_ranks_trains_the_same_bits(self):
        options = ["--reduction", "reproducible", "--max-steps", 6, "--log-every", 1]
        self.succeed(*self.train("1", *options))
        expected = self.state("1", 6)
        self.assertEqual(expected["logical_shards"], 8)
        for ranks in (2, 3, 4, 8):
            self.succeed(*self.train(str(ranks), *options), ranks=ranks)
            self.assert_same_state(self.state(str(ranks), 6), expected, f"{ranks} ranks")
            self.assertEqual(self.losses(str(ranks)), self.losses("1"))

    def test_threads_and_repetition_change_nothing(self):
        options = ["--reduction", "reproducible", "--max-steps", 4]
        self.succeed(*self.train("once", *options), ranks=2)
        self.succeed(*self.train("again", *options), ranks=2)
        self.succeed(*self.train("threads", *options, "--threads", 3), ranks=2)
        for name in ("again", "threads"):
            self.assert_same_state(self.state(name, 4), self.state("once", 4), name)

    def test_where_memory_lies_and_what_was_in_it_change_nothing(self):
        options = ["--reduction", "reproducible", "--max-steps", 4]
        layouts = {
            "usual": {},
            "heap": {"MALLOC_MMAP_MAX_": 0, "MALLOC_TOP_PAD_": 12345},
            "pages": {"MALLOC_MMAP_THRESHOLD_": 1},
            "filled": {"MALLOC_PERTURB_": 165},
        }
        for name, variables in layouts.items():
            self.succeed(*self.train(name, *options), ranks=2, variables=variables)
        for name in ("heap", "pages", "filled"):
            self.assert_same_state(self.state(name, 4), self.state("usual", 4), name)
        with self.subTest("addresses that are the same in every start"):
            fix = ["setarch", "--addr-no-randomize"]
            if subprocess.run([*fix, "true"], check=False, stderr=subprocess.DEVNULL).returncode != 0:
                self.skipTest("not allowed here")
            words = support.command(*self.train("fixed", *options), ranks=2)
            subprocess.run([*fix, *words], env=support.environment(), check=True, capture_output=True)
            self.assert_same_state(self.state("fixed", 4), self.state("usual", 4), "fixed")

    def test_more_ranks_than_shards_and_bf16_arithmetic(self):
        options = ["--reduction", "reproducible", "--max-steps", 4, "--logical-shards", 3, "--precision", "bf16"]
        self.succeed(*self.train("few-1", *options))
        result = support.run(*self.train("few-4", *options), ranks=4)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(b"1 of 4 ranks work only in validation: a batch has 3 logical shards", result.stderr)
        self.assert_same_state(self.state("few-4", 4), self.state("few-1", 4), "4 ranks")

    def go_on_with_other_ranks(self, *options):
        """Yields (words, folder) of runs of six steps of which three were on other ranks, all 16 pairs."""
        for before in RANKS:
            self.succeed(*self.train(f"from-{before}", "--max-steps", 3, *options), ranks=before)
            for after in RANKS:
                name = f"from-{before}-to-{after}"
                shutil.copytree(self.path(f"from-{before}"), self.path(name))
                self.succeed(*self.train(name, "--max-steps", 6, *options), ranks=after)
                yield f"from {before} to {after} ranks", name
                shutil.rmtree(self.path(name))
            shutil.rmtree(self.path(f"from-{before}"))

    def test_a_reproducible_run_goes_on_with_any_number_of_ranks_to_the_same_bits(self):
        options = ["--reduction", "reproducible"]
        self.succeed(*self.train("whole", *options, "--max-steps", 6))
        expected = self.state("whole", 6)
        for words, name in self.go_on_with_other_ranks(*options):
            self.assert_same_state(self.state(name, 6), expected, words)

    def test_a_fast_run_goes_on_with_any_number_of_ranks_on_the_same_batches(self):
        # Without ReLU: what is 0 but for rounding passes all of a gradient through it or nothing, which one sum in another
        # order decides.
        shards = ["--logical-shards", 4, "--activation", "swish"]
        self.succeed(*self.train("whole-fast", *shards, "--max-steps", 6))
        expected = self.state("whole-fast", 6)
        parameters = support.parameters(self.checkpoint("whole-fast", 6))
        for words, name in self.go_on_with_other_ranks(*shards):
            got = self.state(name, 6)
            for key in ("step", "epoch", "epoch_index", "target_tokens", "logical_shards"):
                self.assertEqual(got[key], expected[key], f"{words}: {key}")
            for key, values in support.parameters(self.checkpoint(name, 6)).items():
                scale = numpy.linalg.norm(parameters[key])
                difference = numpy.linalg.norm(values - parameters[key])
                self.assertLessEqual(difference, 1e-5 * scale, f"{words}: {key}")

    def test_the_shards_of_a_run_stay_what_they_were(self):
        self.succeed(*self.train("kept", "--max-steps", 2), ranks=2)
        self.succeed(*self.train("kept", "--max-steps", 4), ranks=3)
        self.assertEqual(self.state("kept", 4)["logical_shards"], 2)
        with open(self.path("kept", "config.json"), encoding="utf-8") as file:
            self.assertEqual(json.load(file)["logical_shards"], 2)
        self.refuse(
            78,
            *self.train("kept", "--max-steps", 6, "--logical-shards", 4),
            says=("--logical-shards 2", "this run has 4"),
        )
        self.refuse(
            78,
            *self.train("kept", "--max-steps", 6, "--reduction", "reproducible"),
            says=("--reduction fast", "this run has reproducible"),
        )

    def test_bf16_sums_are_refused(self):
        options = ["--reduction", "reproducible", "--gradient-dtype", "bf16", "--max-steps", 2]
        for ranks in (1, 2):
            self.refuse(78, *self.train("bf16", *options), ranks=ranks, says=("--gradient-dtype", "f32"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
