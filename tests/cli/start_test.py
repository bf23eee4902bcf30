# SPDX-License-Identifier: Apache-2.0
"""What train says when it starts: the table of the run, warnings of what is probably not meant, and libraries and instructions that
changed."""

import json
import re
import unittest

import h5py
import support


SLOW = {"DNNL_MAX_CPU_ISA": "SSE41"}  # every processor has more
CHANGED = "was computed with other libraries or instructions: instruction set from "


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
        for name, options in (("default", ()), ("pre", ("--pre-norm",))):
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

    def recorded(self, name, step):
        with h5py.File(self.checkpoint(name, step), "r") as file:
            return json.loads(file.attrs["environment"].decode())

    def test_a_run_records_them_and_tells_a_start_with_others(self):
        first = self.told(*self.train("run", max_steps=2, digest_every=1), variables=SLOW)
        self.assertNotIn(CHANGED, first)
        slow = self.recorded("run", 2)
        self.assertEqual(slow, json.loads(self.read(self.path("run", "config.json")))["environment"])
        self.assertEqual(set(slow), {"instruction_set", "kernels", "onednn", "compiler", "mpi", "cuda"})
        self.assertNotIn(CHANGED, self.told(*self.train("run", max_steps=4), variables=SLOW))
        messages = self.told(*self.train("run", max_steps=6, digest_every=1))
        now = self.recorded("run", 6)
        self.assertEqual({key for key in now if now[key] != slow[key]}, {"instruction_set"})
        self.assertIn(f"{CHANGED}{slow['instruction_set']} to {now['instruction_set']}.", messages)
        self.assertNotIn("are unknown", messages)  # the options of the last start
        self.assertNotIn(CHANGED, self.told(*self.train("run", max_steps=8)))


if __name__ == "__main__":
    unittest.main(verbosity=2)
