# SPDX-License-Identifier: Apache-2.0
"""What train says when it starts: the table of the run, and warnings of what is probably not meant."""

import json
import re
import unittest

import h5py
import support

OPTIONS = support.TINY_MODEL[: support.TINY_MODEL.index("--log-every")] + ["--threads", "1"]


class Start(support.CommandLineTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.corpus = cls.prepare_demo(train_pairs=3000)

    def start(self, name, *options, corpus=None, ranks=1):
        """The messages of a run."""
        folders = ("--corpus", corpus or self.corpus, "--model-dir", self.path(name))
        result = support.run("train", *folders, *OPTIONS, *options, ranks=ranks)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stderr.decode()

    def rows(self, text):
        return dict(re.findall(r"^  (\w+) {2,}(\S.*)$", text, re.M))

    def check_table(self, ranks):
        text = self.start(f"table-{ranks}", "--max-steps", 2, "--logical-shards", 2, ranks=ranks)
        rows = self.rows(text)
        self.assertEqual(list(rows), ["ranks", "computing", "precision", "model", "corpus", "step", "epoch", "rate", "training", "exports"])
        plan = json.loads(
            self.succeed("plan", "--corpus", self.corpus, *OPTIONS, "--ranks", ranks, "--max-steps", 2,
                         "--logical-shards", 2, "--json"))  # fmt: skip
        self.assertRegex(rows["ranks"], rf"^{ranks} on \S+$")
        used = re.search(r"ISA: +([^,\n]+)", self.succeed("--version").decode())[1]
        self.assertEqual(rows["computing"], f"CPU, 1 thread per rank, instruction set {used}")
        self.assertEqual(rows["precision"], "f32, the default on the CPU")
        self.assertEqual(rows["model"], f"{plan['parameters']:,} parameters, 1 + 2 layers, width 32, 2 heads")
        source, target = self.corpus_tokens()
        self.assertEqual(
            rows["corpus"],
            f"3,000 pairs to train on, 20 to validate; {source:,} source and {target:,} target tokens of a vocabulary of "
            f"{support.VOCABULARY}",
        )
        self.assertEqual(rows["step"], f"up to 512 source and 512 target tokens, in 2 micro-batches, {2 // ranks} per rank")
        steps = int(re.fullmatch(r"about (\d+) steps", rows["epoch"])[1])
        self.assertLess(abs(steps / plan["steps_per_epoch"] - 1), 0.2)
        self.assertRegex(rows["training"], r"^to step 2, 0\.0\d+ epochs$")
        self.assertNotIn("warning", text)

    def test_the_exports_that_the_settings_allow(self):
        default = "hdf5, safetensors, ctranslate2, huggingface"
        needs = "; marian would need --positions marian, --begin-embedding none, --layer-norm-epsilon 1e-06"
        marian = ("--positions", "marian", "--begin-embedding", "none", "--layer-norm-epsilon", "1e-6")
        for name, options, expected in (
            ("default", (), default + needs),
            ("pre", ("--pre-norm",), "hdf5, safetensors, ctranslate2; huggingface would need no --pre-norm" + needs),
            ("marian", marian, ("hdf5, safetensors, ctranslate2, marian; huggingface would need --positions paper, "
                                "--begin-embedding zero or learned, --layer-norm-epsilon 1e-05")),
        ):  # fmt: skip
            with self.subTest(name):
                text = self.start("exports-" + name, "--max-steps", 1, *options)
                self.assertEqual(self.rows(text)["exports"], expected)
                able, *others = re.split("; ", expected)
                for output_format in able.split(", "):
                    self.succeed("export", "--model", self.path("exports-" + name), "--format", output_format,
                                 "--output", self.path(f"{name}.{output_format}"))  # fmt: skip
                for other in others:
                    output_format, needed = other.split(" would need ")
                    self.refuse(78, "export", "--model", self.path("exports-" + name), "--format", output_format,
                                "--output", self.path("none"), says=needed.split(", "))  # fmt: skip

    def corpus_tokens(self):
        with h5py.File(self.corpus, "r") as file:
            (part,) = json.loads(file.attrs["parts"])
        return part["source_tokens"], part["target_tokens"]

    def test_the_table_of_one_rank(self):
        self.check_table(1)

    @unittest.skipUnless(support.MPIEXEC, "built without MPI")
    def test_the_table_of_two_ranks(self):
        self.check_table(2)

    def test_a_batch_that_is_larger_than_the_corpus(self):
        batch = 10 * max(self.corpus_tokens())
        words = [*support.TINY_MODEL[:10], "--batch-source-tokens", batch, "--batch-target-tokens", batch]
        result = support.run("train", "--corpus", self.corpus, "--model-dir", self.path("large"), *words,
                             "--threads", 1, "--valid-every", 0, "--max-steps", 0)  # fmt: skip
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stderr.decode(), r"warning: a batch is larger than the corpus: one step is (8|9)\.\d+ epochs")

    def test_a_vocabulary_that_is_large_for_the_text(self):
        demo = [self.demo_path(f"{part}.{side}") for part in ("train", "valid") for side in ("en", "de")]
        large = self.path("large.h5")
        self.succeed("prepare", "--train-sets", *demo[:2], "--vocab-size", 3000, "--output", large)
        text = self.start("vocabulary", "--max-steps", 0, corpus=large)
        self.assertRegex(text, r"warning: the vocabulary is large for the text: 3,000 tokens for [\d,]+, so each "
                               r"occurs \d\d times on average; with 'ventris prepare --vocab-size \d+' or less")  # fmt: skip

    def test_validation_pairs_the_other_way_about(self):
        demo = {f"{part}.{side}": self.demo_path(f"{part}.{side}") for part in ("train", "valid") for side in ("en", "de")}
        swapped = self.path("swapped.h5")
        self.succeed("prepare", "--train-sets", demo["train.en"], demo["train.de"],
                     "--valid-sets", demo["valid.de"], demo["valid.en"],
                     "--vocab-size", support.VOCABULARY, "--output", swapped)  # fmt: skip
        self.assertIn("source and target of the validation pairs seem to be swapped", self.start("swapped", "--max-steps", 0, corpus=swapped))

    def test_options_that_changed(self):
        self.start("changed", "--max-steps", 2)
        self.assertNotIn("changed since", self.start("changed", "--max-steps", 2))
        text = self.start("changed", "--max-steps", 3, "--learning-rate-scale", 0.5)
        self.assertIn("warning: options that changed since the last start: --learning-rate-scale from 1.0 to 0.5; "
                      "--max-steps from 2 to 3\n", text)  # fmt: skip
        self.assertIn("  training    from step 2 to step 3, ", text)
        self.write("changed/config.json", "{")
        text = self.start("changed", "--max-steps", 4)
        self.assertIn("warning: the options that changed since the last start are unknown: ", text)
        self.assertIn("config.json", text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
