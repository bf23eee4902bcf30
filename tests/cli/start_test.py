# SPDX-License-Identifier: Apache-2.0
"""What train says when it starts: the table of the run, and warnings of what is probably not meant."""

import json
import re
import unittest

import h5py
import support


class Start(support.RunTest):
    CORPUS = {"train_pairs": 3000}

    def rows(self, text):
        return dict(re.findall(r"^  (\w+) {2,}(\S.*)$", text, re.M))

    def test_the_table(self):
        for ranks in (1, 2) if support.MPIEXEC else (1,):
            words = self.train(f"table-{ranks}", max_steps=2, logical_shards=2)
            text = self.told(*words, ranks=ranks)
            rows = self.rows(text)
            self.assertEqual(list(rows), ["ranks", "computing", "precision", "model", "corpus", "step", "epoch", "rate", "training", "exports"])
            plan = json.loads(self.succeed("plan", *words[1:], "--ranks", ranks, "--json"))
            self.assertRegex(rows["ranks"], rf"^{ranks} on \S+$")
            self.assertTrue(rows["model"].startswith(f"{plan['parameters']:,} parameters, 1 + 2 layers, width 32, 2 heads"), rows)
            source, target = self.corpus_tokens()
            self.assertIn(f"{source:,} source and {target:,} target tokens of a vocabulary of {support.VOCABULARY}", rows["corpus"])
            self.assertEqual(rows["step"], f"up to 512 source and 512 target tokens, in 2 micro-batches, {2 // ranks} per rank")
            steps = int(re.fullmatch(r"about (\d+) steps", rows["epoch"])[1])
            self.assertLess(abs(steps / plan["steps_per_epoch"] - 1), 0.2)
            self.assertNotIn("warning", text)

    def test_the_exports_that_the_settings_allow(self):
        marian = ("--positions", "marian", "--begin-embedding", "none", "--layer-norm-epsilon", "1e-6")
        for name, options in (("default", ()), ("pre", ("--pre-norm",)), ("marian", marian)):
            with self.subTest(name):
                run = self.path("exports-" + name)
                able, *others = self.rows(self.told(*self.train("exports-" + name, *options, max_steps=1)))["exports"].split("; ")
                self.assertEqual(len(able.split(", ")) + len(others), 5)
                for output_format in able.split(", "):
                    self.succeed("export", "--model", run, "--format", output_format, "--output", self.path(f"{name}.{output_format}"))
                for other in others:
                    output_format, needed = other.split(" would need ")
                    self.refuse(78, "export", "--model", run, "--format", output_format, "--output", self.path("none"), says=needed.split(", "))

    def corpus_tokens(self):
        with h5py.File(self.corpus, "r") as file:
            (part,) = json.loads(file.attrs["parts"])
        return part["source_tokens"], part["target_tokens"]

    def test_warnings(self):
        batch = 10 * max(self.corpus_tokens())
        text = self.told(*self.train("large", batch_source_tokens=batch, batch_target_tokens=batch, max_steps=0))
        self.assertRegex(text, r"warning: a batch is larger than the corpus: one step is (8|9)\.\d+ epochs")
        train = ("prepare", "--train-sets", self.demo_path("train.en"), self.demo_path("train.de"))
        self.succeed(*train, "--vocab-size", 3000, "--output", self.path("odd.h5"))
        text = self.told(*self.train("odd", corpus=self.path("odd.h5"), max_steps=0))
        self.assertIn("warning: the vocabulary is large for the text: 3,000 tokens for ", text)

    def test_options_that_changed(self):
        self.succeed(*self.train("changed", max_steps=2))
        self.assertNotIn("changed since", self.told(*self.train("changed", max_steps=2)))
        text = self.told(*self.train("changed", max_steps=3, learning_rate_scale=0.5))
        self.assertIn("options that changed since the last start: --learning-rate-scale from 1.0 to 0.5; --max-steps from 2 to 3\n", text)
        self.write("changed/config.json", "{")
        text = self.told(*self.train("changed", max_steps=4))
        self.assertIn("warning: the options that changed since the last start are unknown: ", text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
