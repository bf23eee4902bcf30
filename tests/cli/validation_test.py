# SPDX-License-Identifier: Apache-2.0
"""How validations score, with which sets, what they keep, and which model becomes the best; also in parts."""

import json
import os
import unittest

import support

EVERY = 30


class Validation(support.RunTest):
    MODEL = [
        *(*support.TINY_MODEL, "--valid-every", EVERY, "--valid-beam-size", 1, "--logical-shards", 2, "--max-steps", 3 * EVERY),
        *("--learning-rate-scale", 0.5, "--keep-valid-outputs"),
    ]
    CORPUS = {"train_pairs": 300}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        # Two sets that differ in length and in case.
        for name, begin, end in (("news", 0, 9), ("it", 9, 20)):
            for side in ("en", "de"):
                with open(f"{cls.folder}/demo/valid.{side}", encoding="utf-8") as file:
                    lines = file.readlines()[begin:end]
                with open(f"{cls.folder}/{name}.{side}", "w", encoding="utf-8") as file:
                    file.writelines(line.upper() if name == "it" and side == "de" else line for line in lines)

    def set_options(self, *names):
        return [word for name in names for word in ("--valid-set", name, self.path(name + ".en"), self.path(name + ".de"))]

    def validations(self, name):
        return [{key: value for key, value in line.items() if key != "time"} for line in self.lines(name) if line["type"] == "validation"]

    def best(self, name):
        return json.loads(self.read(self.path(name, "best.json")))

    def score(self, name, step, of, reference, *options):
        """What the program finds in the translations that were kept."""
        translations = self.path(name, "valid", f"{step:08}", of + ".txt")
        return json.loads(self.succeed("bleu", "--input", translations, "--reference", reference, "--json", *options))

    def test_scores_and_their_signature(self):
        said = self.told(*self.train("plain"))
        lines = self.validations("plain")
        self.assertEqual([line["step"] for line in lines], [EVERY, 2 * EVERY, 3 * EVERY])
        self.assertGreater(lines[-1]["valid_bleu"], 0, "nothing was learned: the test tells nothing")
        for line in lines:
            expected = self.score("plain", line["step"], "valid", self.demo_path("valid.de"), "--confidence")
            self.assertAlmostEqual(line["valid_bleu"], expected["score"], delta=1e-9)
            mean, half = expected.get("confidence_mean", 0), expected.get("confidence_var", 0)
            self.assertAlmostEqual(line["bleu_low"], max(0, mean - half), delta=1e-6)
            self.assertAlmostEqual(line["bleu_high"], min(100, mean + half), delta=1e-6)
        self.assertTrue(lines[0]["signature"].startswith("nrefs:1|bs:1000|seed:12345|case:mixed|eff:no|tok:13a|smooth:exp|version:"))
        self.assertEqual(["signature" in line for line in lines], [True, False, False])
        self.assertEqual(self.best("plain")["signature"], lines[0]["signature"])
        self.assertEqual(said.count(lines[0]["signature"]), 1, said)

    def test_several_sets(self):
        text = ["--train-sets", self.demo_path("train.en"), self.demo_path("train.de"), "--tokenizer-from", self.corpus]
        sets = self.path("sets.h5")
        self.succeed("prepare", *text, *self.set_options("news", "it"), "--output", sets)
        self.succeed(*self.train("several", corpus=sets))
        lines = self.validations("several")
        for line in lines:
            self.assertEqual(list(line["sets"]), ["it"])
            for name, score in (("news", line["valid_bleu"]), ("it", line["sets"]["it"]["bleu"])):
                self.assertAlmostEqual(score, self.score("several", line["step"], name, self.path(name + ".de"))["score"], delta=1e-9)
        best = max(lines, key=lambda line: line["valid_bleu"])
        self.assertAlmostEqual(self.best("several")["value"], best["valid_bleu"], delta=1e-12)
        self.assertEqual(self.best("several")["checkpoint"], f"checkpoint-{best['step']:08}.h5")

        with self.subTest("two ranks, in parts"):
            again = {"corpus": sets, "reduction": "reproducible"}
            self.succeed(*self.train("parts", **again, max_steps=EVERY), ranks=2 if support.MPIEXEC else 1)
            self.succeed(*self.train("parts", **again), ranks=2 if support.MPIEXEC else 1)
            self.succeed(*self.train("whole", **again))
            self.assertEqual(self.validations("parts"), self.validations("whole"))
            self.assertEqual(self.best("parts"), self.best("whole"))

        with self.subTest("translations of abandoned steps go"):
            os.makedirs(self.path("several", "valid", "00000100"))
            self.succeed(*self.train("several", corpus=sets, max_steps=4 * EVERY))
            self.assertEqual(sorted(name for name in os.listdir(self.path("several", "valid")) if name.isdigit()),
                             [f"{step:08}" for step in range(EVERY, 4 * EVERY + 1, EVERY)])  # fmt: skip


if __name__ == "__main__":
    unittest.main()
