# SPDX-License-Identifier: Apache-2.0
"""ventris prepare and demo-corpus on good and on bad input (PrepareTest of tests/data has more of it), and inspect of what they make."""

import gzip
import json
import os
import unittest

import h5py
import numpy

import support


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
        good, blank, empty = self.small_text("good", 200), self.write("blank", " \n"), self.write("empty", "")
        zipped = self.write("cut.gz", gzip.compress(self.read(good))[:1000])
        for code, source, target, options, says in (
            (65, blank, blank, ("--vocab-size", 50), ""),
            (65, empty, empty, (), "empty"),
            (66, good, self.path("none"), (), "none"),
            (64, "/dev/urandom", good, (), ["/dev/urandom", "a pipe or a device"]),
            (64, good, self.path("pipe"), (), ["pipe", "a pipe or a device"]),
            (65, good, self.small_text("short", 199), (), ["/good", "/short"]),
            (65, self.small_text("latin", 200, {41: b"K\xe4se"}), good, (), ["/latin", "42", "UTF-8"]),
            (65, zipped, good, ("--vocab-size", 200), "cut.gz"),
            (78, good, good, ("--vocab-size", 50000), "50000"),
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


if __name__ == "__main__":
    unittest.main(verbosity=2)
