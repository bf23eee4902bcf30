# SPDX-License-Identifier: Apache-2.0
"""Files of releases, kept in tests/golden/files: what is read from them, and what becomes of them, stays the same."""

import json
import os
import shutil
import unittest

import h5py

import support

PRECISIONS = {"": "f32", "-bf16": "bf16", "-int8": "int8"}  # of the weights, by what their names end in
EXTENSIONS = ("h5", "safetensors")
CHECKPOINT = "run/checkpoint-00001500.h5"

# Of the lines of metrics.jsonl: how long something took, and when.
TIMES = {"time", "elapsed_seconds", "target_tokens_per_second", "source_tokens_per_second", "phase_seconds"}


class GoldenFiles(support.CommandLineTest):
    RELEASE = "1.0"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.files = os.path.join(support.GOLDEN_DIR, "files", cls.RELEASE)
        with open(os.path.join(cls.files, "expected", "digests.json"), encoding="utf-8") as file:
            cls.digests = json.load(file)

    def setUp(self):
        """A copy of its own for each test, in which the commands are started: names in files are relative."""
        self.copy = self.path(self.id().rsplit(".", 1)[-1])
        shutil.copytree(self.files, self.copy)

    def does(self, *arguments):
        return self.succeed(*arguments, cwd=self.copy)

    def expected(self, name):
        return self.read(os.path.join(self.copy, "expected", name))

    def digest(self, name):
        return json.loads(self.does("inspect", name, "--json"))["parameter_digest"]

    def metrics(self, text):
        """Lines but for those of starts, which depend on nothing that is golden."""
        return [line for line in map(json.loads, text.splitlines()) if line.get("event") != "resumed"]

    def train(self, **options):
        """The recorded command, with other values of some options."""
        words = self.read(os.path.join(self.copy, "run", "command.txt")).decode().split()[2:]
        settings = dict(zip(words[::2], words[1::2]))
        settings.update({"--" + key.replace("_", "-"): value for key, value in options.items()})
        return ("train", *(word for pair in settings.items() for word in pair))

    def test_translations(self):
        with open(os.path.join(self.copy, "test.en"), "rb") as file:
            source = file.read()

        def translate(model, *options):
            words = ("translate", "--model", model, "--n-best", 2, *options)
            return self.succeed(*words, cwd=self.copy, stdin=source)

        for model in ("run", CHECKPOINT):
            self.assertEqual(translate(model), self.expected("weights.txt"), model)
        for ending in PRECISIONS:
            for extension in EXTENSIONS:
                model = f"weights{ending}.{extension}"
                self.assertEqual(translate(model), self.expected(f"weights{ending}.txt"), model)
        for model in ("weights-int8.h5", "weights-int8.safetensors", "weights.h5"):
            self.assertEqual(translate(model, "--precision", "int8"), self.expected("weights-int8-computed.txt"), model)

    def test_scores(self):
        for model in ("run", "weights.h5", "weights.safetensors"):
            words = ("score", "--model", model, "--source", "test.en", "--target", "test.de", "--per-word")
            self.assertEqual(self.does(*words), self.expected("score.txt"), model)
            words = ("evaluate", "--model", model, "--source", "test.en", "--reference", "test.de", "--json")
            result = json.loads(self.does(*words))
            expected = json.loads(self.expected("evaluate.json"))
            for key in ("score", "precisions", "brevity_penalty", "hypothesis_length", "reference_length"):
                self.assertEqual(result[key], expected[key], (model, key))

    def test_a_run_goes_on(self):
        words = self.train(max_steps=1560, log_every=20, digest_every=20, valid_every=30)
        result = support.run(*words, cwd=self.copy)
        messages = result.stderr.decode()
        self.assertEqual(result.returncode, 0, messages)
        self.assertIn(f"resuming from {CHECKPOINT} at step 1500", messages)
        self.assertIn("--max-steps from 1500 to 1560", messages)  # config.json was read
        lines = self.metrics(self.read(os.path.join(self.copy, "run", "metrics.jsonl")))
        expected = self.metrics(self.expected("metrics.jsonl"))
        self.assertEqual(len(lines), len(expected))
        for line, before in zip(lines, expected):
            self.assertEqual({key: line[key] for key in before if key not in TIMES},
                             {key: value for key, value in before.items() if key not in TIMES})  # fmt: skip
        self.does("export", "--model", "run/checkpoint-00001560.h5", "--output", "resumed.h5")
        self.assertEqual(self.digest("resumed.h5"), self.digests["export of the resumed run"])

    def test_exports(self):
        for ending, precision in PRECISIONS.items():
            for extension in EXTENSIONS:
                for model in (CHECKPOINT, "weights.h5", "weights.safetensors"):
                    self.does("export", "--model", model, "--precision", precision, "--output", f"new.{extension}")
                    self.assertEqual(self.digest(f"new.{extension}"), self.digests[f"weights{ending}.{extension}"])
        with h5py.File(os.path.join(self.copy, "weights.h5")) as file:
            probes = json.loads(file["probe"][()].tobytes())["probes"]
        for folder in ("ctranslate2", "huggingface"):
            self.does("export", "--model", "run", "--format", folder, "--output", folder)
            self.assertEqual(json.loads(self.read(os.path.join(self.copy, folder, "probe.json")))["probes"], probes)

    def test_imports_and_averages(self):
        for extension in EXTENSIONS:
            self.does("import", "--input", f"weights.{extension}", "--output", "imported.h5")
            self.assertEqual(self.digest("imported.h5"), self.digests["weights.h5"])
        self.does("average", "--checkpoints", CHECKPOINT, "weights.h5", "--output", "average.h5")
        self.assertEqual(self.digest("average.h5"), self.digests["average"])

    def test_inspect(self):
        for name, digest in self.digests.items():
            if not os.path.exists(os.path.join(self.copy, name)):
                continue
            told = json.loads(self.does("inspect", name, "--json"))
            self.assertEqual(told.get("parameter_digest", told["digest"]), digest, name)
            self.assertIn(b": verified; ", self.does("inspect", name, "--verify"))
        told = json.loads(self.does("inspect", "run", "--json"))
        self.assertEqual((told["best"], told["newest"]), (os.path.basename(CHECKPOINT),) * 2)
        self.assertEqual((told["status"]["state"], told["status"]["step"]), ("done", 1500))
        self.assertEqual(told["config"]["model"]["d_ff"], 16)

    def test_other_runs_begin_with_them(self):
        self.does("train", "--config", "run/config.json", "--model-dir", "again", "--max-steps", 2)
        self.does("plan", "--config", "run/config.json")
        for model in ("run", "weights-int8.h5", "weights.safetensors"):
            folder = "from-" + model
            self.does(*self.train(model_dir=folder, init=model, max_steps=1, valid_every=0))
            self.assertTrue(os.path.exists(os.path.join(self.copy, folder, "checkpoint-00000001.h5")))


if __name__ == "__main__":
    unittest.main(verbosity=2)
