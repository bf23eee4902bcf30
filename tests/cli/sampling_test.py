# SPDX-License-Identifier: Apache-2.0
"""train --sample-source and --sample-target: subword regularisation."""

import json
import os
import unittest

import support

STEPS = 6
BOTH = {"sample_source": 0.2, "sample_target": 0.3}


class Sampling(support.RunTest):
    MODEL = [*support.TINY_MODEL, "--max-steps", STEPS, "--save-every", 2, "--digest-every", 1, "--reduction", "reproducible"]

    @classmethod
    def setUpClass(cls):
        super(support.RunTest, cls).setUpClass()
        corpora = {}
        for name, options in (("plain", []), ("unigram", ["--keep-text", "--tokenizer", "unigram"])):
            corpora[name] = os.path.join(cls.folder, name + ".h5")
            os.rename(cls.prepare_demo(train_pairs=60, options=options), corpora[name])
        cls.plain, cls.unigram = corpora["plain"], corpora["unigram"]
        cls.corpus = cls.prepare_demo(train_pairs=60, options=["--keep-text"])

    def trained(self, name, ranks=1, **settings):
        """The digests of a run to its end."""
        self.succeed(*self.train(name, **settings), ranks=ranks)
        self.assertEqual(list(self.digests(name)), list(range(1, STEPS + 1)))
        return self.digests(name)

    def test_each_side_and_each_alpha_trains_other_bits_and_zero_those_of_a_corpus_without_text(self):
        expected = self.trained("plain", corpus=self.plain)
        self.assertEqual(self.trained("zero", sample_source=0, sample_target=0), expected)
        runs = [{"sample_source": 0.1}, {"sample_target": 0.1}, {"sample_source": 0.2}, BOTH]
        last = {self.trained(f"bits-{i}", **options)[STEPS] for i, options in enumerate(runs)} | {expected[STEPS]}
        self.assertEqual(len(last), len(runs) + 1)

    @unittest.skipUnless(support.MPIEXEC, "built without MPI")
    def test_any_ranks_and_a_resume_train_the_same_bits(self):
        for kind, corpus in (("bpe", self.corpus), ("unigram", self.unigram)):
            expected = self.trained(f"{kind}-1", corpus=corpus, **BOTH)
            self.assertEqual(self.trained(f"{kind}-4", corpus=corpus, ranks=4, **BOTH), expected)
            self.succeed(*self.train(f"{kind}-parts", corpus=corpus, **BOTH, max_steps=3), ranks=2)
            self.assertEqual(self.trained(f"{kind}-parts", corpus=corpus, **BOTH), expected)

    def test_inspect_prints_the_tokens_that_a_step_saw(self):
        self.succeed(*self.train("seen", log_every=1, **BOTH))
        tokens = dict.fromkeys(range(1, STEPS + 1), 0)
        for line in map(json.loads, self.succeed("inspect", self.path("seen"), "--steps", f"1:{STEPS}").splitlines()):
            tokens[line["step"]] += line["target_tokens"] + 1
        seen = self.values("seen", "target_tokens")
        self.assertEqual([seen[1], *(seen[step] - seen[step - 1] for step in range(2, STEPS + 1))], list(tokens.values()))
        self.refuse(78, "inspect", self.path("seen"), "--corpus", self.plain, "--steps", STEPS, says="digest")
        self.refuse(64, "inspect", self.path("seen"), "--steps", f"1:{STEPS + 1}", says=f"has no step after {STEPS}")
        # A configuration that leaves the number of shards to the run.
        expected = self.succeed("inspect", self.path("seen"), "--steps", STEPS)
        config = json.loads(self.read(self.path("seen", "config.json")))
        self.write("seen/config.json", json.dumps({**config, "logical_shards": 0}))
        self.assertEqual(self.succeed("inspect", self.path("seen"), "--steps", STEPS), expected)

    def test_validation_is_never_sampled(self):
        self.trained("model")
        for name, options in (("valid-plain", {}), ("valid-sampled", BOTH)):
            self.succeed(*self.train(name, init=self.path("model"), valid_every=1, max_steps=1, **options))
        for key in ("valid_loss", "valid_bleu"):
            self.assertEqual(*(self.values(name, key)[0] for name in ("valid-plain", "valid-sampled")))

    def test_what_cannot_be_sampled_is_refused(self):
        self.refuse(78, *self.train("refused", sample_source=0.1, corpus=self.plain), says=[self.plain, "prepare --keep-text"])
        self.refuse(78, "plan", "--corpus", self.plain, "--sample-target", 0.1, "--preset", "tiny", says="prepare --keep-text")
        for value in (-0.1, 1.5, "much"):
            self.refuse(64, *self.train("refused", sample_target=value), says="--sample-target")
        self.assertFalse(os.path.exists(self.path("refused", "metrics.jsonl")))


if __name__ == "__main__":
    unittest.main(verbosity=2)
