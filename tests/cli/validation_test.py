# SPDX-License-Identifier: Apache-2.0
"""How validations score, with which sets, what they keep, and which model becomes the best; also in parts."""

import json
import os
import shutil
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

    def words(self, name, *options, corpus="corpus.h5", steps=STEPS, every=EVERY, ranks=1):
        """A command line."""
        words = ("--corpus", self.path(corpus), "--model-dir", self.path(name), *support.TINY_MODEL, "--valid-every", every,
                 "--valid-beam-size", 1, "--logical-shards", 2, "--max-steps", steps, "--learning-rate-scale", 0.5)  # fmt: skip
        given = dict(zip(words[::2], words[1::2]))
        return support.command("train", *(word for pair in given.items() for word in pair), *options, ranks=ranks)

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
        said = self.train("plain", "--keep-valid-outputs")
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

    def test_without_case(self):
        self.write("upper.de", self.read(self.demo_path("valid.de")).upper())
        self.train("lower", "--valid-lowercase", "--valid-chrf", "yes", "--keep-valid-outputs", "--valid-set", "upper",
                   self.demo_path("valid.en"), self.path("upper.de"))  # fmt: skip
        self.check_scores("lower", "--lowercase")
        lines = self.validations("lower")
        self.assertIn("|case:lc|", lines[0]["signature"])
        self.assertIn("|case:lc|", lines[0]["chrf_signature"])
        for line in lines:
            self.assertEqual(line["sets"]["upper"]["bleu"], line["valid_bleu"])
            self.assertEqual(line["sets"]["upper"]["chrf"], line["valid_chrf"])

    def test_the_protocol_of_the_paper(self):
        # References like what this run says, whose words are others without the tokenizer: with a full stop, and some with a
        # compound.
        self.train("first", "--keep-valid-outputs")
        lines = self.read(self.output("first", STEPS, "valid")).decode().splitlines()
        self.write("compounds.de", "".join(
            f"{line.replace(' ', '-', 1) if number % 5 == 0 else line}.\n" for number, line in enumerate(lines)))
        given = ("--valid-set", "compounds", self.demo_path("valid.en"), self.path("compounds.de"), "--keep-valid-outputs")
        self.train("paper", "--valid-protocol", "paper", "--valid-language", "de", *given)
        self.check_scores("paper", "--protocol", "paper", "--language", "de")
        for line in self.validations("paper"):
            expected = self.bleu(self.output("paper", line["step"], "compounds"), self.path("compounds.de"),
                                 "--protocol", "paper", "--language", "de")  # fmt: skip
            self.assertAlmostEqual(line["sets"]["compounds"]["bleu"], expected["score"], delta=1e-9)
        self.assertGreater(line["sets"]["compounds"]["bleu"], 0, "nothing was learned: the test tells nothing")
        self.assertIn("|tok:moses-de|compounds:split|", self.best("paper")["signature"])
        # The search for the best starts again where scores are others.
        self.assertIn("and now by bleu:", self.train("paper", "--valid-lowercase", steps=STEPS + 1))
        for options, says in (
            (("--valid-protocol", "paper"), "--valid-language"),
            (("--valid-language", "de"), "--valid-protocol paper"),
            (("--valid-protocol", "paper", "--valid-language", "de", "--valid-lowercase"), "--valid-lowercase"),
        ):
            self.refuse(64, "train", "--corpus", self.path("corpus.h5"), "--model-dir", self.path("none"), *options, says=says)

    def test_several_sets(self):
        given = (*self.set_options("news", "it"), "--keep-valid-outputs")
        said = self.train("several", *given, "--valid-best", "news=2,it=1")
        self.assertIn("valid of 20 pairs, news of 9 pairs (weight 2), it of 11 pairs (weight 1)", said)
        lines = self.validations("several")
        for line in lines:
            sets = line["sets"]
            self.assertEqual(list(sets), ["valid", "news", "it"])
            for key in ("loss", "bleu"):
                mean = (2 * sets["news"][key] + sets["it"][key]) / 3
                self.assertAlmostEqual(line["valid_" + key], mean, delta=1e-9)
            for name in ("news", "it"):
                expected = self.bleu(self.output("several", line["step"], name), self.path(name + ".de"))
                self.assertAlmostEqual(sets[name]["bleu"], expected["score"], delta=1e-9)
            self.assertLessEqual(line["bleu_low"], line["bleu_high"])
        best = max(lines, key=lambda line: line["valid_bleu"])
        self.assertAlmostEqual(self.best("several")["value"], best["valid_bleu"], delta=1e-12)

        with self.subTest("a corpus file with these sets is validated alike"):
            text = ["--train-sets", self.demo_path("train.en"), self.demo_path("train.de")]
            valid = ["--valid-sets", self.demo_path("valid.en"), self.demo_path("valid.de")]
            self.succeed("prepare", *text, *valid, *self.set_options("news", "it"), "--tokenizer-from", self.path("corpus.h5"),
                         "--output", self.path("sets.h5"))  # fmt: skip
            self.train("prepared", "--valid-best", "news=2,it=1", corpus="sets.h5")
            self.assertEqual(self.validations("prepared"), lines)
            self.succeed("prepare", "--append", self.path("sets.h5"), "--train-set", "more", *text[1:], "--output",
                         self.path("appended.h5"))  # fmt: skip
            self.train("named", "--valid-best", "it", corpus="appended.h5", steps=EVERY)
            self.assertEqual(list(self.validations("named")[0]["sets"]), ["valid", "news"])
            self.succeed("inspect", self.path("appended.h5"), "--verify")

        with self.subTest("two ranks, in parts"):
            self.train("parts", *given, "--valid-best", "news=2,it=1", "--reduction", "reproducible", steps=EVERY, ranks=2)
            self.train("parts", *given, "--valid-best", "news=2,it=1", "--reduction", "reproducible", ranks=2)
            self.train("whole", *given, "--valid-best", "news=2,it=1", "--reduction", "reproducible")
            self.assertEqual(self.validations("parts"), self.validations("whole"))
            self.assertEqual(self.best("parts"), self.best("whole"))

        with self.subTest("a set with other text is another set"):
            self.train("text", *self.set_options("it"), "--valid-best", "it", steps=EVERY)
            self.assertNotIn("starts again", self.train("text", *self.set_options("it"), "--valid-best", "it", steps=EVERY + 1))
            other = ("--valid-set", "it", self.path("news.en"), self.path("news.de"), "--valid-best", "it")
            self.assertIn("the search for the best checkpoint starts again", self.train("text", *other, steps=EVERY + 2))

        with self.subTest("another set decides, and translations of abandoned steps go"):
            os.makedirs(self.path("several", "valid", "00000100"))
            said = self.train("several", *given, "--valid-best", "it", steps=STEPS + EVERY)
            self.assertIn("the search for the best checkpoint starts again", said)
            self.assertEqual(sorted(name for name in os.listdir(self.path("several", "valid")) if name.isdigit()),
                             [f"{step:08}" for step in range(EVERY, STEPS + EVERY + 1, EVERY)])  # fmt: skip

    def test_sets_that_do_not_fit_are_refused(self):
        train = ("train", "--corpus", self.path("corpus.h5"), "--model-dir", self.path("none"))
        self.refuse(78, *train, *self.set_options("news", "news"), says="of this name already")
        self.refuse(78, *train, "--valid-set", "valid", *self.set_options("it")[2:], says="of this name already")
        self.refuse(78, *train, "--valid-set", "../up", *self.set_options("it")[2:], says="../up")
        self.refuse(78, *train, "--valid-set", "news", self.path("news.en"), says="NAME SRC TGT")
        self.refuse(78, *train, "--valid-best", "news", says="there are: valid")
        self.refuse(78, *train, *self.set_options("it"), "--valid-best", "it=0", says="weights from 1e-06 to 1000000")
        self.refuse(78, *train, *self.set_options("it"), "--valid-best", "it=1e308", says="weights from")
        self.refuse(78, *train, *self.set_options("it"), "--valid-best", "it,it", says="twice")
        self.refuse(65, *train, "--valid-set", "it", self.path("it.en"), self.path("news.de"), says="lines")
        self.refuse(66, *train, "--valid-set", "it", self.path("it.en"), self.path("gone"), says="gone")
        self.refuse(78, *train, "--best", "significant", "--valid-metric", "loss", says="--best significant")
        self.refuse(78, *train, "--valid-target", 101, says="--valid-target is 101, but --valid-metric bleu is at most 100")
        prepare = ("prepare", "--train-sets", self.demo_path("train.en"), self.demo_path("train.de"), "--vocab-size", 300,
                   "--output", self.path("none.h5"))  # fmt: skip
        self.refuse(64, *prepare, *self.set_options("it", "it"), says="two validation sets")
        self.refuse(64, *prepare, "--valid-set", "UP", *self.set_options("it")[2:], says="UP")

    def test_a_new_best_must_be_significant(self):
        given = ("--best", "significant", "--valid-metric", "chrf", "--valid-chrf", "yes", "--keep-valid-outputs",
                 "--save-every", 10, "--keep-checkpoints", 20)  # fmt: skip
        self.train("significant", *given, every=10)
        lines = self.validations("significant")
        best, better, refused = None, 0, 0
        for line in lines:
            if best is None:
                self.assertNotIn("p_value", line)
                best = line
                continue
            table = json.loads(self.succeed(
                "bleu", "--input", self.output("significant", best["step"], "valid"),
                self.output("significant", line["step"], "valid"), "--reference", self.demo_path("valid.de"),
                "--metrics", "chrf", "--paired-bs", "--json"))  # fmt: skip
            p_value = next(value["p_value"] for key, value in table[1].items() if key != "system")
            self.assertAlmostEqual(line["p_value"], p_value, delta=1e-9)
            is_higher = line["valid_chrf"] > best["valid_chrf"]
            refused += is_higher and p_value >= 0.05
            if is_higher and p_value < 0.05:
                best, better = line, better + 1
        self.assertGreater(better, 0, "no validation was better: the test tells nothing")
        self.assertGreater(refused, 0, "every better one was significant: the test tells nothing")
        record = self.best("significant")
        self.assertEqual((record["checkpoint"], record["value"]), (f"checkpoint-{best['step']:08}.h5", best["valid_chrf"]))

        with self.subTest("in parts"):
            self.train("in_parts", *given, every=10, steps=20)
            process = support.start(self.words("in_parts", *given, every=10))
            self.assertTrue(support.wait_for(lambda: len(self.validations("in_parts")) >= 5, process), "it has ended")
            process.kill()
            process.communicate()
            self.train("in_parts", *given, every=10)
            self.assertEqual(self.validations("in_parts"), lines)
            self.assertEqual(self.best("in_parts"), record)

        with self.subTest("without the sentences of the best"):
            shutil.copytree(self.path("significant"), self.path("fewer"))
            said = self.train("fewer", *given, "--valid-max-sentences", 7, every=10, steps=STEPS + 10)
            self.assertIn("are not known or are of other sentences", said)


if __name__ == "__main__":
    unittest.main()
