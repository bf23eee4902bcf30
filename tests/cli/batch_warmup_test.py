# SPDX-License-Identifier: Apache-2.0
"""train --batch-warmup: global batches that grow."""

import json
import unittest

import support

STEPS = 12
TOKENS = 1600
WARM_UP = ("--batch-warmup", 8)


class BatchWarmUp(support.CommandLineTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.corpus = cls.prepare_demo(train_pairs=60)

    def words(self, name, *options):
        """The words of a run in the folder `name`, whose bits are the same on any number of ranks."""
        words = (*support.TINY_MODEL, "--max-steps", STEPS, "--save-every", 3, "--digest-every", 1, "--log-every", 1)
        sizes = ("--batch-source-tokens", TOKENS, "--batch-target-tokens", TOKENS, "--logical-shards", 4)
        settings = dict(zip(words[::2], words[1::2]))
        settings.update(zip(sizes[::2], sizes[1::2]))
        settings.update(zip(options[::2], options[1::2]))
        flat = [word for pair in settings.items() for word in pair]
        return ["train", "--corpus", self.corpus, "--model-dir", self.path(name), "--reduction", "reproducible", *flat]

    def train(self, name, *options, ranks=1):
        """The lines of its log."""
        self.succeed(*self.words(name, *options), ranks=ranks)
        return [json.loads(line) for line in self.read(self.path(name, "metrics.jsonl")).splitlines()]

    @staticmethod
    def digests(lines):
        return {line["step"]: line["digest"] for line in lines if "digest" in line}

    def tokens_of_steps(self, *words):
        """Target tokens of each step with their end marks."""
        text = self.succeed("inspect", *words, "--steps", f"1:{STEPS}", "--json").decode()
        tokens = dict.fromkeys(range(1, STEPS + 1), 0)
        for line in map(json.loads, text.splitlines()):
            tokens[line["step"]] += line["target_tokens"] + 1
        return tokens

    def test_batches_grow_in_sixteenths_and_inspect_knows_them(self):
        lines = self.train("grows", *WARM_UP)
        trained = {line["step"]: line["target_tokens"] for line in lines if "loss" in line}
        steps = {step: trained[step] - trained.get(step - 1, 0) for step in trained}
        self.assertEqual(list(steps), list(range(1, STEPS + 1)))
        for step, tokens in steps.items():
            limit = TOKENS * min(16, 2 * step) // 16
            self.assertLessEqual(tokens, limit)
            self.assertGreater(tokens, 0.7 * limit - 100, f"step {step}")
        self.assertEqual(self.tokens_of_steps(self.path("grows")), steps)
        given = (self.corpus, "--batch-source-tokens", TOKENS, "--batch-target-tokens", TOKENS, "--logical-shards", 4)
        full = self.train("full")
        self.assertEqual(self.tokens_of_steps(*given), self.tokens_of_steps(self.path("full")))
        self.assertNotEqual(self.digests(full)[1], self.digests(lines)[1])

    def test_the_bits_are_those_of_any_number_of_ranks_and_of_a_resumed_run(self):
        expected = self.digests(self.train("one", *WARM_UP))
        self.assertEqual(self.digests(self.train("two", *WARM_UP, ranks=2)), expected)
        self.train("parts", *WARM_UP, "--max-steps", 3)
        self.assertEqual(self.digests(self.train("parts", *WARM_UP)), expected)

    def test_another_warm_up_is_refused_at_a_resume(self):
        self.train("refused", *WARM_UP, "--max-steps", 3)
        self.refuse(78, *self.words("refused"), says="--batch-warmup 8, but this run has 0")
        self.refuse(78, *self.words("refused", "--batch-warmup", 9), says="--batch-warmup 8, but this run has 9")

    def test_plan_counts_the_smaller_batches(self):
        def steps(*options):
            words = ("--corpus", self.corpus, "--preset", "tiny", "--batch-source-tokens", TOKENS, "--batch-target-tokens", TOKENS)
            return json.loads(self.succeed("plan", *words, "--max-epochs", 50, "--json", *options))

        full, growing = steps(), steps("--batch-warmup", 32)
        # Of 32 steps two have each sixteenth: together as much as 17 full ones.
        self.assertEqual(growing["steps"], full["steps"] + 15)
        self.assertEqual(growing["steps_per_epoch"], full["steps_per_epoch"])


if __name__ == "__main__":
    unittest.main()
