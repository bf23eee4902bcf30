# SPDX-License-Identifier: Apache-2.0
"""Exports: what other programs read. The golden file holds what they made of a tiny model; where they are
installed (VENTRIS_PEER_PYTHON, else the interpreter of the tests) they run too."""

import base64
import json
import math
import os
import re
import struct
import subprocess
import sys
import unittest

import h5py
import numpy

import support

PEER_PYTHON = os.environ.get("VENTRIS_PEER_PYTHON", sys.executable)

exports = support.golden_module("exports")


def missing_packages():
    names = ("ctranslate2", "transformers", "torch", "sentencepiece", "safetensors", "yaml", "h5py")
    code = f"import importlib.util as u; print(*[n for n in {names!r} if u.find_spec(n) is None])"
    return subprocess.run([PEER_PYTHON, "-c", code], capture_output=True, check=False).stdout.decode().strip()


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


class TinyModel(support.CommandLineTest):
    """The model of tests/golden/exports.json, made of formulas: as safetensors (`model`) and imported (`weights`)."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        with open(os.path.join(support.GOLDEN_DIR, "exports.json"), encoding="utf-8") as file:
            cls.golden = json.load(file)
        cls.tokenizer = base64.b64decode(cls.golden["tokenizer"])
        cls.model = os.path.join(cls.folder, "tiny.safetensors")
        exports.write_tiny_model(cls.model, cls.golden)
        cls.weights = cls.imported(cls.model, "tiny.h5")
        cls.values = support.parameters(cls.weights)
        for precision in ROUNDED:
            for extension in ("h5", "safetensors"):
                cls.output_of(f"{precision}.{extension}", "export", "--model", cls.weights, "--precision", precision)
        like_marian = os.path.join(cls.folder, "marian.safetensors")
        exports.write_tiny_model(like_marian, cls.golden, **exports.MARIAN_CONFIG)
        cls.like_marian = cls.imported(like_marian, "marian.h5")

    @classmethod
    def output_of(cls, name, *arguments):
        """The path of a file of the folder, which a command makes."""
        path = os.path.join(cls.folder, name)
        cls.made(*arguments, "--output", path)
        return path

    @classmethod
    def imported(cls, model, name):
        return cls.output_of(name, "import", "--input", model)

    def export(self, output_format, name, model=None):
        model = model or (self.like_marian if output_format == "marian" else self.weights)
        self.succeed("export", "--model", model, "--format", output_format, "--output", self.path(name))
        return self.path(name)

    def test_translations_are_those_of_the_other_programs(self):
        for beam in exports.BEAMS:
            ours = exports.translate(support.BINARY, self.weights, exports.TINY_LINES, beam)
            self.assertEqual(ours, self.golden["translations"][str(beam)], f"beam {beam}")
            self.assertGreater(len(set(ours)), 3)

    def test_probes_are_those_that_the_other_programs_gave(self):
        found = exports.read_probes(self.export("ctranslate2", "probes"))
        self.assertEqual(len(found), len(self.golden["probes"]))
        for probe, expected in zip(found, self.golden["probes"]):
            for key in ("source", "target"):
                self.assertEqual(probe[key], expected[key])
            for key in ("log_probabilities", "top_logits"):
                for a, b in zip(probe[key], expected[key], strict=True):
                    self.assertAlmostEqual(a, b, delta=1e-4)

    def test_files_are_those_that_the_other_programs_read(self):
        for output_format, digests in self.golden["files"].items():
            folder = self.export(output_format, "as-" + output_format)
            self.assertEqual(exports.files_of(folder), digests, output_format)

    def test_the_name_of_the_output_may_say_the_format(self):
        for name, options, form in (
            ("named.safetensors", [], "safetensors"),
            ("named.h5", [], "hdf5"),
            ("other.safetensors", ["--format", "hdf5"], "hdf5"),
        ):
            self.succeed("export", "--model", self.weights, "--output", self.path(name), *options)
            asked = self.path("asked." + form)
            self.succeed("export", "--model", self.weights, "--output", asked, "--format", form)
            self.assertEqual(self.read(self.path(name)), self.read(asked), name)

    def test_activations_have_the_names_of_the_other_programs(self):
        for activation, number in (("relu", 0), ("gelu", 3), ("swish", 2)):
            model = self.path(f"{activation}.safetensors")
            exports.write_tiny_model(model, self.golden, activation=activation)
            variables, _ = read_ctranslate2(os.path.join(self.export("ctranslate2", f"c-{activation}", model), "model.bin"))
            for stack in ("encoder", "decoder"):
                self.assertEqual(variables[stack + "/activation"].tolist(), number, activation)
            config = json.loads(self.read(os.path.join(self.export("huggingface", f"h-{activation}", model), "config.json")))
            self.assertEqual(config["activation_function"], activation)

    def test_inspect_computes_the_probes(self):
        safetensors = self.export("safetensors", "probed.safetensors")
        for path in (self.weights, safetensors):
            self.assertRegex(self.succeed("inspect", path, "--verify").decode(), "3 probes give the expected logits")
            listed = json.loads(self.succeed("inspect", path, "--json"))
            self.assertEqual(listed["config"]["d_model"], 16)
            shapes = exports.tensor_shapes(exports.TINY_CONFIG, 14).values()
            self.assertEqual(listed["parameters"], sum(exports.math.prod(shape) for shape in shapes))
        self.assertRegex(self.succeed("inspect", self.model, "--verify").decode(), "no digest.*no probes")
        # The digests left out and some values changed: only the probes can tell.
        path = self.with_a_row_of_ones(safetensors, "digest", "parameter_digest")
        self.refuse(65, "inspect", path, "--verify", says=[path, "probe", "was expected"])

    def test_inspect_counts_what_is_not_finite(self):
        header = json.dumps({
            "some": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]},
            "none": {"dtype": "F32", "shape": [2], "data_offsets": [16, 24]},
        }).encode()  # fmt: skip
        values = struct.pack("<6f", 1, math.nan, -3, math.inf, math.nan, -math.inf)
        path = self.write("odd.safetensors", len(header).to_bytes(8, "little") + header + values)
        lines = self.succeed("inspect", path).decode().splitlines()
        self.assertRegex(lines[2], r"^some +f32 +\[4\] +-3 +1 +-1  2 NaN or Inf$")
        self.assertRegex(lines[3], r"^none +f32 +\[2\] +2 NaN or Inf$")
        some, none = json.loads(self.succeed("inspect", path, "--json"))["datasets"]
        self.assertEqual((some["min"], some["max"], some["mean"], some["not_finite"]), (-3, 1, -1, 2))
        self.assertEqual((none.get("min"), none["not_finite"]), (None, 2))
        self.refuse(65, "inspect", path, "--verify", says=["some holds 2 values that are NaN or Inf"])

    def with_a_row_of_ones(self, path, *without):
        """A safetensors file without these metadata, the sixth row of the embedding changed."""
        whole = self.read(path)
        changed = whole
        for key in without:
            changed = re.sub(b'"%s":"[0-9a-f]{32}",' % key.encode(), b"", changed)
        length = int.from_bytes(whole[:8], "little") - (len(whole) - len(changed))
        begin = 8 + length + 4 * 16 * 5
        changed = length.to_bytes(8, "little") + changed[8:begin] + b"\0\0\x80\x3f" * 16 + changed[begin + 64 :]
        return self.write("changed.safetensors", changed)

    def test_a_configuration_larger_than_the_file_is_refused_before_memory_is_taken(self):
        text = self.read(self.model).replace(b'\\"d_ff\\": 32', b'\\"d_ff\\": 99')
        self.assertNotEqual(text, self.read(self.model))
        path = self.write("wide.safetensors", text)
        self.refuse(65, "import", "--input", path, "--output", self.path("no.h5"), says=["wide", "missing"])

    def test_the_example_of_the_documentation_runs(self):
        document = self.read(os.path.join(support.SOURCE_DIR, "docs", "formats.md")).decode()
        example = re.search("```python\n(.*?)```", document, re.DOTALL).group(1)
        self.succeed("export", "--model", self.weights, "--output", self.path("weights.h5"))
        result = subprocess.run(
            [sys.executable, "-c", example], capture_output=True, cwd=self.folder, check=False
        )
        self.assertEqual(result.returncode, 0, result.stderr.decode())
        self.assertEqual(result.stdout.decode(), "16 (16, 16) (14, 16)\n")
        self.assertEqual(self.read(self.path("tokenizer.model")), self.tokenizer)

    @unittest.skipIf(missing_packages(), f"Python packages are missing: {missing_packages()}")
    def test_the_other_programs_translate_alike(self):
        source = self.write("lines.txt", "".join(line + "\n" for line in exports.TINY_LINES))
        script = os.path.join(support.GOLDEN_DIR, "exports.py")
        for number, change in enumerate(
            ({}, {"zero_word": -1}, {"pre_norm": True}, {"learned_positions": True, "zero_word": -1},
             {"activation": "gelu"}, {"activation": "swish"}, {"tie": "decoder"}, {"tie": "none", "source_vocab_size": 19},
             {"tie": "decoder", "source_vocab_size": 19})  # fmt: skip
        ):
            model = self.path(f"variant{number}.safetensors")
            exports.write_tiny_model(model, self.golden, **change)
            command = [PEER_PYTHON, script, "check", "--binary", support.BINARY, "--model", model]
            # A model that nobody trained does not end its sentences: its probes are compared alone.
            command += [] if change else ["--source", source]
            result = subprocess.run(command, capture_output=True, check=False)
            self.assertEqual(result.returncode, 0, f"{change}: {result.stdout.decode()}{result.stderr.decode()}")

    # In bf16 and in 8-bit integers.

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

    def export_in(self, output_format, precision):
        folder = self.path(f"{output_format}-{precision}")
        self.succeed("export", "--model", self.weights, "--format", output_format, "--precision", precision,
                     "--output", folder)  # fmt: skip
        return folder

    def test_ctranslate2_finds_its_own_layout(self):
        whole, aliases = read_ctranslate2(os.path.join(self.export_in("ctranslate2", "f32"), "model.bin"))
        for precision in ROUNDED:
            path = os.path.join(self.export_in("ctranslate2", precision), "model.bin")
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
        folders = {precision: self.export_in("huggingface", precision) for precision in ("f32", "bf16")}
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
