# SPDX-License-Identifier: Apache-2.0
"""How validations score, with which sets, what they keep, and which model becomes the best; also in parts."""

import json
import os
import subprocess
import unittest

import support

STEPS = 90
EVERY = 30


class Validation(support.CommandLineTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.prepare_demo(train_pairs=300)
        demo = os.path.join(cls.folder, "demo")
        # Two sets that differ in length and in case.
        for name, begin, end in (("news", 0, 9), ("it", 9, 20)):
            for side in ("en", "de"):
                with open(f"{demo}/valid.{side}", encoding="utf-8") as file:
                    lines = file.readlines()[begin:end]
                with open(f"{cls.folder}/{name}.{side}", "w", encoding="utf-8") as file:
                    file.writelines(line.upper() if name == "it" and side == "de" else line for line in lines)

    def words(self, name, *options, corpus="corpus.h5", steps=STEPS, beam=1, ranks=1):
        """A command line."""
        words = ("--corpus", self.path(corpus), "--model-dir", self.path(name), *support.TINY_MODEL, "--valid-every", EVERY,
                 "--valid-beam-size", beam, "--logical-shards", 2, "--max-steps", steps, "--learning-rate-scale", 0.5)  # fmt: skip
        given = dict(zip(words[::2], words[1::2]))
        kept = ("--keep-valid-outputs",) if beam else ()
        return support.command("train", *(word for pair in given.items() for word in pair), *kept, *options, ranks=ranks)

    def train(self, name, *options, **of_run):
        """Runs the program; returns what it said."""
        result = subprocess.run(self.words(name, *options, **of_run), capture_output=True, env=support.environment(), check=False)
        self.assertEqual(result.returncode, 0, result.stderr.decode())
        return result.stderr.decode()

    def set_options(self, *names):
        return [word for name in names for word in ("--valid-set", name, self.path(name + ".en"), self.path(name + ".de"))]

    def validations(self, name):
        lines = [json.loads(line) for line in self.read(self.path(name, "metrics.jsonl")).splitlines(keepends=True) if line.endswith(b"\n")]
        return [{key: value for key, value in line.items() if key != "time"} for line in lines if line["type"] == "validation"]

    def best(self, name):
        return json.loads(self.read(self.path(name, "best.json")))

    def output(self, name, step, of):
        return self.path(name, "valid", f"{step:08}", of + ".txt")

    def bleu(self, translations, reference, *options):
        return json.loads(self.succeed("bleu", "--input", translations, "--reference", reference, "--json", *options))

    def check_scores(self, name, *options):
        """The scores of all validations are those that the program finds in the translations that were kept."""
        for line in self.validations(name):
            expected = self.bleu(self.output(name, line["step"], "valid"), self.demo_path("valid.de"), "--confidence", *options)
            self.assertAlmostEqual(line["valid_bleu"], expected["score"], delta=1e-9)
            mean, half = expected.get("confidence_mean", 0), expected.get("confidence_var", 0)
            self.assertAlmostEqual(line["bleu_low"], max(0, mean - half), delta=1e-6)
            self.assertAlmostEqual(line["bleu_high"], min(100, mean + half), delta=1e-6)

    def test_scores_and_their_signature(self):
        said = self.train("plain")
        lines = self.validations("plain")
        self.assertEqual([line["step"] for line in lines], list(range(EVERY, STEPS + 1, EVERY)))
        self.assertGreater(lines[-1]["valid_bleu"], 0, "nothing was learned: the test tells nothing")
        self.check_scores("plain")
        signature = "nrefs:1|bs:1000|seed:12345|case:mixed|eff:no|tok:13a|smooth:exp|version:"
        self.assertTrue(lines[0]["signature"].startswith(signature), lines[0])
        self.assertEqual(["signature" in line for line in lines], [True, False, False])
        self.assertEqual(self.best("plain")["signature"], lines[0]["signature"])
        self.assertEqual(said.count(lines[0]["signature"]), 1, said)
        self.assertIn(f"BLEU {lines[-1]['valid_bleu']:.2f} ({lines[-1]['bleu_low']:.2f} to", said)
        self.assertEqual(self.validations("plain")[0].get("sets"), None)

    def test_several_sets(self):
        text = ["--train-sets", self.demo_path("train.en"), self.demo_path("train.de"), "--tokenizer-from", self.path("corpus.h5")]
        self.succeed("prepare", *text, *self.set_options("news", "it"), "--output", self.path("sets.h5"))
        said = self.train("several", corpus="sets.h5")
        self.assertIn("news of 9 pairs (decides), it of 11 pairs", said)
        lines = self.validations("several")
        for line in lines:
            self.assertEqual(list(line["sets"]), ["it"])
            for name, score in (("news", line["valid_bleu"]), ("it", line["sets"]["it"]["bleu"])):
                expected = self.bleu(self.output("several", line["step"], name), self.path(name + ".de"))
                self.assertAlmostEqual(score, expected["score"], delta=1e-9)
        best = max(lines, key=lambda line: line["valid_bleu"])
        self.assertAlmostEqual(self.best("several")["value"], best["valid_bleu"], delta=1e-12)
        self.assertEqual(self.best("several")["checkpoint"], f"checkpoint-{best['step']:08}.h5")

        with self.subTest("two ranks, in parts"):
            self.train("parts", "--reduction", "reproducible", corpus="sets.h5", steps=EVERY, ranks=2)
            self.train("parts", "--reduction", "reproducible", corpus="sets.h5", ranks=2)
            self.train("whole", "--reduction", "reproducible", corpus="sets.h5")
            self.assertEqual(self.validations("parts"), self.validations("whole"))
            self.assertEqual(self.best("parts"), self.best("whole"))

        with self.subTest("translations of abandoned steps go"):
            os.makedirs(self.path("several", "valid", "00000100"))
            self.train("several", corpus="sets.h5", steps=STEPS + EVERY)
            self.assertEqual(sorted(name for name in os.listdir(self.path("several", "valid")) if name.isdigit()),
                             [f"{step:08}" for step in range(EVERY, STEPS + EVERY + 1, EVERY)])  # fmt: skip

    def test_by_chrf_or_the_loss_alone(self):
        self.train("chrf", "--valid-metric", "chrf")
        lines = self.validations("chrf")
        self.assertEqual(self.best("chrf")["value"], max(line["valid_chrf"] for line in lines))
        self.assertIn("valid_bleu", lines[0])
        self.train("loss", beam=0)
        lines = self.validations("loss")
        self.assertEqual(self.best("loss")["value"], min(line["valid_loss"] for line in lines))
        self.assertNotIn("valid_bleu", lines[0])
        self.assertFalse(os.path.exists(self.path("loss", "valid")))
        train = ("train", "--corpus", self.path("corpus.h5"), "--model-dir", self.path("none"))
        self.refuse(78, *train, "--valid-beam-size", 0, "--valid-metric", "bleu", says="--valid-beam-size is 0")

    def test_sets_that_do_not_fit_are_refused(self):
        prepare = ("prepare", "--train-sets", self.demo_path("train.en"), self.demo_path("train.de"), "--vocab-size", 300,
                   "--output", self.path("none.h5"))  # fmt: skip
        self.refuse(64, *prepare, *self.set_options("it", "it"), says="two validation sets")
        self.refuse(64, *prepare, "--valid-set", "UP", *self.set_options("it")[2:], says="UP")


if __name__ == "__main__":
    unittest.main()
