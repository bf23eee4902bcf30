# SPDX-License-Identifier: Apache-2.0
"""Options of the tokenizer from prepare to evaluate: symbols, bytes, words, models without a begin mark, and text
without spaces between words."""

import json
import os
import unittest

import h5py
import support

AT = support.TINY_MODEL.index("--valid-every")
SIZE = (*support.TINY_MODEL[:AT], *support.TINY_MODEL[AT + 2 :], "--valid-beam-size", 1)
IPADIC = "/var/lib/mecab/dic/ipadic-utf8"
SPACE = "\u2581"


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        at += 1
        if data[at - 1] < 128:
            return value, at
        shift += 7


def pieces(model):
    """The texts of the vocabulary of a SentencePiece model."""
    found, at = [], 0
    while at < len(model):
        key, at = varint(model, at)
        size, at = varint(model, at)
        if key == 10:
            length, begin = varint(model, at + 1)
            found.append(model[begin : begin + length].decode())
        at += size
    return found


def write_pairs(test, name, pairs):
    files = [test.path(f"{name}.{side}") for side in ("source", "target")]
    for side, path in enumerate(files):
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(pair[side] + "\n" for pair in pairs)
    return files


class TokenizerOptions(support.CommandLineTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.prepare_demo()

    def prepare(self, *options, name="corpus.h5", train=None, valid=None):
        output = self.path(name)
        train = train or (self.demo_path("train.en"), self.demo_path("train.de"))
        valid = valid or (self.demo_path("valid.en"), self.demo_path("valid.de"))
        words = ("prepare", "--train-sets", *train, "--valid-sets", *valid, "--output", output, "--threads", 2)
        result = support.run(*words, *options)
        self.assertEqual(result.returncode, 0, result.stderr.decode())
        return output, result

    def tokenizer(self, corpus):
        with h5py.File(corpus) as file:
            model, origin = file["tokenizer"][:].tobytes(), json.loads(file.attrs["tokenizer_origin"])
            tokens, ends = file["train/tokens"][:], file["train/offsets"][:]
            return pieces(model), origin, [tokens[a:b].tolist() for a, b in zip(ends[:-1:2], ends[1::2])]

    def train(self, corpus, name, *options, steps=4):
        model = self.path(name)
        words = ("train", "--corpus", corpus, "--model-dir", model, *SIZE, "--max-steps", steps)
        result = support.run(*words, *options)
        self.assertEqual(result.returncode, 0, result.stderr.decode())
        config = json.loads(self.read(os.path.join(model, "config.json")))
        return model, config, result.stderr.decode()

    def scores(self, model, source, target):
        lines = self.succeed("score", "--model", model, "--source", source, "--target", target, "--json")
        return [json.loads(line) for line in lines.splitlines()]

    def translate_score_and_evaluate(self, model, source, target):
        """All of them work, and know each other's text."""
        text = self.read(source)
        translated = self.succeed("translate", "--model", model, "--beam-size", 1, stdin=text).decode()
        self.assertEqual(translated.count("\n"), text.count(b"\n"))
        self.assertNotIn(SPACE, translated)
        forced = self.succeed(
            *("translate", "--model", model, "--beam-size", 1, "--prefix", target, "--max-extra-length", 60), stdin=text
        ).decode()
        for line, prefix in zip(forced.splitlines(), self.read(target).decode().splitlines()):
            self.assertTrue(line.startswith(prefix), (line, prefix))
        scored = self.scores(model, source, target)
        result = support.run(
            *("evaluate", "--model", model, "--source", source, "--reference", target, "--beam-size", 1, "--json")
        )
        self.assertEqual(result.returncode, 0, result.stderr.decode())
        return scored, json.loads(result.stdout), result.stderr.decode()

    def test_the_record_has_only_what_is_used(self):
        _, origin, _ = self.tokenizer(self.prepare("--vocab-size", support.VOCABULARY)[0])
        keys = ["kind", "vocab_size", "character_coverage", "max_sentences", "lowercase", "identity"]
        self.assertEqual(list(origin), keys)
        self.assertEqual(origin["character_coverage"], 1.0)

    def test_symbols_bytes_and_digits(self):
        tagged = [self.path("tagged.en"), self.demo_path("train.de")]
        text = self.read(self.demo_path("train.en")).decode().splitlines()
        with open(tagged[0], "w", encoding="utf-8") as file:
            file.writelines(f"<bt> {line} 1234\n" for line in text)
        options = ("--user-symbols", "<bt>,<2de>", "--control-symbols", "<pad>", "--byte-fallback", "--split-digits")
        for kind in ("bpe", "unigram"):
            corpus, _ = self.prepare(
                *("--vocab-size", 600, "--no-dummy-prefix", "--tokenizer", kind), *options, train=tagged, name=f"{kind}.h5"
            )
            vocabulary, origin, lines = self.tokenizer(corpus)
            expected = {"user_symbols": ["<bt>", "<2de>"], "control_symbols": ["<pad>"]}
            self.assertEqual({key: origin[key] for key in expected}, expected)
            self.assertTrue(origin["byte_fallback"] and origin["split_digits"] and origin["no_dummy_prefix"])
            tag = vocabulary.index("<bt>")
            for line, ids in zip(text, lines):
                self.assertEqual((ids[0], ids.count(tag)), (tag, 1))
                self.assertEqual("".join(vocabulary[i] for i in ids).replace(SPACE, " "), f"<bt> {line} 1234")
                self.assertEqual([vocabulary[i] for i in ids[-4:]], list("1234"))
        source = self.write("source", "<bt> the 犬 sees 12\n" * 2)
        target = self.write("target", "das 犬 sieht <2de> 34\nder Hund\n")
        model, _, _ = self.train(corpus, "symbols")
        self.translate_score_and_evaluate(model, source, target)

    def test_a_symbol_that_another_program_cuts_otherwise_is_not_exported_to_it(self):
        for symbol, code in (("<2de>", 0), (">>de<<", 78)):
            name = f"symbol-{code}"
            corpus, _ = self.prepare("--vocab-size", support.VOCABULARY, "--user-symbols", symbol, name=f"{name}.h5")
            model, _, _ = self.train(corpus, name, "--layer-norm-epsilon", 1e-5)
            words = ("export", "--model", model, "--output", self.path(f"{name}-out"), "--format")
            if code == 0:
                self.succeed(*words, "huggingface")
            else:
                self.refuse(code, *words, "huggingface", says=["cannot carry the symbol '>>de<<'", "<2de>"])
                self.succeed(*words, "ctranslate2")

    def test_what_cannot_be_is_refused(self):
        files = (self.demo_path("train.en"), self.demo_path("train.de"))
        words = ("prepare", "--train-sets", *files, "--output", self.path("out.h5"))
        for options, code, says in (
            (("--user-symbols", "<a>,,<b>"), 78, "--user-symbols: '' cannot be a symbol: it is empty"),
            (("--user-symbols", "<a>,<a>"), 78, "given twice"),
            (("--user-symbols", "<a>", "--control-symbols", "<a>"), 78, "given twice"),
            (("--control-symbols", "</s>"), 78, "mark of every vocabulary"),
            (("--user-symbols", "a b"), 78, "white space"),
            (("--byte-fallback", "--user-symbols", "<0x41>"), 78, "token of a byte"),
            (("--byte-fallback", "--vocab-size", 200), 78, "--vocab-size"),
            (("--byte-fallback", "--vocab-size", 260), 78, "of which 256 are the bytes of --byte-fallback"),
            (("--tokenizer", "word", "--no-dummy-prefix"), 78, "--no-dummy-prefix"),
            (("--tokenizer", "word", "--split-digits"), 78, "--split-digits"),
            (("--control-symbols", "\u672c"), 78, "\u672c"),
            (("--tokenizer", "word", "--byte-fallback"), 78, "--byte-fallback"),
        ):
            self.refuse(code, *words, *options, says=says)
            self.assertFalse(os.path.exists(self.path("out.h5")))
        given = self.write("words.txt", "der\ndie\n")
        for option in (
            *(("--user-symbols", "a"), ("--control-symbols", "a"), ("--byte-fallback",), ("--split-digits",)),
            *(("--no-dummy-prefix",), ("--lowercase",), ("--no-normalization",)),
        ):
            says = f"{option[0]} is for a tokenizer that is trained here, but {given} is given; leave out one of them"
            for given_by in ("--tokenizer-model", "--tokenizer-from"):
                self.refuse(64, *words, given_by, given, *option, says=says)
        for option, value in (("--tokenizer", "bpe"), ("--character-coverage", 1), ("--tokenizer-sentences", 2000000)):  # also their defaults
            for given_by in ("--tokenizer-model", "--tokenizer-from", "--source-tokenizer-model"):
                says = f"{option} and {given_by} exclude each other; give one of them"
                self.refuse(64, *words, given_by, given, option, value, says=says)
        for tag in ("<unk>", "<s>", "</s>"):
            for side in ("source", "target"):
                self.refuse(64, "prepare", "--train-set", "a", *files, f"--{side}-tag", "a", tag, "--output", self.path("out.h5"),
                            says=f"the tag '{tag}' of a is a mark of every vocabulary")  # fmt: skip

    def test_a_symbol_is_a_word_of_words(self):
        marked = [self.path(name) for name in ("marked.en", "marked.de")]
        for path, name in zip(marked, ("valid.en", "valid.de")):
            with open(path, "wb") as file:
                file.writelines(b"<x> " + line for line in self.read(self.demo_path(name)).splitlines(keepends=True)[:50])
        corpus, _ = self.prepare("--tokenizer", "word", "--vocab-size", 60, "--user-symbols", "<x>", train=marked)
        vocabulary, _, sources = self.tokenizer(corpus)
        self.assertEqual({vocabulary[ids[0]] for ids in sources}, {"\u2581<x>"})

    def test_words(self):
        corpus, result = self.prepare("--tokenizer", "word", "--vocab-size", 60)
        vocabulary, origin, lines = self.tokenizer(corpus)
        self.assertEqual((origin["kind"], len(vocabulary)), ("word", 60))
        self.assertNotIn("unknown to the vocabulary", result.stdout.decode())
        ids = {piece: i for i, piece in enumerate(vocabulary)}
        text = self.read(self.demo_path("train.en")).decode().splitlines()
        unknown = 0
        for line, got in zip(text, lines):
            expected = [ids.get(SPACE + word, 0) for word in line.split()]
            self.assertEqual(got, expected)
            unknown += expected.count(0)
        self.assertGreater(unknown, 0)
        model, _, _ = self.train(corpus, "words")
        known = [piece[1:] for piece in vocabulary if piece[0] == SPACE][:4]
        source = self.write("source", f"{known[0]} zebra xylophone {known[1]}\n")
        target = self.write("target", f"{known[2]} {known[3]}\n")
        scored, _, _ = self.translate_score_and_evaluate(model, source, target)
        self.assertEqual([line["length"] for line in scored], [3])
        # The words of a list, in its order.
        given = self.write("dict.txt", "".join(f"{word} 7\n" for word in known))
        corpus, _ = self.prepare("--tokenizer-model", given, name="listed.h5")
        vocabulary, origin, _ = self.tokenizer(corpus)
        self.assertEqual(vocabulary, ["<unk>", "<s>", "</s>", *(SPACE + word for word in known)])
        self.assertEqual(origin, {"given": "dict.txt"})
        bad = self.write("bad.txt", "der 3\ndie Katze\n")
        files = (self.demo_path("train.en"), self.demo_path("train.de"))
        words = ("prepare", "--train-sets", *files, "--output", self.path("out.h5"), "--tokenizer-model", bad)
        self.refuse(65, *words, says=["bad.txt:2", "one word"])

    def test_a_model_without_a_begin_mark(self):
        corpus, _ = self.prepare("--vocab-size", support.VOCABULARY)
        with h5py.File(corpus) as file:
            model = file["tokenizer"][:].tobytes()
        self.assertIn(b"\n\x03<s>", model)
        given = self.write("no-begin.model", model.replace(b"\n\x03<s>", b"\n\x03<q>", 1))
        corpus, result = self.prepare("--tokenizer-model", given, name="none.h5")
        self.assertIn("no-begin.model has no begin mark", result.stderr.decode())
        folder, config, said = self.train(corpus, "none")
        self.assertIn("the vocabulary has no begin mark", said)
        self.assertEqual((config["begin_embedding"], config["model"].get("zero_start")), ("none", True))
        explicit, _, said = self.train(corpus, "explicit", "--begin-embedding", "none")
        self.assertNotIn("begin mark", said)
        weights = [os.path.join(run, "checkpoint-00000004.h5") for run in (folder, explicit)]
        first, second = map(support.parameters, weights)
        self.assertTrue(all((first[name] == second[name]).all() for name in first))
        learned, config, _ = self.train(corpus, "learned", "--begin-embedding", "learned")
        self.assertEqual((config["begin_embedding"], config["model"].get("zero_start")), ("learned", None))
        # A run of before goes on as it began.
        _, config, said = self.train(corpus, "learned", steps=5)
        self.assertIn("resuming from", said)
        self.assertEqual(config["begin_embedding"], "learned")
        _, config, said = self.train(corpus, "none", steps=5)
        self.assertEqual(config["begin_embedding"], "none")
        self.refuse(
            78,
            *("train", "--corpus", corpus, "--model-dir", folder, *SIZE, "--begin-embedding", "learned", "--max-steps", 6),
            says="--begin-embedding none, but this run has learned"
        )
        source, target = self.demo_path("valid.en"), self.demo_path("valid.de")
        small = [self.write(name, b"".join(self.read(path).splitlines(True)[:3])) for name, path in (("s", source), ("t", target))]
        scored, _, _ = self.translate_score_and_evaluate(folder, *small)
        # What others can begin from zeros gets it, and gives the same scores when it comes back.
        exported = self.path("exported")
        self.succeed("export", "--model", folder, "--format", "ctranslate2", "--output", exported)
        self.refuse(
            78,
            *("export", "--model", folder, "--format", "huggingface", "--output", self.path("hf")),
            says="a start without an embedding"
        )
        back = self.path("back.h5")
        self.succeed("export", "--model", folder, "--format", "safetensors", "--output", self.path("w.safetensors"))
        self.succeed("import", "--input", self.path("w.safetensors"), "--output", back)
        self.assertEqual(self.scores(back, *small), scored)

    def end_to_end(self, name, pairs, tokenizer, says):
        train = write_pairs(self, f"{name}-train", pairs * 3)
        valid = write_pairs(self, f"{name}-valid", pairs[:8])
        corpus, _ = self.prepare("--vocab-size", 90, train=train, valid=valid, name=f"{name}.h5")
        _, origin, _ = self.tokenizer(corpus)
        self.assertEqual(origin["character_coverage"], 0.9995)
        model, config, said = self.train(corpus, name)
        self.assertIn(f"BLEU of the validation is computed with the tokenizer {tokenizer}: {says}", said)
        self.assertIn("(--valid-tokenize)", said)
        self.assertNotIn("put no spaces between words, so", said)
        self.assertEqual((config["valid_tokenize"], config["valid_metric"]), (tokenizer, "bleu"))
        scores = [json.loads(line) for line in self.read(os.path.join(model, "metrics.jsonl")).splitlines()]
        # At the end, greedily: what evaluate computes by itself.
        _, evaluated, told = self.translate_score_and_evaluate(os.path.join(model, "checkpoint-00000004.h5"), *valid)
        self.assertAlmostEqual(evaluated["score"], scores[-1]["valid_bleu"], delta=1e-9)
        self.assertTrue(evaluated["tok"].startswith(tokenizer), evaluated)
        self.assertIn(f"BLEU is computed with the tokenizer {tokenizer}: {says}", told)
        # Going on it is the same; another one is taken if asked.
        _, config, said = self.train(corpus, name, steps=5)
        self.assertEqual(config["valid_tokenize"], tokenizer)
        self.assertNotIn("the search for the best", said)

    def test_japanese(self):
        who = [("the boy", "少年"), ("a woman", "女の人"), ("my friend", "友だち"), ("the dog", "犬"), ("she", "彼女")]
        what = [("a book", "本"), ("bread", "パン"), ("the sea", "海"), ("a letter", "手紙"), ("the house", "家")]
        does = [("sees", "見ます"), ("likes", "好みます"), ("remembers", "覚えています"), ("wants", "望みます")]
        pairs = [(f"{s} {v} {o}", f"{t}は{p}を{w}。") for s, t in who for o, p in what for v, w in does]
        tokenizer = "ja-mecab" if os.path.isdir(IPADIC) else "char"
        self.end_to_end("ja", pairs, tokenizer, "the references are Japanese")

    def test_chinese(self):
        who = [("the boy", "男孩"), ("a woman", "女人"), ("my friend", "我的朋友"), ("the dog", "这只狗"), ("she", "她")]
        what = [("a book", "一本书"), ("bread", "面包"), ("the sea", "大海"), ("a letter", "一封信"), ("the house", "那座房子")]
        does = [("sees", "看见了"), ("likes", "很喜欢"), ("remembers", "还记得"), ("wants", "想要")]
        pairs = [(f"{s} {v} {o}", f"{t}{w}{p}。") for s, t in who for o, p in what for v, w in does]
        self.end_to_end("zh", pairs, "zh", "the references are Chinese")


if __name__ == "__main__":
    unittest.main(verbosity=2)
