# SPDX-License-Identifier: Apache-2.0
"""Exports in bf16 and in 8-bit integers: what other programs find in the files, what ours computes from them."""

import json
import os
import struct
import unittest

import h5py
import numpy
import support
from golden_model import GoldenModelTest

exports = support.golden_module("exports")

ROUNDED = ("bf16", "int8")
# Types of CTranslate2's model.bin.
NUMBERS = {0: numpy.float32, 1: numpy.int8, 2: numpy.int16, 5: numpy.uint16}


def is_multiplied(name):
    return name == "embedding" or name.endswith("/weight")


def bf16(values):
    """The upper halves of numbers in f32, to nearest, ties to even."""
    bits = values.view(numpy.uint32).astype(numpy.uint64)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(numpy.uint16)


def widened(halves):
    return (halves.astype(numpy.uint32) << 16).view(numpy.float32)


def assert_rounded(test, values, numbers, scales, name):
    """Integers times their scales are the values to half a step, and the largest of a scale is 127 steps."""
    test.assertEqual(numbers.dtype, numpy.int8)
    test.assertTrue((numpy.abs(numbers * scales - values) <= 0.501 * scales).all(), name)
    test.assertEqual(numpy.abs(numbers).max(), 127)


def read_ctranslate2(path):
    """The variables and aliases of a model.bin."""
    with open(path, "rb") as file:
        data = file.read()
    at = 0

    def number(form):
        nonlocal at
        at += struct.calcsize("<" + form)
        return struct.unpack_from("<" + form, data, at - struct.calcsize("<" + form))[0]

    def text():
        nonlocal at
        length = number("H")
        at += length
        assert data[at - 1] == 0
        return data[at - length : at - 1].decode()

    assert (number("I"), text(), number("I")) == (6, "TransformerSpec", 7)
    variables = {}
    for _ in range(number("I")):
        name = text()
        shape = [number("I") for _ in range(number("B"))]
        kind = NUMBERS[number("B")]
        size = number("I")
        variables[name] = numpy.frombuffer(data[at : at + size], kind).reshape(shape)
        at += size
    aliases = {text(): text() for _ in range(number("I"))}
    assert at == len(data)
    return variables, aliases


class FilePrecision(GoldenModelTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for precision in ROUNDED:
            for extension in ("h5", "safetensors"):
                cls.output_of(f"{precision}.{extension}", "export", "--model", cls.weights, "--precision", precision)
        cls.values = support.parameters(cls.weights)

    def translate(self, model, precision="f32", beam=1):
        lines = "".join(line + "\n" for line in exports.TINY_LINES).encode()
        options = ("--precision", precision, "--beam-size", beam, "--max-extra-length", 100)
        return self.succeed("translate", "--model", model, *options, stdin=lines).decode().splitlines()

    def test_h5py_reads_the_parameters(self):
        with h5py.File(self.path("bf16.h5")) as file:
            self.assertEqual(file.attrs["format"], b"ventris weights 2")
            self.assertEqual(file.attrs["precision"], b"bf16")
            self.assertNotIn("model_scales", file)
            for name, values in self.values.items():
                found = file["model/" + name]
                self.assertEqual(found.dtype, numpy.float32)
                self.assertEqual(found.id.get_type().get_size(), 2 if is_multiplied(name) else 4)
                expected = widened(bf16(values)) if is_multiplied(name) else values
                numpy.testing.assert_array_equal(found[()], expected, name)
        with h5py.File(self.path("int8.h5")) as file:
            self.assertEqual(file.attrs["format"], b"ventris weights 2")
            self.assertEqual(file.attrs["precision"], b"int8")
            for name, values in self.values.items():
                found = file["model/" + name][()]
                if not is_multiplied(name):
                    numpy.testing.assert_array_equal(found, values, name)
                    self.assertNotIn("model_scales/" + name, file)
                    continue
                assert_rounded(self, values, found, file["model_scales/" + name][()], name)

    def test_translations_are_nearly_those_of_f32(self):
        expected = self.translate(self.weights)
        self.assertEqual(expected, self.golden["translations"]["1"])
        for precision, most in (("bf16", 2), ("int8", 4)):
            found = self.translate(self.path(precision + ".h5"))
            self.assertEqual(found, self.translate(self.path(precision + ".safetensors")))
            self.assertLessEqual(sum(a != b for a, b in zip(expected, found, strict=True)), most, precision)

    def export(self, output_format, precision):
        folder = self.path(f"{output_format}-{precision}")
        self.succeed("export", "--model", self.weights, "--format", output_format, "--precision", precision,
                     "--output", folder)  # fmt: skip
        return folder

    def test_ctranslate2_finds_its_own_layout(self):
        whole, aliases = read_ctranslate2(os.path.join(self.export("ctranslate2", "f32"), "model.bin"))
        for precision in ROUNDED:
            path = os.path.join(self.export("ctranslate2", precision), "model.bin")
            variables, aliases_found = read_ctranslate2(path)
            self.assertEqual(aliases_found, aliases)
            for name, values in whole.items():
                found = variables.pop(name)
                if not name.endswith("/weight"):
                    numpy.testing.assert_array_equal(found, values, name)
                    self.assertEqual(found.dtype, values.dtype)
                elif precision == "bf16":
                    numpy.testing.assert_array_equal(found, bf16(values), name)
                else:
                    assert_rounded(self, values, found, 1 / variables.pop(name + "_scale")[:, None], name)
            self.assertEqual(variables, {})
        # The begin mark has a zero embedding.
        self.assertEqual(numpy.abs(whole["decoder/embeddings/weight"]).max(axis=1).min(), 0)

    def test_hugging_face_finds_bf16(self):
        folders = {precision: self.export("huggingface", precision) for precision in ("f32", "bf16")}
        with open(os.path.join(folders["bf16"], "config.json"), encoding="utf-8") as file:
            self.assertEqual(json.load(file)["torch_dtype"], "bfloat16")
        tensors = {}
        for precision, folder in folders.items():
            data = self.read(os.path.join(folder, "model.safetensors"))
            begin = 8 + int.from_bytes(data[:8], "little")
            for name, entry in json.loads(data[8:begin]).items():
                if name == "__metadata__":
                    continue
                first, last = (begin + offset for offset in entry["data_offsets"])
                kind = {"F32": numpy.float32, "BF16": numpy.uint16}[entry["dtype"]]
                tensors[precision, name] = numpy.frombuffer(data[first:last], kind).reshape(entry["shape"])
        names = [name for precision, name in tensors if precision == "f32"]
        for name in names:
            values, found = tensors["f32", name], tensors["bf16", name]
            rounded = values.ndim == 2 and name != "final_logits_bias"
            numpy.testing.assert_array_equal(found, bf16(values) if rounded else values, name)
        self.assertGreater(len(names), 20)

    def test_what_a_format_does_not_have_is_refused(self):
        for output_format, precision, says in (
            ("marian", "int8", "'marian' supports only f32"),
            ("marian", "bf16", "'marian' supports only f32"),
            ("huggingface", "int8", "'huggingface' supports only f32 and bf16"),
        ):
            self.refuse(64, "export", "--model", self.weights, "--format", output_format, "--precision", precision,
                        "--output", self.path("no"), says=[precision, says, "hdf5, safetensors"])  # fmt: skip
        self.refuse(64, "export", "--model", self.weights, "--precision", "int4", "--output", self.path("no"),
                    says=["--precision", "int4", "int8"])  # fmt: skip
        self.assertFalse(os.path.exists(self.path("no")))


if __name__ == "__main__":
    unittest.main()
