# SPDX-License-Identifier: Apache-2.0
"""Configurations of Marian: 'ventris convert-config', and as files of --config."""

import json
import unittest

import support

SHAPE = "type: transformer\ntied-embeddings-all: true\ndim-emb: 16\ntransformer-dim-ffn: 32\ntransformer-heads: 2\nenc-depth: 1\ndec-depth: 1\n"
TRAINING = SHAPE + "train-sets: [demo/train.en, demo/train.de]\nvocabs: [v.spm, v.spm]\n"
BATCHES = ["--batch-source-tokens", 200, "--batch-target-tokens", 200]

# Learning rates by update, as Marian 1.12.42 logs them (--disp-freq 1u --lr-report), with five digits.
RATES = {
    "learn-rate: 0.003\nlr-warmup: 30\nlr-decay-inv-sqrt: [60]\n": {
        1: 0.0001, 25: 0.0025, 50: 0.003, 75: 0.0026833, 100: 0.0023238, 120: 0.0021213},
    "learn-rate: 0.003\nlr-warmup: 80\nlr-decay-inv-sqrt: [60, 20]\nlr-warmup-start-rate: 0.0001\n": {
        1: 0.00013625, 25: 0.00096677, 50: 0.0015615, 75: 0.002036, 100: 0.001964, 120: 0.0018371},
    "learn-rate: 0.003\nlr-warmup: 40\n": {1: 7.5e-05, 25: 0.001875, 50: 0.003, 120: 0.003},
    "learn-rate: 0.003\nlr-decay-inv-sqrt: 50\n": {1: 0.003, 50: 0.003, 75: 0.0024495, 100: 0.0021213, 120: 0.0019365},
}  # fmt: skip


def settings(text):
    """What a converted file sets."""
    lines = [line for line in text.decode().splitlines() if line and not line.startswith("#")]
    return dict(line.split(" = ", 1) for line in lines)


class ConvertConfig(support.CommandLineTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.corpus = cls.prepare_demo(train_pairs=200)

    def convert(self, text, *options):
        """The settings and the remarks."""
        result = support.run("convert-config", self.write("marian.yml", text), *options)
        self.assertEqual(result.returncode, 0, result.stderr.decode())
        return settings(result.stdout), result.stderr.decode()

    def test_rates_are_those_that_marian_logs(self):
        for number, (text, rates) in enumerate(RATES.items()):
            converted = self.succeed("convert-config", self.write("marian.yml", TRAINING + text))
            folder = self.path(f"rates-{number}")
            self.succeed("train", "--config", self.write("ours.ini", converted), "--corpus", self.corpus, "--model-dir", folder,
                         *BATCHES, "--max-steps", 120, "--log-every", 1, "--threads", 1)  # fmt: skip
            lines = map(json.loads, self.read(self.path(folder, "metrics.jsonl")).splitlines())
            ours = {line["step"]: line["learning_rate"] for line in lines if line["type"] == "interval"}
            for step, rate in rates.items():
                self.assertAlmostEqual(ours[step] / rate, 1, delta=5e-5, msg=f"{text}{step}")

    def test_each_setting_has_its_counterpart(self):
        ours, remarks = self.convert(
            TRAINING + "transformer-dropout: 0.2\ntransformer-dropout-attention: 0.1\ntransformer-dropout-ffn: 0.05\n"
            "dropout-src: 0.15\ndropout-trg: 0.25\nlabel-smoothing: 0.1\nclip-norm: 5\nexponential-smoothing: true\n"
            "optimizer-params: [0.9, 0.98, 1e-09]\nlearn-rate: 0.0003\nlr-warmup: 16000\nafter: 1000u\nmini-batch-words: 4000\n"
            "mini-batch-warmup: 600u\ngradient-checkpointing: true\n")  # fmt: skip
        expected = {
            "encoder-layers": "1", "d-model": "16", "d-ff": "32", "heads": "2", "tie": "all", "activation": "swish", "output-bias": "yes",
            "positions": "marian", "begin-embedding": "none", "dropout": "0.2", "attention-dropout": "0.1", "activation-dropout": "0.05",
            "dropout-source": "0.15", "dropout-target": "0.25", "label-smoothing": "0.1", "clip-norm": "5", "ema": "0.9999", "beta2": "0.98",
            "schedule": "constant", "peak-learning-rate": "0.0003", "warmup-steps": "16000", "max-steps": "1000",
            "batch-warmup": "600", "recompute": "yes"}  # fmt: skip
        self.assertEqual({name: ours.get(name) for name in expected}, expected, remarks)

    def test_what_is_another_or_missing_is_told_with_its_line(self):
        ours, remarks = self.convert(TRAINING + "tempdir: /data/tmp\nmini-batch: 64\nmini-batch-fit: true\ntransformer-aan-depth: 3\n")
        self.assertIn("marian.yml:10: tempdir /data/tmp: not needed: ", remarks)
        self.assertRegex(remarks, r"marian\.yml:12: mini-batch-fit true: no counterpart: .*--batch-source-tokens")
        self.assertIn("marian.yml:13: transformer-aan-depth 3: ", remarks)
        self.assertNotIn("batch-target-tokens", ours)

    def test_a_file_of_the_decoder_becomes_options_of_translate(self):
        text = "models: [model.npz]\nvocabs: [v.spm, v.spm]\nbeam-size: 6\nnormalize: 1\nword-penalty: 0\n"
        ours, remarks = self.convert(text)
        self.assertEqual((ours.get("beam-size"), ours.get("length-penalty")), ("6", "1"), remarks)
        self.assertRegex(remarks, r"marian\.yml:4: normalize 1: differs: ")
        forced, _ = self.convert("beam-size: 6\n", "--for", "translate")
        self.assertEqual(forced.get("beam-size"), "6")

    def test_config_takes_the_file_itself(self):
        path = self.write("marian.yml", TRAINING + "learn-rate: 0.003\nlr-warmup: 40\nmini-batch: 64\n")
        words = ["train", "--config", path, "--corpus", self.corpus, "--max-steps", 2, "--threads", 1]
        self.refuse(78, *words, "--model-dir", self.path("refused"), says=["marian.yml:12", "mini-batch", "--batch-source-tokens"])
        self.succeed(*words, *BATCHES, "--model-dir", self.path("itself"))
        converted = self.succeed("convert-config", path)
        words[2] = self.write("ours.ini", converted)
        self.succeed(*words, *BATCHES, "--model-dir", self.path("converted"))
        files = [support.checkpoint_bits(self.path(name, "checkpoint-00000002.h5")) for name in ("itself", "converted")]
        self.assertEqual(*files)

    def test_hostile_files_are_refused(self):
        for text, says in {
            "a: &x [1]\nb: *x\n": ["marian.yml:1", "anchors"],
            "beam-size: 6\nbeam-size: 7\n": ["marian.yml:2", "there already, at line 1"],
            "beam-size: {a: 1}\n": ["marian.yml:1", "'beam-size' has options of its own"],
            "beam-size: 6\nvocabs: [v: 1]\nnormalize: 1\n": ["marian.yml:2", "'vocabs' has options of its own"],
            "a: {b: " + "{b: " * 400 + "1\n": ["marian.yml:1", "'a' has options of its own"],
            "a: [1": ["marian.yml:1", "it is not YAML: end of sequence"],
            "beam-size: 6\nvocabs: [v, w\n": ["marian.yml:2", "it is not YAML: end of sequence"],
            'beam-size: 6\nmodel: "abc\ndim-emb: 256\n': ["marian.yml", "it is not YAML"],
            "beam-size: 6\nvocabs:\n  - 'abc\n  - b\n": ["marian.yml", "it is not YAML"],
            "a: {b: 1\n": ["marian.yml:1", "it is not YAML: end of map"],
            TRAINING + "learn-rate: fast\n": ["marian.yml:10", "learn-rate"],
            TRAINING + "no-such-option: 3\n": ["marian.yml:10", "no-such-option"],
            "[" * 100000: ["longer than 65536 bytes"],
            "[" * 5000: ["marian.yml"],
            "x: [1, 2\n": ["marian.yml"],
            "beam-size = 6\n": ["is no YAML"],
            b"\xff\xfe\x00beam-size: 6\n": ["marian.yml"],
            "": ["marian.yml"],
        }.items():
            with self.subTest(text=text[:40]):
                self.refuse(78, "convert-config", self.write("marian.yml", text), says=says)
        self.refuse(66, "convert-config", self.path("gone.yml"), says=f"ventris convert-config: error: cannot read {self.path('gone.yml')}: ")
        self.refuse(64, "convert-config", says="FILE")
        self.assertEqual(support.run("convert-config", self.folder).returncode, 66)


if __name__ == "__main__":
    unittest.main(verbosity=2)
