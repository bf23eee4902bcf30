# SPDX-License-Identifier: Apache-2.0
"""The model of tests/golden/exports.json, for tests of exports."""

import base64
import json
import os

import support

exports = support.golden_module("exports")


class GoldenModelTest(support.CommandLineTest):
    """The model, made of formulas: as safetensors (`model`) and imported (`weights`)."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        with open(os.path.join(support.GOLDEN_DIR, "exports.json"), encoding="utf-8") as file:
            cls.golden = json.load(file)
        cls.tokenizer = base64.b64decode(cls.golden["tokenizer"])
        cls.model = os.path.join(cls.folder, "tiny.safetensors")
        exports.write_tiny_model(cls.model, cls.golden)
        cls.weights = cls.imported(cls.model, "tiny.h5")

    @classmethod
    def output_of(cls, name, *arguments):
        """The path of a file of the folder, which a command makes."""
        path = os.path.join(cls.folder, name)
        cls.made(*arguments, "--output", path)
        return path

    @classmethod
    def imported(cls, model, name):
        return cls.output_of(name, "import", "--input", model)
