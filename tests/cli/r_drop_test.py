# SPDX-License-Identifier: Apache-2.0
"""train --r-drop: two passes over each micro-batch, whose distributions are drawn together."""

import json
import unittest

import support

R_DROP = ("--r-drop", 5)


class RDrop(support.CommandLineTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.corpus = cls.prepare_demo(train_pairs=60)

    def words(self, name, *options, steps=8):
        """The words of a run in the folder `name`, whose bits are the same on any number of ranks."""
        settings = dict(zip(support.TINY_MODEL[::2], support.TINY_MODEL[1::2]))
        settings |= {"--max-steps": steps, "--save-every": 3, "--digest-every": 1, "--log-every": 1, "--logical-shards": 4}
        flat = [word for pair in settings.items() for word in pair]
        return ["train", "--corpus", self.corpus, "--model-dir", self.path(name), "--reduction", "reproducible", *flat, *options]

    def lines(self, name):
        return [json.loads(line) for line in self.read(self.path(name, "metrics.jsonl")).splitlines()]

    def digests(self, name, *options, steps=8, ranks=1):
        """The digests of its steps."""
        self.succeed(*self.words(name, *options, steps=steps), ranks=ranks)
        return {line["step"]: line["digest"] for line in self.lines(name) if "digest" in line}

    def test_the_bits_are_those_of_any_number_of_ranks_and_of_a_resumed_run(self):
        expected = self.digests("one", *R_DROP)
        self.assertEqual(list(expected), list(range(1, 9)))
        for ranks in (2, 4):
            self.assertEqual(self.digests(f"ranks-{ranks}", *R_DROP, ranks=ranks), expected)
        self.digests("parts", *R_DROP, steps=3)
        self.assertEqual(self.digests("parts", *R_DROP), expected)
        self.assertEqual(self.digests("again", *R_DROP, "--recompute"), expected)
        without = self.digests("without")
        self.assertNotEqual(without[1], expected[1])
        self.assertEqual(self.digests("zero", "--r-drop", 0), without)
        self.succeed("replay", "--checkpoint", self.path("one", "checkpoint-00000006.h5"), "--steps", 2)

    def test_the_divergence_is_in_the_loss_but_not_in_the_perplexity(self):
        """Of the first step: its parameters do not depend on the weight of the divergence."""
        first = {}
        for alpha in (1, 2, 4):
            self.digests(f"alpha-{alpha}", "--r-drop", alpha, steps=1)
            (first[alpha],) = [line for line in self.lines(f"alpha-{alpha}") if "loss" in line]
        self.assertEqual(len({line["nll"] for line in first.values()}), 1)
        divergence = first[2]["loss"] - first[1]["loss"]
        self.assertGreater(divergence, 0)
        self.assertAlmostEqual(first[4]["loss"] - first[2]["loss"], 2 * divergence, delta=1e-5)

    def test_other_weights_and_runs_without_dropout_are_refused(self):
        self.digests("kept", *R_DROP, steps=3)
        self.refuse(78, *self.words("kept"), says="--r-drop 5, but this run has 0")
        self.refuse(64, *self.words("new", "--r-drop", -1), says="--r-drop")
        self.refuse(78, *self.words("new", "--r-drop", "1e-46"), says="0, or 1e-06 or more")  # 0 as f32
        self.refuse(78, *self.words("new", *R_DROP, "--teacher", self.path("kept")), says="it must be 0 with --teacher")
        without = ("--dropout", 0, "--attention-dropout", 0)
        self.refuse(78, *self.words("new", *R_DROP, *without), says="--dropout makes them differ")
        self.succeed(*self.words("new", *R_DROP, *without, "--dropout-source", 0.1, steps=1))

    def test_a_plan_knows_of_both_passes(self):
        def bytes_of(*options):
            plan = json.loads(self.succeed("plan", *self.words("plan", *options)[1:], "--ranks", 1, "--json"))
            return {item["kind"]: item["bytes"] for item in plan["memory"]}

        one, two = bytes_of(), bytes_of(*R_DROP)
        self.assertGreater(two["activations"], 1.5 * one["activations"])
        self.assertEqual({**two, "activations": 0}, {**one, "activations": 0})


if __name__ == "__main__":
    unittest.main()
