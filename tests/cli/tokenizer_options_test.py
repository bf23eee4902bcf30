# SPDX-License-Identifier: Apache-2.0
"""Options of the tokenizer from prepare to evaluate: symbols, bytes, words, and models without a begin mark."""

import json
import os
import unittest

import h5py

import proto
import support

SPACE = "\u2581"


class TokenizerOptions(support.RunTest):
    MODEL = support.later_win(*support.TINY_MODEL, "--valid-every", 1000, "--valid-beam-size", 1)

    def prepare(self, *options, name="made.h5", train=None):
        train = train or (self.demo_path("train.en"), self.demo_path("train.de"))
        valid = (self.demo_path("valid.en"), self.demo_path("valid.de"))
        output = self.path(name)
        said = self.told("prepare", "--train-sets", *train, "--valid-sets", *valid, "--output", output, "--threads", 2, *options)
        return output, said

    def tokenizer(self, corpus):
        """The pieces of the vocabulary, what is recorded of it, and the ids of the sources."""
        with h5py.File(corpus) as file:
            model, origin = file["tokenizer"][:].tobytes(), json.loads(file.attrs["tokenizer_origin"])
            tokens, ends = file["train/tokens"][:], file["train/offsets"][:]
            return proto.pieces(model), origin, [tokens[a:b].tolist() for a, b in zip(ends[:-1:2], ends[1::2])]

    def trained(self, corpus, name, steps=4, **settings):
        said = self.told(*self.train(name, corpus=corpus, max_steps=steps, **settings))
        return self.path(name), json.loads(self.read(self.path(name, "config.json"))), said

    def scores(self, model, source, target):
        lines = self.succeed("score", "--model", model, "--source", source, "--target", target, "--json")
        return [json.loads(line) for line in lines.splitlines()]

    def translate_score_and_evaluate(self, model, source, target):
        """All of them work, and know each other's text."""
        text = self.read(source)
        words = ("translate", "--model", model, "--beam-size", 1)
        translated = self.succeed(*words, stdin=text).decode()
        self.assertEqual(translated.count("\n"), text.count(b"\n"))
        self.assertNotIn(SPACE, translated)
        forced = self.succeed(*words, "--prefix", target, "--max-extra-length", 60, stdin=text).decode()
        for line, prefix in zip(forced.splitlines(), self.read(target).decode().splitlines()):
            self.assertTrue(line.startswith(prefix), (line, prefix))
        self.succeed("evaluate", "--model", model, "--source", source, "--reference", target, "--beam-size", 1)
        return self.scores(model, source, target)

    def test_symbols_bytes_and_digits(self):
        text = self.read(self.demo_path("train.en")).decode().splitlines()
        tagged = [self.write("tagged.en", "".join(f"<bt> {line} 1234\n" for line in text)), self.demo_path("train.de")]
        options = ("--user-symbols", "<bt>,<2de>", "--control-symbols", "<pad>", "--byte-fallback", "--split-digits", "--no-dummy-prefix")
        for kind in ("bpe", "unigram"):
            corpus, _ = self.prepare("--vocab-size", 600, "--tokenizer", kind, *options, train=tagged, name=f"{kind}.h5")
            vocabulary, origin, lines = self.tokenizer(corpus)
            self.assertEqual((origin["user_symbols"], origin["control_symbols"]), (["<bt>", "<2de>"], ["<pad>"]))
            tag = vocabulary.index("<bt>")
            for line, ids in zip(text, lines):
                self.assertEqual((ids[0], ids.count(tag)), (tag, 1))
                self.assertEqual("".join(vocabulary[i] for i in ids).replace(SPACE, " "), f"<bt> {line} 1234")
                self.assertEqual([vocabulary[i] for i in ids[-4:]], list("1234"))
        source = self.write("source", "<bt> the 犬 sees 12\n" * 2)
        target = self.write("target", "das 犬 sieht <2de> 34\nder Hund\n")
        model, _, _ = self.trained(corpus, "symbols")
        self.translate_score_and_evaluate(model, source, target)

    def test_what_cannot_be_is_refused(self):
        words = ("prepare", "--train-sets", self.demo_path("train.en"), self.demo_path("train.de"), "--output", self.path("out.h5"))
        given = self.write("words.txt", "der\ndie\n")
        for options, code, says in (
            (("--user-symbols", "<a>,,<b>"), 78, "--user-symbols: '' cannot be a symbol: it is empty"),
            (("--user-symbols", "<a>", "--control-symbols", "<a>"), 78, "given twice"),
            (("--control-symbols", "</s>"), 78, "mark of every vocabulary"),
            (("--byte-fallback", "--vocab-size", 260), 78, "of which 256 are the bytes of --byte-fallback"),
            (("--tokenizer", "word", "--byte-fallback"), 78, "--byte-fallback"),
            (("--tokenizer-model", given, "--lowercase"), 64, "--lowercase is for a tokenizer that is trained here"),
            (("--tokenizer-from", given, "--user-symbols", "a"), 64, "--user-symbols is for a tokenizer that is trained here"),
            (("--tokenizer-from", given, "--tokenizer-model", given), 64, "exclude each other"),
            (("--tokenizer-model", given, "--tokenizer", "bpe"), 64, "exclude each other"),  # also the default
            (("--tokenizer-from", self.path("nowhere")), 66, "nowhere"),
        ):
            self.refuse(code, *words, *options, says=says)
            self.assertFalse(os.path.exists(self.path("out.h5")))

    def test_words(self):
        corpus, said = self.prepare("--tokenizer", "word", "--vocab-size", 60)
        vocabulary, origin, lines = self.tokenizer(corpus)
        self.assertEqual((origin["kind"], len(vocabulary)), ("word", 60))
        ids = {piece: i for i, piece in enumerate(vocabulary)}
        expected = [[ids.get(SPACE + word, 0) for word in line.split()] for line in self.read(self.demo_path("train.en")).decode().splitlines()]
        self.assertEqual(lines, expected)
        self.assertIn(0, sum(expected, []))
        model, _, _ = self.trained(corpus, "words")
        known = [piece[1:] for piece in vocabulary if piece[0] == SPACE][:4]
        source = self.write("source", f"{known[0]} zebra xylophone {known[1]}\n")
        target = self.write("target", f"{known[2]} {known[3]}\n")
        self.assertEqual([line["length"] for line in self.translate_score_and_evaluate(model, source, target)], [3])

    def test_a_model_without_a_begin_mark(self):
        with h5py.File(self.corpus) as file:
            model = file["tokenizer"][:].tobytes()
        self.assertIn(b"\n\x03<s>", model)
        given = self.write("no-begin.model", model.replace(b"\n\x03<s>", b"\n\x03<q>", 1))
        corpus, said = self.prepare("--tokenizer-model", given, name="none.h5")
        folder, config, said = self.trained(corpus, "none")
        self.assertIn("the vocabulary has no begin mark", said)
        self.assertEqual((config["begin_embedding"], config["model"].get("zero_start")), ("none", True))
        self.trained(corpus, "explicit", begin_embedding="none")
        self.assert_same_parameters("explicit", "none", 4)
        # A run of before goes on as it began.
        self.trained(corpus, "learned", begin_embedding="learned")
        for name, begin in (("learned", "learned"), ("none", "none")):
            self.assertEqual(self.trained(corpus, name, steps=5)[1]["begin_embedding"], begin)
        small = [self.write(name, b"".join(self.read(self.demo_path(name)).splitlines(True)[:3])) for name in ("valid.en", "valid.de")]
        scored = self.translate_score_and_evaluate(folder, *small)
        # What others can begin from zeros gets it, and gives the same scores when it comes back.
        export = ("export", "--model", folder, "--output")
        self.succeed(*export, self.path("exported"), "--format", "ctranslate2")
        self.refuse(78, *export, self.path("hf"), "--format", "huggingface", says="a start without an embedding")
        self.succeed(*export, self.path("w.safetensors"))
        self.succeed("import", "--input", self.path("w.safetensors"), "--output", self.path("back.h5"))
        self.assertEqual(self.scores(self.path("back.h5"), *small), scored)

    def test_a_symbol_that_another_program_cuts_otherwise_is_not_exported_to_it(self):
        corpus, _ = self.prepare("--vocab-size", support.VOCABULARY, "--user-symbols", ">>de<<")
        model, _, _ = self.trained(corpus, "symbol", layer_norm_epsilon=1e-5)
        words = ("export", "--model", model, "--output", self.path("exported"), "--format")
        self.refuse(78, *words, "huggingface", says=["cannot carry the symbol '>>de<<'", "<2de>"])
        self.succeed(*words, "ctranslate2")


if __name__ == "__main__":
    unittest.main(verbosity=2)
