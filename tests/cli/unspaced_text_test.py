# SPDX-License-Identifier: Apache-2.0
"""Text without spaces between words: how its validation is scored, its alignments and its unknown characters."""

import json
import unittest

import support

WHO = [("the boy", "少年"), ("a woman", "女の人"), ("my friend", "友だち"), ("the dog", "犬"), ("she", "彼女")]
WHAT = [("a book", "本"), ("bread", "パン"), ("the sea", "海"), ("a letter", "手紙"), ("the house", "家")]
AT = support.TINY_MODEL.index("--valid-every")
SIZE = support.TINY_MODEL[:AT] + support.TINY_MODEL[AT + 2 :]  # validates at the end
DOES = [("sees", "見ます"), ("likes", "好みます"), ("remembers", "覚えています"), ("wants", "望みます")]


def pairs():
    for who, subject in WHO:
        for what, thing in WHAT:
            for does, verb in DOES:
                yield f"{who} {does} {what}", f"{subject}は{thing}を{verb}。"


class Unspaced(support.CommandLineTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        files = {name: cls.path(cls, name) for name in ("train.en", "train.ja", "valid.en", "valid.ja")}
        text = list(pairs())
        valid = [*text[:10], ("the boy sees a rose", "少年は薔薇は薔薇を見ます。"), ("she", "彼女\u200b憂鬱")]
        for name, lines in (("train", text * 3), ("valid", valid)):
            for side, language in enumerate(("en", "ja")):
                with open(files[f"{name}.{language}"], "w", encoding="utf-8") as file:
                    file.writelines(line[side] + "\n" for line in lines)
        cls.files = files
        cls.corpus = cls.path(cls, "corpus.h5")
        cls.words = (
            *("prepare", "--train-sets", files["train.en"], files["train.ja"], "--valid-sets", files["valid.en"]),
            *(files["valid.ja"], "--vocab-size", 90, "--threads", 2, "--output", cls.corpus)
        )
        cls.prepared = support.run(*cls.words)
        assert cls.prepared.returncode == 0, cls.prepared.stderr.decode()

    def train(self, name, *options, steps=2):
        words = ("train", "--corpus", self.corpus, "--model-dir", self.path(name), *SIZE)
        result = support.run(*words, "--max-steps", steps, "--json", *options)
        self.assertEqual(result.returncode, 0, result.stderr.decode())
        config = json.loads(self.read(self.path(name, "config.json")))
        lines = [json.loads(line) for line in self.read(self.path(name, "metrics.jsonl")).splitlines()]
        return json.loads(result.stdout), config, lines, result.stderr.decode()

    def test_unknown_characters_are_listed_with_counts(self):
        text = self.prepared.stdout.decode()
        train, valid = text.split("valid: ")
        self.assertNotIn("unknown to the vocabulary", train)
        self.assertIn("unknown to the vocabulary: 4 characters, 6 times: 薇 U+8587 2, 薔 U+8594 2, 憂 U+6182 1", valid)
        counts = json.loads(self.succeed(*self.words, "--json"))
        self.assertEqual(counts["train"]["unknown_characters"], {})
        expected = {"U+6182": 1, "U+8587": 2, "U+8594": 2, "U+9B31": 1}
        self.assertEqual(counts["valid"]["unknown_characters"], expected)

    def test_the_best_is_by_chrf_and_stays_so(self):
        result, config, lines, said = self.train("auto", "--valid-tokenize", "13a")
        self.assertIn("the validation references put no spaces between words", said)
        self.assertIn("The best checkpoint is that of the best chrf", said)
        self.assertIn("the validation references have characters that are not in the vocabulary", said)
        self.assertIn("薇 U+8587 2", said)
        self.assertEqual((config["valid_metric"], config["valid_tokenize"]), ("chrf", "13a"))
        scores = [line for line in lines if "valid_bleu" in line]
        self.assertEqual(result["best_chrf"], max(line["valid_chrf"] for line in scores))
        # Going on, the metric is that of the checkpoint, though now there would be words for BLEU.
        result, config, _, said = self.train("auto", "--valid-tokenize", "char", steps=3)
        self.assertIn("best_chrf", result)
        self.assertEqual((config["valid_metric"], config["valid_tokenize"]), ("chrf", "char"))
        self.assertNotIn("no spaces between words", said)
        self.assertNotIn("the search for the best", said)
        # Another one is told.
        result, config, _, said = self.train("auto", "--valid-metric", "bleu", "--valid-tokenize", "13a", steps=4)
        self.assertIn("validations were compared by chrf and now by bleu: the search for the best checkpoint starts again", said)
        self.assertIn("The best checkpoint is that of the best bleu", said)
        self.assertIn("best_bleu", result)
        # And so is BLEU of other words.
        _, _, _, said = self.train("auto", "--valid-metric", "bleu", "--valid-tokenize", "char", steps=5)
        self.assertIn("validations were compared by bleu and now by bleu:char: the search for the best checkpoint starts again", said)
        _, config, _, said = self.train("auto", "--valid-tokenize", "char", steps=6)
        self.assertEqual(config["valid_metric"], "bleu")
        self.assertNotIn("the search for the best", said)

    def test_with_words_the_best_is_by_bleu(self):
        result, config, lines, said = self.train("char", "--valid-tokenize", "char", "--valid-beam-size", 1)
        self.assertNotIn("no spaces between words", said)
        self.assertEqual((config["valid_metric"], config["valid_tokenize"]), ("bleu", "char"))
        self.assertIn("best_bleu", result)
        model = self.path("char", "checkpoint-00000002.h5")
        evaluated = self.succeed(
            *("evaluate", "--model", model, "--source", self.files["valid.en"], "--reference", self.files["valid.ja"]),
            *("--tokenize", "char", "--beam-size", 1, "--json")
        )
        self.assertAlmostEqual(json.loads(evaluated)["score"], lines[-1]["valid_bleu"], delta=1e-9)
        # Without translations there is the loss.
        result, config, _, _ = self.train("loss", "--valid-beam-size", 0)
        self.assertEqual(config["valid_metric"], "loss")
        self.assertIn("best_loss", result)

    def test_bleu_and_evaluate_warn(self):
        reference = self.files["valid.ja"]
        for options, warns in (
            ((), True),
            (("-tok", "intl"), True),
            (("-tok", "char"), False),
            (("-tok", "zh"), False),
            (("-m", "chrf"), False),
        ):
            result = support.run("bleu", reference, "-i", reference, *options)
            self.assertEqual(result.returncode, 0)
            self.assertEqual(b"the references put no spaces between words" in result.stderr, warns, options)
        spaced = self.write("spaced", "少年 は 本 を 見ます 。\n" * 3)
        result = support.run("bleu", spaced, "-i", spaced)
        self.assertNotIn(b"no spaces", result.stderr)
        result = support.run("bleu", self.files["valid.en"], "-i", self.files["valid.en"])
        self.assertNotIn(b"no spaces", result.stderr)

    def test_alignments_number_tokens_where_there_are_no_words(self):
        self.train("aligned", "--valid-every", 0)
        model = self.path("aligned", "checkpoint-00000002.h5")
        source = b"the boy sees a book" + b"\n"
        target = self.write("target", "少年は本を見ます。\n")
        forced = ("translate", "--model", model, "--alignment", "hard", "--prefix", target, "--max-extra-length", 60)

        def links(*options):
            line = self.succeed(*forced, *options, stdin=source).decode()
            text, alignment = line.rstrip("\n").split(" ||| ")
            self.assertTrue(text.startswith("少年は本を見ます"), text)
            return [tuple(map(int, link.split("-"))) for link in alignment.split()]

        pieces = self.write("source", source)
        scored = json.loads(
            self.succeed("score", "--model", model, "--source", pieces, "--target", target, "--per-word", "--json")
        )["tokens"]
        least = len(scored) - 1  # without the end mark; the translation may go on after its prefix
        auto, words, tokens = links(), links("--alignment-unit", "word"), links("--alignment-unit", "token")
        self.assertGreaterEqual(len(auto), least)
        self.assertEqual(sorted(t for _, t in auto), list(range(len(auto))))
        self.assertEqual(len(tokens), len(auto))
        self.assertLess(len(words), least)
        self.assertLess(max(s for s, _ in words + auto), 5)  # the source has words either way
        self.assertGreater(least, 5)


if __name__ == "__main__":
    unittest.main(verbosity=2)
