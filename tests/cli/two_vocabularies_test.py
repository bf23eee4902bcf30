# SPDX-License-Identifier: Apache-2.0
"""A vocabulary for each side of a corpus."""

import json
import os
import random
import shutil
import subprocess
import unittest

import h5py
import support

SIDES = ("source", "target")
TOKENIZERS = {"source": "source_tokenizer", "target": "tokenizer"}


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
        cls.text, cls.valid = (
            {side: os.path.join(cls.folder, "demo", f"{name}.{end}") for side, end in (("source", "en"), ("target", "de"))} for name in ("train", "valid")
        )
        cls.output = os.path.join(cls.folder, "two.h5")
        cls.report = cls.prepare("--source-vocab-size", 150, "--target-vocab-size", 180)
        cls.models = {}
        for side in SIDES:
            cls.models[side] = os.path.join(cls.folder, f"{side}.model")
            with open(cls.models[side], "wb") as file:
                file.write(model(cls.output, side))

    @classmethod
    def words(cls, *options, output=None):
        files = ("--train-sets", *cls.text.values(), "--valid-sets", *cls.valid.values())
        return ("prepare", *files, "--output", output or cls.output, *options)

    @classmethod
    def prepare(cls, *options, output=None):
        result = support.run(*cls.words(*options, "--json", output=output))
        if result.returncode != 0:
            raise AssertionError(result.stderr.decode())
        return json.loads(result.stdout)

    def test_the_report_and_the_file_name_both(self):
        self.assertEqual((self.report["source_vocab_size"], self.report["vocab_size"]), (150, 180))
        self.assertEqual((self.report["source_tokenizer_sentences"], self.report["tokenizer_sentences"]), (400, 400))
        for side, size in (("source", 150), ("target", 180)):
            self.assertEqual(origin(self.output, side)["vocab_size"], size)
        shown = self.succeed("inspect", self.output).decode()
        for name in ("/source_tokenizer", "/tokenizer"):
            self.assertIn(name, shown)
        self.succeed("inspect", self.output, "--verify")
        text = support.run(*self.words("--source-vocab-size", 150, "--target-vocab-size", 180, "--log-seconds", "1e-6", output=self.path("text.h5")))
        said = text.stdout.decode()
        self.assertIn("tokenizer of sources: trained on 400 sentences\ntokenizer of targets: trained on 400 sentences\n", said)
        self.assertIn("vocabularies of 150 (sources) and 180 (targets) tokens", said)
        phases = text.stderr.decode()
        self.assertLess(phases.index("training the tokenizer of sources"), phases.index("training the tokenizer of targets"))
        # One vocabulary: nothing of this.
        one = self.prepare("--vocab-size", 200, output=self.path("one.h5"))
        self.assertNotIn("source_vocab_size", one)
        with h5py.File(self.path("one.h5")) as file:
            self.assertEqual(file.attrs["format_version"], 2)
            self.assertEqual([name for name in (*file.keys(), *file.attrs) if "source_" in name and "words" not in name], [])

    @unittest.skipUnless(shutil.which("spm_encode"), "there is no spm_encode")
    def test_ids_are_those_of_sentencepiece(self):
        for options in ((), ("--tokenizer", "unigram", "--byte-fallback", "--user-symbols", "garden,Garten")):
            sizes = (400, 420) if options else (150, 180)
            output = self.path("ids.h5")
            self.prepare("--source-vocab-size", sizes[0], "--target-vocab-size", sizes[1], *options, output=output)
            found = train_ids(output)
            for side in SIDES:
                path = self.write("spm.model", model(output, side))
                words = ["spm_encode", f"--model={path}", "--output_format=id"]
                with open(self.text[side], "rb") as lines:
                    expected = subprocess.run(words, stdin=lines, capture_output=True, check=True).stdout.decode()
                self.assertEqual(found[side], [[int(token) for token in line.split()] for line in expected.splitlines()])

    def test_given_models(self):
        options = [word for side in SIDES for word in (f"--{side}-tokenizer-model", self.models[side])]
        output = self.path("given.h5")
        self.prepare(*options, output=output)
        self.assertEqual(train_ids(output), train_ids(self.output))
        for side in SIDES:
            self.assertEqual(model(output, side), model(self.output, side))
            self.assertEqual(origin(output, side), {"given": f"{side}.model"})
        self.prepare("--tokenizer-from", self.output, output=output)
        self.assertEqual(train_ids(output), train_ids(self.output))
        self.assertEqual(origin(output, "source"), {"given": "two.h5"})
        # One model on both sides: two vocabularies nevertheless.
        self.prepare("--source-tokenizer-model", self.models["target"], "--target-tokenizer-model", self.models["target"], output=output)
        self.assertEqual(model(output, "source"), model(output, "target"))
        words = {side: self.write(f"{side}.txt", text) for side, text in (("source", "the 7\na 3\n"), ("target", "die\n"))}
        self.prepare("--source-tokenizer-model", words["source"], "--target-tokenizer-model", words["target"], output=output)
        with h5py.File(output) as file:
            self.assertEqual((file.attrs["source_vocab_size"], file.attrs["vocab_size"]), (5, 4))

    @unittest.skipUnless(shutil.which("spm_train"), "there is no spm_train")
    def test_unknown_tokens_are_counted_by_the_mark_of_each_side(self):
        marks = ("--unk_id=3", "--bos_id=1", "--eos_id=2", "--pad_id=0")
        words = ["spm_train", f"--input={self.text['source']}", f"--model_prefix={self.path('other')}", "--vocab_size=150", *marks]
        subprocess.run(words, capture_output=True, check=True)
        files = [self.write(f"unknown.{side}", text) for side, text in (("en", "猫 a 犬\n"), ("de", "猫 die\n"))]
        report = json.loads(self.succeed(
            "prepare", "--train-sets", *files, "--source-tokenizer-model", self.path("other.model"), "--target-tokenizer-model",
            self.models["target"], "--output", self.path("unknown.h5"), "--json"))  # fmt: skip
        found = train_ids(self.path("unknown.h5"))
        self.assertEqual((found["source"][0].count(3), found["target"][0].count(0)), (2, 1))
        self.assertEqual(report["train"]["unknown_words"], 3)
        self.assertEqual(report["train"]["unknown_characters"], {"U+732B": 2, "U+72AC": 1})

    def test_text_is_added_with_both(self):
        output = self.path("more.h5")
        self.succeed("prepare", "--append", self.output, "--train-set", "more", *self.text.values(), "--output", output)
        before, after = train_ids(self.output), train_ids(output)
        for side in SIDES:
            self.assertEqual(after[side], before[side] * 2)
            self.assertEqual(model(output, side), model(self.output, side))
            self.assertEqual(origin(output, side), origin(self.output, side))
        for option, value in (("source-vocab-size", 150), ("source-tokenizer-model", self.models["source"])):
            self.refuse(64, "prepare", "--append", self.output, "--train-set", "more", *self.text.values(), "--output",
                        self.path("no.h5"), f"--{option}", value, says=f"--append takes the tokenizer of the corpus, but --{option}")  # fmt: skip

    def test_coverage_of_characters_is_decided_for_each_side(self):
        numbers = random.Random(3)
        han = [chr(numbers.randrange(0x4E00, 0x5000)) for _ in range(60)]
        japanese = self.write("train.ja", "".join("".join(numbers.choices(han, k=9)) + "\n" for _ in range(400)))
        output = self.path("japanese.h5")
        words = ("prepare", "--train-sets", self.text["source"], japanese, "--source-vocab-size", 150, "--target-vocab-size", 120)
        self.succeed(*words, "--output", output)
        self.assertEqual((origin(output, "source")["character_coverage"], origin(output, "target")["character_coverage"]), (1.0, 0.9995))
        self.succeed(*words, "--output", output, "--character-coverage", 0.999)
        self.assertEqual([origin(output, side)["character_coverage"] for side in SIDES], [0.999, 0.999])

    def test_contradictions(self):
        two = ("--source-vocab-size", 150, "--target-vocab-size", 180)
        given = [word for side in SIDES for word in (f"--{side}-tokenizer-model", self.models[side])]
        refused = [
            (two[:2], "--source-vocab-size needs --target-vocab-size"),
            (two[2:], "--target-vocab-size needs --source-vocab-size"),
            (given[:2], "--source-tokenizer-model needs --target-tokenizer-model"),
            ((*two, "--vocab-size", 100), "--source-vocab-size and --vocab-size exclude each other"),
            ((*two, *given), "--source-vocab-size and --source-tokenizer-model exclude each other"),
            ((*two, "--tokenizer-model", self.models["source"]), "--source-vocab-size and --tokenizer-model exclude each other"),
            ((*given, "--tokenizer-from", self.output), "--source-tokenizer-model and --tokenizer-from exclude each other"),
            ((*given, "--byte-fallback"), "--byte-fallback is for a tokenizer that is trained here"),
            (("--source-vocab-size", 7, *two[2:]), "--source-vocab-size must be from 8"),
        ]
        for options, says in refused:
            self.refuse(64, *self.words(*options, output=self.path("no.h5")), says=says)
        for option, says in (("nwordssrc", "--source-vocab-size"), ("srcdict", "--source-tokenizer-model"), ("tgtdict", "--target-tokenizer-model")):
            self.refuse(64, *self.words(f"--{option}", 100, output=self.path("no.h5")), says=f"did you mean {says}?")
        too_large = self.words("--source-vocab-size", 90000, "--target-vocab-size", 180, output=self.path("no.h5"))
        self.refuse(78, *too_large, says=["sources: ", "pass --source-vocab-size"])
        self.assertFalse(os.path.exists(self.path("no.h5")))


if __name__ == "__main__":
    unittest.main()
