# SPDX-License-Identifier: Apache-2.0
"""ventris prepare with several corpora: names, forms of input, tags, weights, what is left out."""

import json
import os
import re
import unittest

import h5py
import numpy

import support


def parts(file):
    return json.loads(file.attrs["parts"])


def sentences(file):
    """The ids of all sides of the training pairs: source, target, source, ..."""
    tokens, offsets = file["train/tokens"][:], file["train/offsets"][:]
    return [tokens[begin:end].tolist() for begin, end in zip(offsets, offsets[1:], strict=False)]


def texts(file):
    text, offsets = file["train/text"][:].tobytes(), file["train/text_offsets"][:]
    return [text[begin:end].decode() for begin, end in zip(offsets, offsets[1:], strict=False)]


class PrepareCorpora(support.CommandLineTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.corpus = cls.prepare_demo()
        with h5py.File(cls.corpus, "r") as file:
            cls.model = os.path.join(cls.folder, "spm.model")
            with open(cls.model, "wb") as out:
                out.write(file["tokenizer"][:].tobytes())

    def lines(self, name, first, last):
        return self.read(self.demo_path(name)).decode().split("\n")[:-1][first:last]

    def put_lines(self, name, lines):
        return self.write(name, ("\n".join(lines) + "\n").encode())

    def side_files(self, name, first, last):
        return [self.put_lines(f"{name}.{side}", self.lines(f"train.{side}", first, last)) for side in ("en", "de")]

    def prepare(self, *options, stdin=b"", tokenizer=True):
        output = self.path("out.h5")
        words = ["prepare", *options, "--output", output, "--json"]
        result = support.run(*words, *(["--tokenizer-model", self.model] if tokenizer else []), stdin=stdin)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def open(self):
        return h5py.File(self.path("out.h5"), "r")

    def refused(self, code, *options, says):
        before = set(os.listdir(self.folder))
        self.refuse(code, "prepare", *options, "--output", self.path("no.h5"), says=says)
        self.assertEqual(set(os.listdir(self.folder)), before)

    def test_named_corpora_are_parts_of_one_file(self):
        whole = self.side_files("whole", 0, 300)
        first, second = self.side_files("first", 0, 100), self.side_files("second", 100, 180)
        third = [f"{en}\t{de}" for en, de in zip(self.lines("train.en", 180, 300), self.lines("train.de", 180, 300), strict=True)]
        tsv = self.put_lines("third.tsv", third)
        self.prepare("--train-sets", *whole)
        with self.open() as file:
            expected = sentences(file)
            self.assertEqual([part["name"] for part in parts(file)], ["train"])
        names = ("--train-set", "a", *first, "--train-set", "b-2", *second)
        report = self.prepare(*names, "--train-tsv", "c_3", tsv)
        with self.open() as file:
            self.assertEqual(sentences(file), expected)
            found = parts(file)
            self.assertEqual([(part["name"], part["first"], part["pairs"]) for part in found], [("a", 0, 100), ("b-2", 100, 80), ("c_3", 180, 120)])
            for part, corpus in zip(found, report["corpora"], strict=True):
                self.assertEqual(corpus["name"], part["name"])
                self.assertEqual((corpus["pairs_read"], corpus["pairs"]), (part["pairs"], part["pairs"]))
                sides = expected[2 * part["first"] : 2 * (part["first"] + part["pairs"])]
                self.assertEqual(part["source_tokens"], sum(map(len, sides[::2])))
                self.assertEqual(part["target_tokens"], sum(map(len, sides[1::2])))
                self.assertEqual(corpus["source_words"], part["source_tokens"])
                self.assertEqual(part["longest_target"], max(map(len, sides[1::2])))
            inputs = found[0]["details"]["inputs"] if isinstance(found[0]["details"], dict) else json.loads(found[0]["details"])["inputs"]
            self.assertEqual([(entry["name"], entry["lines"]) for entry in inputs], [("first.en", 100), ("first.de", 100)])
        self.assertEqual(report["train"]["pairs"], 300)

    def test_tags_are_single_tokens(self):
        plain, tagged = self.side_files("plain", 0, 100), self.side_files("tagged", 100, 200)
        report = self.prepare(
            "--train-set", "plain", *plain, "--train-set", "bt", *tagged, "--source-tag", "bt", "<bt>",
            "--target-tag", "bt", "<2de>", "--vocab-size", 200, "--keep-text", tokenizer=False,
        )  # fmt: skip
        self.assertEqual([(c["source_tag"], c["target_tag"]) for c in report["corpora"]], [("", ""), ("<bt>", "<2de>")])
        with self.open() as file:
            found, kept = sentences(file), texts(file)
            model = file["tokenizer"][:].tobytes()
            with open(self.path("tagged.model"), "wb") as out:
                out.write(model)
        first = {tuple(side[:1]) for side in found[200::2]}, {tuple(side[:1]) for side in found[201::2]}
        self.assertEqual((len(first[0]), len(first[1])), (1, 1))
        self.assertNotEqual(*first)
        (bt,), (to_german,) = first[0].pop(), first[1].pop()
        self.assertFalse([side for side in found[:200] if bt in side or to_german in side])
        english = self.lines("train.en", 100, 200)
        self.assertEqual(kept[200::2], ["<bt> " + line for line in english])
        # What follows the tag is what the text is without it.
        self.prepare("--train-set", "bt", *tagged, "--tokenizer-model", self.path("tagged.model"), tokenizer=False)
        with self.open() as file:
            self.assertEqual([side[1:] for side in found[200:]], sentences(file))
        self.refused(
            78, "--train-set", "bt", *tagged, "--source-tag", "bt", "<bt>", "--tokenizer-model", self.model,
            says=["the tag '<bt>' of bt is not one token", "user-defined symbol"],
        )  # fmt: skip
        for options, says in (
            (("--source-tag", "b", "<bt>"), "no corpus of that name"),
            (("--source-tag", "bt"), "--source-tag takes 2 values"),
            (("--target-tag", "bt", "a b"), "a word without spaces"),
            (("--source-tag", "bt", "</s>"), "is a mark of every vocabulary"),
        ):
            self.refused(64, "--train-set", "bt", *tagged, *options, says=says)

    def test_weights(self):
        first, second = self.side_files("first", 0, 50), self.side_files("second", 50, 100)
        weights = [i / 8 for i in range(50)]
        numbers = self.put_lines("weights", [str(weight) for weight in weights])
        report = self.prepare("--train-set", "a", *first, "--train-set", "b", *second, "--weights", "b", numbers)
        expected = numpy.array([1.0] * 50 + weights, numpy.float32)
        with self.open() as file:
            self.assertTrue(numpy.array_equal(file["train/weights"][:], expected))
        self.assertEqual([round(c["weights_mean"], 6) for c in report["corpora"]], [1, sum(weights) / 50])
        self.prepare("--train-set", "a", *first)
        with self.open() as file:
            self.assertNotIn("weights", file["train"])
        for lines, says in (
            ([*map(str, weights[:49]), "nan"], "weights:50: the weight of the pair is 'nan'"),
            ([*map(str, weights[:49]), "-0.5"], "weights:50"),
            (["1"] * 49, "has 49 lines"),
            (["0", "0.0"] * 25, ["weights of all 50 training pairs of b are 0", "above 0"]),
        ):
            bad = self.put_lines("weights", lines)
            self.refused(65, "--train-set", "b", *second, "--weights", "b", bad, "--tokenizer-model", self.model, says=says)
        for lines, says in (
            (["a\tb", "one"], "bad.tsv:2: the line has 1 columns; expected 2"),
            (["a\tb", "a\tb\t1"], "bad.tsv:2: the line has 3 columns; expected 2"),
        ):
            self.refused(65, "--train-tsv", "c", self.put_lines("bad.tsv", lines), "--tokenizer-model", self.model, says=says)

    def test_names_and_groups(self):
        files = self.side_files("some", 0, 20)
        for name in ("Upper", "with space", "valid", "until", "x" * 65):
            self.refused(64, "--train-set", name, *files, says="cannot be the name of a corpus or set")
        self.refused(64, "--train-set", "a", *files, "--train-set", "a", *files, says="two corpora have the name a")
        self.refused(64, "--train-set", *files, says="--train-set takes 3 values each time, NAME SRC TGT")
        self.refused(64, "--train-tsv", "a", "-", says="- is the standard input; give a file")


class FixedBits(support.CommandLineTest):
    def test_tokens_are_those_of_the_release(self):
        golden = os.path.join(support.GOLDEN_DIR, "files", "1.0", "corpus.h5")
        self.succeed("demo-corpus", "--output-dir", self.path("demo"), "--train-pairs", 70, "--valid-pairs", 6, "--test-pairs", 6)
        sets = [[self.path("demo", f"{name}.{side}") for side in ("en", "de")] for name in ("train", "valid")]
        tokenizer = ("--vocab-size", 110, "--no-normalization")
        self.succeed("prepare", "--train-sets", *sets[0], "--valid-sets", *sets[1], *tokenizer, "--output", self.path("out.h5"))
        with h5py.File(golden, "r") as expected, h5py.File(self.path("out.h5"), "r") as found:
            for name in ("tokenizer", "train/tokens", "train/offsets", "valid/tokens", "valid/offsets"):
                self.assertEqual(found[name][:].tolist(), expected[name][:].tolist(), name)


class Progress(support.CommandLineTest):
    def test_lines_tell_phase_rate_and_time_left(self):
        self.prepare_demo()
        # Several blocks of pairs that are written one after the other: the first line of a phase is too early for a rate.
        files = [self.demo_path("train.en"), self.demo_path("train.de")] * 100
        text = ["--train-sets", *files, "--vocab-size", 200, "--threads", 1]
        result = support.run("prepare", *text, "--output", self.path("out.h5"), "--log-seconds", 1e-6)
        self.assertEqual(result.returncode, 0, result.stderr)
        lines = result.stderr.decode().splitlines()
        for pattern in (r"training the tokenizer  [\d,]+ pairs", r"tokenizing  [\d,]+ pairs  [\d,]+ pairs/s  \d+ s left", r"writing  [\d,]+ pairs"):
            self.assertTrue([line for line in lines if re.match(pattern, line)], (pattern, lines))
        silent = support.run("prepare", *text, "--output", self.path("out.h5"), "--log-seconds", 0)
        self.assertNotIn("pairs/s", silent.stderr.decode())


if __name__ == "__main__":
    unittest.main(verbosity=2)
