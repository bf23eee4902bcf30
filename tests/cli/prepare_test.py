# SPDX-License-Identifier: Apache-2.0
"""ventris prepare and demo-corpus on good and on bad input (PrepareTest of tests/data has more of it): one corpus or several, with tags and
weights, one vocabulary or two; and inspect of what they make."""

import gzip
import json
import os
import random
import re
import unicodedata
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


def letters(line):
    kept = [c for c in line.lower() if not c.isspace() and unicodedata.category(c)[0] != "P" and unicodedata.category(c) != "Nd"]
    return "".join(kept) or line


class DemoCorpus(support.CommandLineTest):
    def test_six_files_that_depend_on_the_seed_alone(self):
        sizes = {"train": 300, "valid": 20, "test": 30}
        words = [word for name, size in sizes.items() for word in (f"--{name}-pairs", size)]
        for name, seed in (("a", 1), ("b", 1), ("c", 2)):
            self.succeed("demo-corpus", "--output-dir", self.path(name), "--seed", seed, *words)
        sets = {}
        for name, lines in sizes.items():
            english, german = (self.read(self.path("a", f"{name}.{side}")) for side in ("en", "de"))
            self.assertEqual((english.count(b"\n"), german.count(b"\n")), (lines, lines))
            self.assertEqual(self.read(self.path("b", f"{name}.en")), english)
            self.assertNotEqual(self.read(self.path("c", f"{name}.en")), english)
            sets[name] = set(english.splitlines())
        self.assertFalse(sets["train"] & sets["test"] or sets["train"] & sets["valid"] or sets["valid"] & sets["test"])
        file = self.write("file", "x")
        self.refuse(73, "demo-corpus", "--output-dir", os.path.join(file, "demo"), says="file")


class Prepare(support.CommandLineTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.corpus = cls.prepare_demo()

    def prepare(self, source, target, *options):
        return ["prepare", "--train-sets", source, target, "--output", self.path("out.h5"), *options]

    def small_text(self, name, lines, replace=None):
        """A file of demo lines; `replace` maps line numbers from 0 to bytes."""
        text = self.read(self.demo_path("train.en")).split(b"\n")[:lines]
        for index, content in (replace or {}).items():
            text[index] = content
        return self.write(name, b"\n".join(text) + b"\n")

    def test_bad_input_is_refused_and_leaves_nothing(self):
        os.mkfifo(self.path("pipe"))
        good, empty = self.small_text("good", 200), self.write("empty", "")
        zipped = self.write("cut.gz", gzip.compress(self.read(good))[:1000])
        for code, source, target, options, says in (
            (65, empty, empty, (), "empty"),
            (66, good, self.path("none"), (), "none"),
            (64, "/dev/urandom", good, (), ["/dev/urandom", "a pipe or a device"]),
            (64, good, self.path("pipe"), (), ["pipe", "a pipe or a device"]),
            (65, good, self.small_text("short", 199), (), ["/good", "/short"]),
            (65, self.small_text("latin", 200, {41: b"K\xe4se"}), good, (), ["/latin", "42", "UTF-8"]),
            (65, zipped, good, ("--vocab-size", 200), "cut.gz"),
            (65, good, good, ("--tokenizer-model", good), "good"),
            (73, good, good, ("--vocab-size", 100, "--output", self.path("none", "out.h5")), "none"),
        ):
            with self.subTest(source=source, target=target, options=options):
                before = set(os.listdir(self.folder))
                self.refuse(code, "prepare", *support.later_win(*self.prepare(source, target, *options)[1:]), says=says)
                self.assertEqual(set(os.listdir(self.folder)), before)

    def test_the_corpus_file_opens_in_h5py_and_inspect_lists_it(self):
        with h5py.File(self.corpus, "r") as file:
            (part,) = json.loads(file.attrs["parts"])
            tokens, offsets = file["train"]["tokens"][:], file["train"]["offsets"][:]
            self.assertEqual((tokens.dtype, offsets.dtype), (numpy.uint16, numpy.int64))
            self.assertEqual((offsets[0], offsets[-1]), (0, len(tokens)))
            self.assertEqual(len(offsets), 2 * part["pairs"] + 1)
            lengths = numpy.diff(offsets)
            self.assertTrue((lengths > 0).all())
            self.assertEqual((lengths[::2].sum(), lengths[1::2].sum()), (part["source_tokens"], part["target_tokens"]))
            self.assertTrue((tokens < support.VOCABULARY).all())
            self.assertEqual(len(file["valid/offsets"]), 41)
        listed = json.loads(self.succeed("inspect", self.corpus, "--json"))
        (entry,) = [dataset for dataset in listed["datasets"] if dataset["name"] == "/train/tokens"]
        self.assertEqual((entry["type"], entry["shape"]), ("u16", [len(tokens)]))
        self.assertEqual((entry["min"], entry["max"]), (tokens.min(), tokens.max()))
        self.assertAlmostEqual(entry["mean"], tokens.mean(), places=6)


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
                self.assertEqual(corpus["source_tokens"], part["source_tokens"])
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
        self.refused(64, "--train-set", "bt", *tagged, "--source-tag", "b", "<bt>", says="no corpus of that name")

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

    def test_every_reason_for_leaving_out_a_pair_is_counted(self):
        english, german = (self.lines(f"train.{side}", 0, 200) for side in ("en", "de"))
        valid = [self.put_lines(f"valid.{side}", self.lines(f"train.{side}", 0, 3)) for side in ("en", "de")]
        held_out = self.put_lines("test.de", [german[20], "", german[21].upper()])
        pairs = list(zip(english, german, strict=True))
        first = [*pairs[:120], ("", "leer"), (english[40].upper() + " !", german[40]), pairs[50], ("7 8", "9")]
        first += [("7 8", "9"), (english[60], "seven " * 300), ("one " * 30, "ein")]
        second = [*pairs[100:200], (english[1], "etwas neuer Text"), ("some new text", german[2] + "?")]
        files = []
        for name, rows in (("one", first), ("two", second)):
            files += ["--train-set", name, *(self.put_lines(f"{name}.{side}", [row[i] for row in rows]) for i, side in enumerate(("en", "de")))]
        for duplicates, overlap in (("none", "exact"), ("exact", "near"), ("near", "none")):
            with self.subTest(duplicates=duplicates, overlap=overlap):
                more = ("--overlap-files", held_out) if overlap != "none" else ()
                report = self.prepare(
                    *files, "--valid-sets", *valid, "--drop-duplicates", duplicates, "--drop-overlap", overlap, *more,
                    "--max-length", 200, "--max-length-ratio", 6, "--keep-text",
                )  # fmt: skip
                forms = {"none": None, "exact": lambda line: line, "near": letters}
                alike, held = forms[duplicates], forms[overlap]
                lines = {held(line) for path in (*valid, held_out) for line in self.read(path).decode().split("\n") if line} if held else set()
                seen, kept, expected = set(), [], []
                for rows in (first, second):
                    counts = dict.fromkeys(("empty", "overlap", "too_long", "bad_ratio", "duplicate", "near_duplicate"), 0)
                    for source, target in rows:
                        key = (alike(source), alike(target)) if alike else None
                        if not source or not target:
                            reason = "empty"
                        elif held and (held(source) in lines or held(target) in lines):
                            reason = "overlap"
                        elif "seven seven" in target:
                            reason = "too_long"
                        elif "one one" in source:
                            reason = "bad_ratio"
                        elif key in seen:
                            reason = "duplicate" if duplicates == "exact" else "near_duplicate"
                        else:
                            kept += [source, target]
                            if alike:
                                seen.add(key)
                            continue
                        counts[reason] += 1
                    expected.append(counts)
                found = [{key: corpus[f"dropped_{key}"] for key in expected[0]} for corpus in report["corpora"]]
                self.assertEqual(found, expected)
                self.assertEqual(report["train"]["pairs"], len(kept) // 2)
                self.assertEqual([report["valid"].get(key) for key in ("cut_too_long", "dropped_too_long")], [0, None])
                with self.open() as file:
                    self.assertEqual(texts(file), kept)
        self.refused(64, *files, "--overlap-files", held_out, "--tokenizer-model", self.model, says="--drop-overlap")
        same = ("--train-sets", *valid, "--valid-sets", *valid, "--drop-overlap", "exact", "--tokenizer-model", self.model)
        self.refused(65, *same, says="change --drop-overlap")

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
        # SentencePiece takes about two seconds for this text, and says nothing meanwhile.
        letters = random.Random(1)
        words = ["".join(letters.choices("abcdefghijklmnop", k=9)) for _ in range(16000)]
        side = self.write("words", "\n".join(words).encode())
        slow = ("--train-sets", side, side, "--tokenizer", "unigram", "--vocab-size", 3000)
        said = support.run("prepare", *slow, "--output", self.path("words.h5"), "--log-seconds", 0.3).stderr.decode()
        self.assertIn("training the tokenizer  16,000 pairs  for ", said)  # a repetition: the first report comes before 0.3 s
        silent = support.run("prepare", *text, "--output", self.path("out.h5"), "--log-seconds", 0)
        self.assertNotIn("pairs/s", silent.stderr.decode())


class TwoVocabularies(support.CommandLineTest):
    """One for each side (PrepareTwoVocabulariesTest of tests/data has more of it)."""

    def test_sizes_and_contradictions(self):
        self.prepare_demo()
        files = ("prepare", "--train-sets", self.demo_path("train.en"), self.demo_path("train.de"), "--output", self.path("two.h5"))
        two = ("--source-vocab-size", 150, "--target-vocab-size", 180)
        report = json.loads(self.succeed(*files, *two, "--json"))
        self.assertEqual((report["source_vocab_size"], report["vocab_size"]), (150, 180))
        self.succeed("inspect", self.path("two.h5"), "--verify")
        with h5py.File(self.path("two.h5")) as file:
            for name, size in (("source_tokenizer", 150), ("tokenizer", 180)):
                self.assertEqual(json.loads(file.attrs[name + "_origin"])["vocab_size"], size)
            given = ("--source-tokenizer-model", self.write("source.model", file["source_tokenizer"][:].tobytes()))
        for options, says in (
            (two[:2], "--source-vocab-size needs --target-vocab-size"),
            (given, "--source-tokenizer-model needs --target-tokenizer-model"),
            ((*two, "--vocab-size", 100), "--source-vocab-size and --vocab-size exclude each other"),
            ((*two, *given, "--target-tokenizer-model", given[1]), "--source-vocab-size and --source-tokenizer-model exclude each other"),
            (("--source-vocab-size", 7, *two[2:]), "--source-vocab-size must be from 8"),
        ):
            self.refuse(64, *files, *options, says=says)


if __name__ == "__main__":
    unittest.main(verbosity=2)
