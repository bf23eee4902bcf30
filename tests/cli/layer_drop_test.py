# SPDX-License-Identifier: Apache-2.0
"""train --encoder-layerdrop, --decoder-layerdrop: layers that micro-batches pass by."""

import json
import unittest

import support

RATES = ("--encoder-layerdrop", "0.5", "--decoder-layerdrop", "0.3")


class LayerDrop(support.CommandLineTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.corpus = cls.prepare_demo(train_pairs=60)

    def words(self, name, *options, steps=8):
        """The words of a run in the folder `name`, whose bits are the same on any number of ranks."""
        settings = dict(zip(support.TINY_MODEL[::2], support.TINY_MODEL[1::2]))
        settings |= {"--encoder-layers": 2, "--decoder-layers": 2, "--max-steps": steps, "--save-every": 3, "--digest-every": 1}
        settings |= {"--log-every": 1, "--logical-shards": 4}
        flat = [word for pair in settings.items() for word in pair]
        return ["train", "--corpus", self.corpus, "--model-dir", self.path(name), "--reduction", "reproducible", *flat, *options]

    def digests(self, name, *options, steps=8, ranks=1):
        """The digests of its steps."""
        self.succeed(*self.words(name, *options, steps=steps), ranks=ranks)
        lines = [json.loads(line) for line in self.read(self.path(name, "metrics.jsonl")).splitlines()]
        return {line["step"]: line["digest"] for line in lines if "digest" in line}

    def test_the_bits_are_those_of_any_number_of_ranks_and_of_a_resumed_run(self):
        expected = self.digests("one", *RATES)
        self.assertEqual(list(expected), list(range(1, 9)))
        self.assertEqual(self.digests("two", *RATES, ranks=2), expected)
        self.digests("parts", *RATES, steps=3)
        self.assertEqual(self.digests("parts", *RATES), expected)
        self.assertNotEqual(self.digests("without")[1], expected[1])
        self.succeed("replay", "--checkpoint", self.path("one", "checkpoint-00000006.h5"), "--steps", 2)

    def test_other_rates_are_refused_at_a_resume_and_models_keep_them(self):
        self.digests("kept", *RATES, steps=3)
        self.refuse(78, *self.words("kept"), says="--encoder-layerdrop 0.5, but this run has 0")
        self.refuse(64, *self.words("new", "--encoder-layerdrop", 1), says="--encoder-layerdrop")
        inspected = self.succeed("inspect", "--json", self.path("kept", "checkpoint-00000003.h5"))
        self.assertIn(b'"encoder_layerdrop"', inspected)


if __name__ == "__main__":
    unittest.main()
