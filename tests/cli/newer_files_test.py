# SPDX-License-Identifier: Apache-2.0
"""Files of later versions of the program: refused with both versions, before anything else in them is judged. And what
files say of their own."""

import json
import os
import shutil
import unittest

import h5py
import numpy

import support
from digest_test import seal_hdf5, xxh3_128

FILES = os.path.join(support.GOLDEN_DIR, "files", "1.0")
CHECKPOINT = "run/checkpoint-00001500.h5"
LATER = 9

LENGTH_BYTES = 8  # of a safetensors file, before its header


def seal_safetensors(path, header, data):
    """Writes a file with this header, whose digest is made right."""
    header["__metadata__"]["digest"] = "0" * 32
    text = json.dumps(header, separators=(",", ":")).encode()
    digest = xxh3_128(text + data).encode()
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(LENGTH_BYTES, "little") + text.replace(b"0" * 32, digest, 1) + data)


class NewerFiles(support.CommandLineTest):
    def setUp(self):
        self.copy = self.path(self.id().rsplit(".", 1)[-1])
        shutil.copytree(FILES, self.copy)

    def file(self, name):
        return os.path.join(self.copy, name)

    def train(self, **options):
        words = self.read(self.file("run/command.txt")).decode().split()[2:]
        settings = {**dict(zip(words[::2], words[1::2])), "--max-steps": 1501, "--valid-every": 0}
        settings.update({"--" + key.replace("_", "-"): value for key, value in options.items()})
        return ["train", *(word for pair in settings.items() for word in pair)]

    def content(self):
        found = {}
        for folder, _, names in os.walk(self.copy):
            for name in set(names) - {".lock"}:  # which tells who held it last
                path = os.path.join(folder, name)
                found[os.path.relpath(path, self.copy)] = xxh3_128(self.read(path))
        return found

    def refuses(self, name, known, *commands):
        """Each command ends with 65 and both versions of the file of this name, and changes nothing."""
        before = self.content()
        for words in commands:
            message = self.refuse(65, *words, cwd=self.copy, says=[name, "made by a newer ventris"])
            self.assertIn(f"version {LATER}, and this program reads versions up to {known}: ", message)
            self.assertEqual(self.content(), before, words)

    def change_hdf5(self, name, format_of, unknown=True):
        """Makes an HDF5 file one of a later version; with a dataset as no file of ours has it."""
        with h5py.File(self.file(name), "r+") as file:
            for attribute, value in format_of.items():
                file.attrs[attribute] = value
            if unknown:
                file.create_dataset("model/more", data=numpy.zeros((4, 4), numpy.complex64), chunks=(2, 2))
        seal_hdf5(self.file(name))

    def change_json(self, name, kind):
        """Makes a file of one JSON object one of a later version, without anything that it has now."""
        with open(self.file(name), "w", encoding="utf-8") as file:
            json.dump({"format": f"ventris {kind} {LATER}", "more": [1]}, file)

    def test_corpus(self):
        self.change_hdf5("corpus.h5", {"format_version": numpy.int64(LATER)})
        self.refuses("corpus.h5", 3, self.train(), ("inspect", "corpus.h5"))

    def test_checkpoint(self):
        self.change_hdf5(CHECKPOINT, {"format": numpy.bytes_(f"ventris checkpoint {LATER}")})
        self.refuses(
            os.path.basename(CHECKPOINT), 1, self.train(), self.train(resume=CHECKPOINT), self.train(model_dir="other",
            init="run"), ("translate", "--model", "run"), ("export", "--model", CHECKPOINT, "--output", "w.h5"),
            ("average", "--checkpoints", CHECKPOINT, "--output", "w.h5"), ("inspect", CHECKPOINT), ("inspect", "run", "--verify")
        )  # fmt: skip

    def test_weights(self):
        for name in ("weights.h5", "weights-int8.h5"):
            self.change_hdf5(name, {"format": numpy.bytes_(f"ventris weights {LATER}")})
            self.refuses(
                name, 2, ("translate", "--model", name), ("score", "--model", name, "--source", "test.en", "--target",
                "test.de"), ("import", "--input", name, "--output", "w.h5"), ("inspect", name), ("inspect", name, "--verify"),
                ("average", "--checkpoints", name, "--output", "w.h5"), self.train(model_dir="other", init=name)
            )  # fmt: skip

    def test_safetensors(self):
        name = "weights.safetensors"
        data = self.read(self.file(name))
        length = int.from_bytes(data[:LENGTH_BYTES], "little")
        header = json.loads(data[LENGTH_BYTES : LENGTH_BYTES + length])
        header["__metadata__"]["format"] = f"ventris safetensors {LATER}"
        header["tokenizer"]["dtype"] = "F4"  # not known
        seal_safetensors(self.file(name), header, data[LENGTH_BYTES + length :])
        commands = (
            ("translate", "--model", name), ("inspect", name), ("import", "--input", name, "--output", "w.h5"),
            ("average", "--checkpoints", name, "--output", "w.h5"), ("export", "--model", name, "--output", "w.h5")
        )  # fmt: skip
        self.refuses(name, 2, *commands)
        # A tensor beyond the end of the data, as another layout may have it.
        header["tokenizer"]["dtype"] = "U8"
        header["tokenizer"]["data_offsets"][1] += 1
        seal_safetensors(self.file(name), header, data[LENGTH_BYTES + length :])
        self.refuses(name, 2, *commands)

    def test_safetensors_without_a_tokenizer(self):
        name = "weights.safetensors"
        data = self.read(self.file(name))
        length = int.from_bytes(data[:LENGTH_BYTES], "little")
        header, rest = json.loads(data[LENGTH_BYTES : LENGTH_BYTES + length]), data[LENGTH_BYTES + length :]
        header["tokenizer"]["dtype"] = "I8"
        seal_safetensors(self.file(name), header, rest)
        self.refuse(65, "translate", "--model", self.file(name), says=[name, "tokenizer is of type I8"])
        tokenizer = header.pop("tokenizer")
        for other in ({}, {"source_tokenizer": {**tokenizer, "dtype": "U8"}}):
            seal_safetensors(self.file(name), {**header, **other}, rest if other else rest[: tokenizer["data_offsets"][0]])
            self.refuse(65, "translate", "--model", self.file(name), says=[name, "the tokenizer is missing"])

    def test_config(self):
        self.change_json("run/config.json", "config")
        commands = (self.train(), ("inspect", "run"), ("inspect", "run", "--json"), ("inspect", "run", "--verify"))
        for given in (("train", "--config"), ("plan", "--config")):
            commands += ((*given, "run/config.json"),)
        self.refuses("run/config.json", 1, *commands)

    def test_metrics(self):
        with open(self.file("run/metrics.jsonl"), "a", encoding="utf-8") as file:
            file.write(json.dumps({"format": f"ventris metrics {LATER}", "more": 1}) + "\n")
        self.refuses("run/metrics.jsonl", 1, self.train())

    def test_best(self):
        self.change_json("run/best.json", "best")
        self.refuses("run/best.json", 1, self.train(), ("translate", "--model", "run"), ("inspect", "run"), ("inspect", "run", "--verify"))

    def test_status(self):
        self.change_json("run/status.json", "status")
        self.refuses("run/status.json", 1, self.train(), ("inspect", "run"))
        result = support.run("--", support.BINARY, *self.train(), binary=support.SUPERVISE, cwd=self.copy)
        self.assertEqual(result.returncode, 65, result.stderr)
        self.assertIn(b"made by a newer ventris", result.stderr)
        self.assertIn(b"supervise: giving up", result.stderr)

    def test_a_checkpoint_behind_the_newest_is_not_replaced(self):
        older = "run/checkpoint-00000900.h5"
        shutil.copy(self.file(CHECKPOINT), self.file(older))
        self.change_hdf5(older, {"format": numpy.bytes_(f"ventris checkpoint {LATER}")})
        shutil.copy(self.file(CHECKPOINT), self.file("begin.h5"))
        self.refuses(os.path.basename(older), 1, self.train(), self.train(resume="begin.h5"))


class Formats(support.CommandLineTest):
    def test_every_file_tells_its_format(self):
        copy = self.path("copy")
        shutil.copytree(FILES, copy)
        words = self.read(os.path.join(copy, "run", "command.txt")).decode().split()[2:]
        settings = {**dict(zip(words[::2], words[1::2])), "--max-steps": 1502, "--valid-every": 1, "--digest-every": 1}
        self.succeed("train", *(word for pair in settings.items() for word in pair), cwd=copy)

        def told(name):
            return json.loads(self.read(os.path.join(copy, name)))["format"]

        for name in ("config", "best", "status"):
            self.assertEqual(told(f"run/{name}.json"), f"ventris {name} 1")
        lines = [json.loads(line) for line in self.read(os.path.join(copy, "run", "metrics.jsonl")).splitlines()]
        (resumed,) = [line for line in lines if line.get("type") == "event"]
        lines.remove(resumed)
        self.assertEqual((resumed["event"], resumed["step"], resumed["format"]), ("resumed", 1500, "ventris metrics 1"))
        self.assertEqual({line["format"] for line in lines}, {"ventris metrics 1"})
        self.assertEqual({line["type"] for line in lines if line["step"] > 1500}, {"digest", "interval", "validation"})
        for name, options, expected in (
            ("w.h5", (), "ventris weights 1"),
            ("w-int8.h5", ("--precision", "int8"), "ventris weights 2"),
        ):
            self.succeed("export", "--model", "run", *options, "--output", name, cwd=copy)
            with h5py.File(os.path.join(copy, name)) as file:
                self.assertEqual(file.attrs["format"].decode(), expected)
        with h5py.File(os.path.join(copy, "run", "checkpoint-00001502.h5")) as file:
            self.assertEqual(file.attrs["format"], b"ventris checkpoint 1")
        self.succeed("export", "--model", "run", "--format", "ctranslate2", "--output", "folder", cwd=copy)
        self.assertEqual(told("folder/probe.json"), "ventris probes 1")


if __name__ == "__main__":
    unittest.main(verbosity=2)
