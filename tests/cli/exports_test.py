# SPDX-License-Identifier: Apache-2.0
"""Exports: what other programs read. The golden file holds what they made of a tiny model; where they are
installed (VENTRIS_PEER_PYTHON, else the interpreter of the tests) they run too."""

import json
import math
import os
import re
import struct
import subprocess
import sys
import unittest

import support
from golden_model import GoldenModelTest

PEER_PYTHON = os.environ.get("VENTRIS_PEER_PYTHON", sys.executable)

exports = support.golden_module("exports")


def missing_packages():
    names = ("ctranslate2", "transformers", "torch", "sentencepiece", "safetensors", "yaml", "h5py")
    code = f"import importlib.util as u; print(*[n for n in {names!r} if u.find_spec(n) is None])"
    return subprocess.run([PEER_PYTHON, "-c", code], capture_output=True, check=False).stdout.decode().strip()


class TinyModel(GoldenModelTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        like_marian = os.path.join(cls.folder, "marian.safetensors")
        exports.write_tiny_model(like_marian, cls.golden, **exports.MARIAN_CONFIG)
        cls.like_marian = cls.imported(like_marian, "marian.h5")

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
             {"tie": "decoder"}, {"tie": "none", "source_vocab_size": 19},
             {"tie": "decoder", "source_vocab_size": 19})  # fmt: skip
        ):
            model = self.path(f"variant{number}.safetensors")
            exports.write_tiny_model(model, self.golden, **change)
            command = [PEER_PYTHON, script, "check", "--binary", support.BINARY, "--model", model]
            # A model that nobody trained does not end its sentences: its probes are compared alone.
            command += [] if change else ["--source", source]
            result = subprocess.run(command, capture_output=True, check=False)
            self.assertEqual(result.returncode, 0, f"{change}: {result.stdout.decode()}{result.stderr.decode()}")


if __name__ == "__main__":
    unittest.main()
