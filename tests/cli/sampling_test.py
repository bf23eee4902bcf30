# SPDX-License-Identifier: Apache-2.0
"""train --sample-source and --sample-target: subword regularisation."""

import json
import os
import shutil
import unittest


import support

STEPS = 8
BOTH = ("--sample-source", 0.2, "--sample-target", 0.3)


class Sampling(support.CommandLineTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.plain = os.path.join(cls.folder, "plain.h5")
        os.rename(cls.prepare_demo(train_pairs=60), cls.plain)
        cls.unigram = os.path.join(cls.folder, "unigram.h5")
        os.rename(cls.prepare_demo(train_pairs=60, options=["--keep-text", "--tokenizer", "unigram"]), cls.unigram)
        cls.corpus = cls.prepare_demo(train_pairs=60, options=["--keep-text"])

    def words(self, name, *options, corpus=None):
        """The words of a run in the folder `name`, whose bits are the same on any number of ranks."""
        words = (*support.TINY_MODEL, "--max-steps", STEPS, "--save-every", 2, "--digest-every", 1, *options)
        settings = dict(zip(words[::2], words[1::2]))  # `options` take the place of those of the model
        settings["--reduction"] = "reproducible"
        flat = [word for pair in settings.items() for word in pair]
        return ["train", "--corpus", corpus or self.corpus, "--model-dir", self.path(name), *flat]

    def checkpoint(self, name, step):
        return self.path(name, f"checkpoint-{step:08d}.h5")

    def lines(self, name):
        return [json.loads(line) for line in self.read(self.path(name, "metrics.jsonl")).splitlines()]

    def digests(self, name):
        """Of the parameters after each step."""
        return {line["step"]: line["digest"] for line in self.lines(name) if "digest" in line}

    def train(self, name, *options, ranks=1, corpus=None):
        """The digests of a run to its end."""
        self.succeed(*self.words(name, *options, corpus=corpus), ranks=ranks)
        digests = self.digests(name)
        self.assertEqual(list(digests), list(range(1, STEPS + 1)))
        return digests

    def test_alpha_zero_trains_the_bits_of_a_corpus_without_text(self):
        expected = self.train("plain", corpus=self.plain)
        self.assertEqual(self.train("text"), expected)
        self.assertEqual(self.train("zero", "--sample-source", 0, "--sample-target", 0), expected)
        self.assertEqual(self.train("zero-plain", "--sample-source", 0, corpus=self.plain), expected)

    def test_each_side_and_each_alpha_trains_other_bits(self):
        runs = [(), ("--sample-source", 0.1), ("--sample-target", 0.1), ("--sample-source", 0.2), BOTH]
        last = {self.train(f"bits-{i}", *options)[STEPS] for i, options in enumerate(runs)}
        self.assertEqual(len(last), len(runs))

    @unittest.skipUnless(support.MPIEXEC, "built without MPI")
    def test_every_number_of_ranks_trains_the_same_bits(self):
        for kind, corpus in (("bpe", self.corpus), ("unigram", self.unigram)):
            expected = self.train(f"{kind}-1", *BOTH, corpus=corpus)
            for ranks in (2, 4):
                self.assertEqual(self.train(f"{kind}-{ranks}", *BOTH, ranks=ranks, corpus=corpus), expected)

    def test_a_killed_run_resumes_to_the_same_bits(self):
        expected = self.train("whole", *BOTH)
        words = self.words("killed", *BOTH, "--max-steps", 100000)
        process = support.start(support.command(*words))
        try:
            self.assertTrue(support.wait_for(lambda: os.path.exists(self.checkpoint("killed", 4)), process))
        finally:
            process.kill()
            process.communicate()
        later = [name for name in os.listdir(self.path("killed")) if name > "checkpoint-00000004.h5"]
        for name in later:
            if name.startswith("checkpoint-"):
                os.remove(self.path("killed", name))
        self.succeed(*self.words("killed", *BOTH))
        digests = self.digests("killed")
        self.assertEqual({step: digests[step] for step in expected}, expected)

    def test_inspect_prints_the_tokens_that_a_step_saw(self):
        self.succeed(*self.words("seen", *BOTH, "--log-every", 1))
        tokens = dict.fromkeys(range(1, STEPS + 1), 0)
        plain = dict(tokens)
        for sampled, counts in (("seen", tokens), (None, plain)):
            words = [self.path("seen")] if sampled else [self.corpus, "--logical-shards", 8]
            for line in self.succeed("inspect", *words, "--steps", f"1:{STEPS}", "--json").splitlines():
                pair = json.loads(line)
                counts[pair["step"]] += pair["target_tokens"] + 1
        seen = {line["step"]: line["target_tokens"] for line in self.lines("seen") if "target_tokens" in line}
        self.assertEqual([seen[1], *(seen[step] - seen[step - 1] for step in range(2, STEPS + 1))], list(tokens.values()))
        self.assertNotEqual(tokens, plain)
        self.refuse(78, "inspect", self.path("seen"), "--corpus", self.plain, "--steps", STEPS, says="digest")

    def test_validation_is_never_sampled(self):
        self.train("model")
        validated = []
        for name, options in (("valid-plain", ()), ("valid-sampled", BOTH)):
            self.succeed(*self.words(name, *options, "--init", self.path("model"), "--valid-every", 1, "--max-steps", 1))
            validated.append(next(line for line in self.lines(name) if "valid_loss" in line))
        self.assertEqual(validated[0]["step"], 0)
        self.assertEqual(validated[0]["valid_loss"], validated[1]["valid_loss"])
        self.assertEqual(validated[0].get("bleu"), validated[1].get("bleu"))

    def test_a_run_keeps_its_alpha(self):
        self.train("keeps", *BOTH)
        for options, says in (
            (("--sample-source", 0.1, "--sample-target", 0.3), "--sample-source 0.2, but this run has 0.1"),
            (("--sample-source", 0.2), "--sample-target 0.3, but this run has none"),
        ):
            self.refuse(78, *self.words("keeps", *options, "--max-steps", STEPS + 1), says=says)
        shutil.rmtree(self.path("keeps"))

    def test_what_cannot_be_sampled_is_refused(self):
        for option in ("--sample-source", "--sample-target"):
            self.refuse(
                78, *self.words("refused", option, 0.1, corpus=self.plain), says=[self.plain, option, "prepare --keep-text"]
            )
            self.refuse(78, "plan", "--corpus", self.plain, option, 0.1, "--preset", "tiny", says=[option, "prepare --keep-text"])
            for value in (-0.1, 1.5, "much"):
                self.refuse(64, *self.words("refused", option, value), says=option)
        self.assertFalse(os.path.exists(self.path("refused", "metrics.jsonl")))


if __name__ == "__main__":
    unittest.main(verbosity=2)
