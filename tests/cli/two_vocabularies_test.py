# SPDX-License-Identifier: Apache-2.0
"""A vocabulary for each side of a corpus (PrepareTwoVocabulariesTest of tests/data has more of it)."""

import json
import shutil
import subprocess
import unittest

import h5py

import support

SIDES = ("source", "target")
TOKENIZERS = {"source": "source_tokenizer", "target": "tokenizer"}
SIZES = {"source": 150, "target": 180}


def model(corpus, side):
    with h5py.File(corpus) as file:
        return file[TOKENIZERS[side]][:].tobytes()


def origin(corpus, side):
    with h5py.File(corpus) as file:
        return json.loads(file.attrs[TOKENIZERS[side] + "_origin"])


def train_ids(corpus):
    """The ids of the sources and of the targets of the training pairs."""
    with h5py.File(corpus) as file:
        tokens, ends = file["train/tokens"][:], file["train/offsets"][:]
    sides = [tokens[begin:end].tolist() for begin, end in zip(ends[:-1], ends[1:], strict=True)]
    return {"source": sides[::2], "target": sides[1::2]}


class PrepareTwoVocabularies(support.CommandLineTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.prepare_demo()
        cls.text = {"source": cls.demo_path("train.en"), "target": cls.demo_path("train.de")}
        cls.two = [word for side in SIDES for word in (f"--{side}-vocab-size", SIZES[side])]
        cls.output = cls.path("two.h5")
        cls.report = json.loads(cls.made(*cls.words(*cls.two), "--json"))
        cls.models = {side: cls.write(f"{side}.model", model(cls.output, side)) for side in SIDES}
        cls.given = [word for side in SIDES for word in (f"--{side}-tokenizer-model", cls.models[side])]

    @classmethod
    def words(cls, *options, output=None):
        valid = ("--valid-sets", cls.demo_path("valid.en"), cls.demo_path("valid.de"))
        return ("prepare", "--train-sets", *cls.text.values(), *valid, "--output", output or cls.output, *options)

    def test_the_report_and_the_file_name_both(self):
        self.assertEqual((self.report["source_vocab_size"], self.report["vocab_size"]), (150, 180))
        for side, size in SIZES.items():
            self.assertEqual(origin(self.output, side)["vocab_size"], size)
        self.succeed("inspect", self.output, "--verify")
        # One vocabulary: nothing of this.
        one = json.loads(self.succeed(*self.words("--vocab-size", 200, output=self.path("one.h5")), "--json"))
        self.assertNotIn("source_vocab_size", one)
        with h5py.File(self.path("one.h5")) as file:
            self.assertEqual(file.attrs["format_version"], 2)

    @unittest.skipUnless(shutil.which("spm_encode"), "there is no spm_encode")
    def test_ids_are_those_of_sentencepiece(self):
        unigram = ("--source-vocab-size", 400, "--target-vocab-size", 420, "--tokenizer", "unigram", "--byte-fallback")
        for options in (self.two, (*unigram, "--user-symbols", "garden,Garten")):
            output = self.path("ids.h5")
            self.succeed(*self.words(*options, output=output))
            found = train_ids(output)
            for side in SIDES:
                words = ["spm_encode", f"--model={self.write('spm.model', model(output, side))}", "--output_format=id"]
                with open(self.text[side], "rb") as lines:
                    expected = subprocess.run(words, stdin=lines, capture_output=True, check=True).stdout.decode()
                self.assertEqual(found[side], [[int(token) for token in line.split()] for line in expected.splitlines()])

    def test_contradictions(self):
        for options, says in (
            (self.two[:2], "--source-vocab-size needs --target-vocab-size"),
            (self.given[:2], "--source-tokenizer-model needs --target-tokenizer-model"),
            ((*self.two, "--vocab-size", 100), "--source-vocab-size and --vocab-size exclude each other"),
            ((*self.two, *self.given), "--source-vocab-size and --source-tokenizer-model exclude each other"),
            ((*self.given, "--tokenizer-from", self.output), "--source-tokenizer-model and --tokenizer-from exclude each other"),
            (("--source-vocab-size", 7, *self.two[2:]), "--source-vocab-size must be from 8"),
        ):
            self.refuse(64, *self.words(*options, output=self.path("no.h5")), says=says)


if __name__ == "__main__":
    unittest.main()
