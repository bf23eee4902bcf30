# SPDX-License-Identifier: Apache-2.0
"""ventris prepare and demo-corpus on good and on bad input."""

import gzip
import json
import os
import unittest

import h5py
import numpy

import support


class DemoCorpus(support.CommandLineTest):
    def test_six_files_that_depend_on_the_seed_alone(self):
        sizes = ("--train-pairs", 300, "--valid-pairs", 20, "--test-pairs", 30)
        for name, seed in (("a", 1), ("b", 1), ("c", 2)):
            self.succeed("demo-corpus", "--output-dir", self.path(name), "--seed", seed, *sizes)
        sets = {}
        for name, lines in (("train", 300), ("valid", 20), ("test", 30)):
            english, german = (self.read(self.path("a", f"{name}.{side}")).decode() for side in ("en", "de"))
            self.assertEqual((english.count("\n"), german.count("\n")), (lines, lines))
            self.assertEqual(self.read(self.path("b", f"{name}.en")).decode(), english)
            self.assertNotEqual(self.read(self.path("c", f"{name}.en")).decode(), english)
            sets[name] = set(english.splitlines())
        self.assertFalse(
            sets["train"] & sets["test"] or sets["train"] & sets["valid"] or sets["valid"] & sets["test"]
        )

    def test_a_folder_that_cannot_be_made(self):
        file = self.write("file", "x")
        self.refuse(73, "demo-corpus", "--output-dir", os.path.join(file, "demo"), says="file")


class Prepare(support.CommandLineTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.corpus = cls.prepare_demo()

    def prepare(self, source, target, *options):
        return ["prepare", "--train-sets", source, target, "--output", self.path("out.h5"), *options]

    def test_text_of_blanks_alone(self):
        for name, text in (("blank", " \n"), ("ideographic", "\u3000\n"), ("mark", "\ufeff\n"), ("empty", "\n")):
            file = self.write(name, text)
            for kind in ("unigram", "bpe"):
                self.refuse(65, *self.prepare(file, file, "--tokenizer", kind, "--vocab-size", 50), says="")
                self.assertFalse(os.path.exists(self.path("out.h5")))

    def test_a_device_or_a_pipe_is_no_text(self):
        os.mkfifo(self.path("pipe"))
        text = self.path("text")
        with open(text, "w", encoding="utf-8") as file:
            file.write("one\n")
        for path, kind in (("/dev/zero", "a device"), ("/dev/urandom", "a device"), (self.path("pipe"), "a pipe")):
            for sets in (("--train-sets", path, text), ("--train-sets", text, text, "--valid-sets", text, path)):
                self.refuse(64, "prepare", *sets, "--output", self.path("no.h5"), says=[path, kind], timeout=20)

    def refuse_and_leave_nothing(self, code, source, target, *options, says):
        before = set(os.listdir(self.folder))
        self.refuse(code, *self.prepare(source, target, *options), says=says)
        self.assertEqual(set(os.listdir(self.folder)) - before, set())

    def small_text(self, name, lines, replace=None):
        """A file of demo lines; `replace` maps line numbers from 0 to bytes."""
        text = self.read(self.demo_path("train.en")).split(b"\n")[:lines]
        for index, content in (replace or {}).items():
            text[index] = content
        return self.write(name, b"\n".join(text) + b"\n")

    def test_files_that_are_given_twice_are_told(self):
        english, german = self.small_text("twice.en", 60), self.small_text("twice.de", 60)
        link = self.path("link.en")
        os.symlink(english, link)

        def warnings(*sets):
            result = support.run("prepare", *sets, "--vocab-size", 100, "--output", self.path("twice.h5"))
            self.assertEqual(result.returncode, 0, result.stderr)
            return [line for line in result.stderr.decode().splitlines() if line.startswith("Warning: ")]

        self.assertEqual(warnings("--train-sets", english, german, "--valid-sets", english, german), [])
        self.assertEqual(
            warnings("--train-sets", english, german, link, german),
            [f"Warning: --train-sets has the pair {link} {german} twice: its sentences count twice"],
        )
        self.assertEqual(
            warnings("--train-sets", english, german, "--valid-sets", english, link),
            [f"Warning: --valid-sets has {english} as source and as target: the model would learn to copy"],
        )

    def test_the_corpus_file_opens_in_h5py(self):
        with h5py.File(self.corpus, "r") as file:
            (part,) = json.loads(file.attrs["parts"])
            tokens, offsets = file["train"]["tokens"][:], file["train"]["offsets"][:]
            self.assertEqual((tokens.dtype, offsets.dtype), (numpy.uint16, numpy.int64))
            self.assertEqual(offsets[0], 0)
            self.assertEqual(offsets[-1], len(tokens))
            self.assertGreater(part["pairs"], 390)
            self.assertEqual(len(offsets), 2 * part["pairs"] + 1)
            self.assertTrue((numpy.diff(offsets) > 0).all())
            self.assertEqual((numpy.diff(offsets)[::2].sum(), numpy.diff(offsets)[1::2].sum()),
                             (part["source_tokens"], part["target_tokens"]))  # fmt: skip
            self.assertTrue((tokens < support.VOCABULARY).all())
            self.assertEqual(len(file["valid/offsets"]), 41)
            self.assertGreater(len(file["tokenizer"]), 1000)

    def test_same_input_gives_the_same_bytes_whatever_the_form(self):
        english, german = self.read(self.demo_path("train.en")), self.read(self.demo_path("train.de"))
        halves = []
        for side, text in (("en", english), ("de", german)):
            lines = text.splitlines(keepends=True)
            for part, content in (("1", lines[:150]), ("2", lines[150:])):
                with gzip.open(self.path(f"{part}.{side}.gz"), "wb") as file:
                    file.write(b"".join(content))
                halves.append(self.path(f"{part}.{side}.gz"))
        first_en, second_en, first_de, second_de = halves
        self.succeed(
            "prepare",
            "--train-sets",
            first_en,
            first_de,
            second_en,
            second_de,
            "--vocab-size",
            support.VOCABULARY,
            "--output",
            self.path("gz.h5"),
            "--threads",
            1,
        )
        with h5py.File(self.corpus, "r") as plain, h5py.File(self.path("gz.h5"), "r") as zipped:
            for name in ("train/tokens", "train/offsets", "tokenizer"):
                self.assertTrue(numpy.array_equal(plain[name][:], zipped[name][:]), name)

    def test_a_given_tokenizer_is_used(self):
        with h5py.File(self.corpus, "r") as file:
            model = self.write("given.model", file["tokenizer"][:].tobytes())
        source, target = self.small_text("s", 50), self.small_text("t", 50)
        self.succeed(*self.prepare(source, target, "--tokenizer-model", model))
        with h5py.File(self.path("out.h5"), "r") as file:
            self.assertEqual(file["tokenizer"][:].tobytes(), self.read(model))
        os.remove(self.path("out.h5"))
        self.refuse_and_leave_nothing(65, source, target, "--tokenizer-model", source, says="s")
        self.refuse_and_leave_nothing(
            64, source, target, "--tokenizer-model", model, "--vocab-size", 100, says="--vocab-size exclude each other"
        )

    def test_a_unigram_model_depends_on_the_text_alone(self):
        files = []
        for threads in (1, 2):
            self.succeed(
                *self.prepare(
                    self.demo_path("train.en"),
                    self.demo_path("train.de"),
                    "--tokenizer",
                    "unigram",
                    "--vocab-size",
                    support.VOCABULARY,
                    "--threads",
                    threads,
                )
            )
            files.append(self.read(self.path("out.h5")))
        self.assertEqual(files[0], files[1])
        with h5py.File(self.path("out.h5"), "r") as unigram, h5py.File(self.corpus, "r") as bpe:
            self.assertEqual(unigram.attrs["vocab_size"], support.VOCABULARY)
            self.assertEqual(json.loads(unigram.attrs["tokenizer_origin"])["kind"], "unigram")
            self.assertNotEqual(unigram["tokenizer"][:].tobytes(), bpe["tokenizer"][:].tobytes())
        os.remove(self.path("out.h5"))

    def test_dropped_and_repaired_pairs_are_counted_and_reported(self):
        long_line = b" ".join([b"seven"] * 300)
        source = self.small_text("s", 200, {3: b"", 5: long_line, 7: b"one two\r", 9: b"one\0two"})
        target = self.small_text("t", 200, {4: b"   "})
        report = json.loads(
            self.succeed(
                *self.prepare(
                    source,
                    target,
                    "--vocab-size",
                    200,
                    "--max-length",
                    100,
                    "--max-length-ratio",
                    0,
                    "--dropped-report",
                    self.path("dropped.txt"),
                    "--json",
                )
            )
        )
        train = report["train"]
        self.assertEqual((train["read"], train["kept"], train["empty"], train["too_long"]), (200, 197, 2, 1))
        self.assertEqual((train["repaired_crlf"], train["repaired_nul"]), (1, 1))
        self.assertEqual(len(self.read(self.path("dropped.txt")).splitlines()), 5)
        self.succeed("inspect", self.path("out.h5"), "--verify")
        os.remove(self.path("out.h5"))
        os.remove(self.path("dropped.txt"))

    def test_length_ratio(self):
        source = self.small_text("s", 200, {3: b" ".join([b"seven"] * 60)})
        target = self.small_text("t", 200, {3: b"x"})
        report = json.loads(self.succeed(*self.prepare(source, target, "--vocab-size", 200, "--json")))
        self.assertEqual(report["train"]["bad_ratio"], 1)
        os.remove(self.path("out.h5"))

    def test_unequal_numbers_of_lines(self):
        self.refuse_and_leave_nothing(
            65, self.small_text("s", 200), self.small_text("t", 199), says=["/s", "/t"]
        )

    def test_invalid_utf8_names_the_line(self):
        source = self.small_text("s", 200, {41: b"K\xe4se"})
        self.refuse_and_leave_nothing(65, source, self.small_text("t", 200), says=["/s", "42", "UTF-8"])

    def test_a_line_of_more_than_a_megabyte(self):
        source = self.small_text("s", 200, {17: b"seven " * 200000})
        self.refuse_and_leave_nothing(65, source, self.small_text("t", 200), says=["/s", "18"])

    def test_empty_and_missing_files(self):
        empty = self.write("empty", b"")
        self.refuse_and_leave_nothing(65, empty, empty, says="empty")
        good = self.small_text("s", 20)
        self.refuse_and_leave_nothing(66, good, self.path("none"), says="none")

    def test_a_truncated_gzip_file(self):
        text = self.read(self.demo_path("train.en"))
        whole = gzip.compress(text)
        source, target = self.write("s.gz", whole[: len(whole) // 2]), self.write("t.gz", whole)
        self.refuse_and_leave_nothing(65, source, target, "--vocab-size", 200, says="s.gz")

    def test_a_vocabulary_too_large_for_the_text(self):
        source, target = self.small_text("s", 100), self.small_text("t", 100)
        self.refuse_and_leave_nothing(78, source, target, "--vocab-size", 50000, says="50000")

    def test_an_output_that_cannot_be_made(self):
        source = self.small_text("s", 100)
        self.refuse(
            73,
            "prepare",
            "--train-sets",
            source,
            source,
            "--vocab-size",
            100,
            "--output",
            self.path("none", "out.h5"),
            says="none",
        )


class DamagedFiles(support.CommandLineTest):
    def test_one_flipped_bit_anywhere_is_found(self):
        corpus = self.prepare_demo(train_pairs=300)
        self.assertIn(b"verified", self.succeed("inspect", corpus, "--verify"))
        whole = self.read(corpus)
        for place in (0, 20, 600, len(whole) // 2, len(whole) - 1):
            damaged = bytearray(whole)
            damaged[place] ^= 0x10
            file = self.write("damaged.h5", bytes(damaged))
            self.refuse(65, "inspect", file, "--verify", says="damaged.h5")
            self.refuse(65, "train", "--corpus", file, "--model-dir", self.path("m"), says="damaged.h5")
        self.refuse(65, "inspect", self.write("short.h5", whole[:1000]), says="short.h5")
        self.refuse(65, "inspect", self.write("text.h5", "no HDF5\n"), says="text.h5")
        self.refuse(65, "inspect", self.write("empty.h5", b""), says="empty.h5")
        self.refuse(66, "inspect", self.path("none.h5"), says="none.h5")

    def test_a_forged_file_that_crashes_the_library_is_refused(self):
        forged = os.path.join(support.SOURCE_DIR, "tests/fuzz/seeds/refused_corpus/crashes_the_library.h5")
        says = ["crashes_the_library.h5: the HDF5 library cannot read it safely", "it ended with"]
        self.refuse(65, "inspect", forged, says=says)
        self.refuse(65, "train", "--corpus", forged, "--model-dir", self.path("m"), says=says)

    def test_listing(self):
        corpus = self.prepare_demo(train_pairs=300)
        text = self.succeed("inspect", corpus).decode()
        self.assertIn("/train/tokens", text)
        listed = json.loads(self.succeed("inspect", corpus, "--json"))
        by_name = {dataset["name"]: dataset for dataset in listed["datasets"]}
        with h5py.File(corpus, "r") as file:
            tokens = file["train/tokens"][:]
        entry = by_name["/train/tokens"]
        self.assertEqual((entry["type"], entry["shape"]), ("u16", [len(tokens)]))
        self.assertEqual((entry["min"], entry["max"]), (tokens.min(), tokens.max()))
        self.assertAlmostEqual(entry["mean"], tokens.mean(), places=6)


if __name__ == "__main__":
    unittest.main(verbosity=2)
