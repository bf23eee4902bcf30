# SPDX-License-Identifier: Apache-2.0
"""Text without spaces between words: how its validation is scored, its alignments and its unknown tokens."""

import json
import unittest

import support

ENGLISH = (("the boy", "a woman", "my friend", "the dog", "she"), ("a book", "bread", "the sea", "a letter", "the house"),
           ("sees", "likes", "remembers", "wants"))  # fmt: skip
JAPANESE = (("少年", "女の人", "友だち", "犬", "彼女"), ("本", "パン", "海", "手紙", "家"), ("見ます", "好みます", "覚えています", "望みます"))
CHINESE = (("男孩", "女人", "我的朋友", "这只狗", "她"), ("一本书", "面包", "大海", "一封信", "那座房子"), ("看见了", "很喜欢", "还记得", "想要"))


def pairs(words, order):
    for subject, of_subject in zip(ENGLISH[0], words[0]):
        for thing, of_thing in zip(ENGLISH[1], words[1]):
            for verb, of_verb in zip(ENGLISH[2], words[2]):
                yield f"{subject} {verb} {thing}", order.format(of_subject, of_thing, of_verb)


class Unspaced(support.RunTest):
    MODEL = support.later_win(*support.TINY_MODEL, "--valid-every", 1000)  # validates at the end

    @classmethod
    def setUpClass(cls):
        super(support.RunTest, cls).setUpClass()
        cls.text = list(pairs(JAPANESE, "{}は{}を{}。"))
        odd = [*cls.text[:10], ("the boy sees a rose", "少年は薔薇は薔薇を見ます。"), ("she", "彼女\u200b憂鬱")]
        cls.valid, cls.words = cls.prepared("ja", cls.text, odd)
        cls.counts = json.loads(cls.made(*cls.words, "--json"))
        cls.corpus = cls.words[-1]

    @classmethod
    def prepared(cls, name, text, valid):
        """The files of the validation set, and the command that prepares a corpus."""
        files = [
            cls.write(f"{name}-{part}.{side}", "".join(line[side] + "\n" for line in lines))
            for part, lines in (("train", text * 3), ("valid", valid))
            for side in (0, 1)
        ]
        words = ("prepare", "--train-sets", *files[:2], "--valid-sets", *files[2:], "--vocab-size", 90, "--output", cls.path(name + ".h5"))
        return files[2:], words

    def trained(self, name, steps=2, **settings):
        """The result, the recorded options, and what was said."""
        result = support.run(*self.train(name, max_steps=steps, **settings), "--json")
        self.assertEqual(result.returncode, 0, result.stderr.decode())
        return json.loads(result.stdout), json.loads(self.read(self.path(name, "config.json"))), result.stderr.decode()

    def test_unknown_tokens_are_counted(self):
        self.assertEqual(self.counts["train"]["unknown_tokens"], 0)
        self.assertGreater(self.counts["valid"]["unknown_tokens"], 0)

    def test_bleu_of_validations_has_the_words_of_the_language(self):
        chinese, words = self.prepared("zh", *(list(pairs(CHINESE, "{0}{2}{1}。"))[:end] for end in (None, 8)))
        self.succeed(*words)
        for name, corpus, valid, tokenizer in (
            ("ja", self.corpus, self.valid, "char"),
            ("zh", words[-1], chinese, "zh"),
        ):
            _, config, said = self.trained("of-" + name, corpus=corpus, valid_beam_size=1)
            self.assertIn(f"BLEU of the validation is computed with the tokenizer {tokenizer}: the references ", said)
            self.assertEqual((config["valid_tokenize"], config["valid_metric"]), (tokenizer, "bleu"))
            texts = ("--source", valid[0], "--reference", valid[1])
            evaluated = json.loads(self.succeed("evaluate", "--model", self.checkpoint("of-" + name, 2), *texts, "--beam-size", 1, "--json"))
            self.assertAlmostEqual(evaluated["score"], self.values("of-" + name, "valid_bleu")[2], delta=1e-9)
            self.assertTrue(evaluated["tok"].startswith(tokenizer), evaluated)
            # Going on it is the same.
            _, config, said = self.trained("of-" + name, corpus=corpus, valid_beam_size=1, steps=3)
            self.assertEqual(config["valid_tokenize"], tokenizer)
            self.assertNotIn("the search for the best", said)

    def test_with_words_of_none_the_best_is_by_chrf_and_stays_so(self):
        result, config, said = self.trained("auto", valid_tokenize="13a")
        self.assertIn("the validation references put no spaces between words", said)
        self.assertEqual((config["valid_metric"], config["valid_tokenize"]), ("chrf", "13a"))
        self.assertEqual(result["best_chrf"], max(self.values("auto", "valid_chrf").values()))
        # Going on, the metric is that of the checkpoint, though now there would be words for BLEU. Another one is told.
        for steps, settings, metric, compared in (
            (3, {"valid_tokenize": "char"}, "chrf", None),
            (4, {"valid_metric": "bleu", "valid_tokenize": "13a"}, "bleu", "by chrf and now by bleu"),
            (5, {"valid_metric": "bleu", "valid_tokenize": "char"}, "bleu", "by bleu and now by bleu:char"),
        ):
            _, config, said = self.trained("auto", steps, **settings)
            self.assertEqual(config["valid_metric"], metric)
            self.assertIn(compared or "", said)
            self.assertEqual("the search for the best" in said, compared is not None)
        _, config, _ = self.trained("loss", valid_beam_size=0)  # without translations there is the loss
        self.assertEqual(config["valid_metric"], "loss")

    def test_alignments_number_tokens_where_there_are_no_words(self):
        words = self.train("aligned", max_steps=2, valid_every=0)
        self.succeed(*words)
        model = self.checkpoint("aligned", 2)
        source, target = b"the boy sees a book\n", self.write("target", "少年は本を見ます。\n")
        forced = ("translate", "--model", model, "--alignment", "hard", "--prefix", target, "--max-extra-length", 60)

        def links(*options):
            text, alignment = self.succeed(*forced, *options, stdin=source).decode().rstrip("\n").split(" ||| ")
            self.assertTrue(text.startswith("少年は本を見ます"), text)
            return [tuple(map(int, link.split("-"))) for link in alignment.split()]

        auto, words, tokens = links(), links("--alignment-unit", "word"), links("--alignment-unit", "token")
        self.assertGreater(len(auto), 5)
        self.assertEqual(sorted(t for _, t in auto), list(range(len(auto))))
        self.assertEqual(len(tokens), len(auto))
        self.assertLess(len(words), len(auto))
        self.assertLess(max(s for s, _ in words + auto), 5)  # the source has words either way


if __name__ == "__main__":
    unittest.main(verbosity=2)
