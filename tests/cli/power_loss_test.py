# SPDX-License-Identifier: Apache-2.0
"""Power cuts: the states that they may leave of the files of a run, of `prepare` and of exports (power_loss.py). Of
each file that is the old one or the new one, whole, and the new one once the program takes it for written. The program
goes on from a sample of them, and does not accept what it would leave without its fsyncs. VENTRIS_ALL_FAULTS=1 tries
more states, and starts the program on all."""

import json
import os
import random
import re
import shutil
import subprocess
import sys
import unittest

import h5py

import power_loss
import support

FAULTS = os.environ.get("VENTRIS_FAULTS", "")
NAMED = {"VENTRIS_FAULT_NAMED_ONLY": 1}  # no files without names, no exchange
MODEL = dict(zip(support.TINY_MODEL[::2], support.TINY_MODEL[1::2]))
MODEL = {**MODEL, "--decoder-layers": 1, "--d-model": 16, "--d-ff": 16, "--valid-every": 4, "--log-every": 1}
MODEL = [word for pair in MODEL.items() for word in pair]
RUN = ["--valid-beam-size", 1, "--valid-max-sentences", 2, "--save-every", 2, "--keep-checkpoints", 1]
OLD_STEPS = 4  # of the run that goes on
STEPS = 8
STARTS = 8  # of the program for each record; 0: on all states
WEIGHTS = "model.safetensors"  # of the format huggingface


def step_of(path):
    match = re.search(r"checkpoint-(\d+)\.h5$", path)
    return int(match[1]) if match else -1


class RunOracle(power_loss.Oracle):
    """Of a run folder: what its files say of one another holds too."""

    def __init__(self, record, folder):
        self.folder = folder
        super().__init__(record)
        self.lines = record.content(record.files()[f"{folder}/metrics.jsonl"]).splitlines()

    def is_grown(self, path, found):
        return path == f"{self.folder}/metrics.jsonl"

    def is_metrics(self, node):
        return any(self.is_grown(path, b"") for path in self.record.paths_of(node))

    def saves(self):
        """(call, step) of the checkpoints that get their names."""
        return [(call, step_of(path)) for call, path, node in self.record.versions if node and step_of(path) >= 0]

    def is_needless(self, call, covered, is_last):
        """A save may find lines of later steps only. Where metrics.jsonl is replaced by its own lines, the folder is
        synced again before lines are added."""
        if self.is_metrics(call.node):
            calls = self.record.calls
            later = [step for save, step in self.saves() if calls.index(save) > calls.index(call)]
            lines = [line for write in covered if write.kind == "write" for line in write.change[1].splitlines()]
            return not any(json.loads(line)["step"] <= step for line in lines for step in later[:1])
        names = [path for _, path in self.named_by(covered) if not self.is_ignored(path)]
        replaced = all(self.is_grown(path, b"") and path in self.record.begin_files for path in names)
        return super().is_needless(call, covered, is_last) or (bool(names) and replaced)

    def flaw(self, state, is_told):
        newest = max(map(step_of, state), default=-1)
        lines = set(state.get(f"{self.folder}/metrics.jsonl", b"").splitlines())
        for line in self.lines:
            values = json.loads(line)
            # A start that goes on from this checkpoint reports itself later.
            if values["step"] <= newest - (values.get("event") == "resumed") and line not in lines:
                return f"there is the checkpoint of step {newest} and not the line {line}"
        best = state.get(f"{self.folder}/best.json")
        if best and f"{self.folder}/{json.loads(best)['checkpoint']}" not in state:
            return f"best.json names what is not there: {best}"
        status = state.get(f"{self.folder}/status.json")
        if status and step_of(json.loads(status)["last_checkpoint"]) > newest:
            return f"status.json names what is not there: {status}"
        return ""


class FolderOracle(power_loss.Oracle):
    """Of a folder that is exported anew: all of its files are old or all are new, or it is without the weights where it
    is written in place, and holds `others` besides."""

    def __init__(self, record, folder, others=()):
        self.folder = folder
        self.others = {f"{folder}/{name}" for name in others}
        super().__init__(record)
        self.old = self.exported({path: node.begin for path, node in record.begin_files.items()})
        self.new = self.exported({path: record.content(node) for path, node in record.files().items()})
        weights = [call for call, path, node in record.versions if node and path == f"{folder}/{WEIGHTS}"]
        self.last = weights[-1]

    def is_grown(self, path, found):
        return path.startswith(f"{self.folder}/") and path not in self.others

    def is_needless(self, call, covered, is_last):
        """The names in the folder that is written first count where it gets its place as it is."""
        return super().is_needless(call, covered, is_last and not (self.others and ".tmp." in call.text))

    def exported(self, files):
        return {
            path: content
            for path, content in files.items()
            if self.is_grown(path, content) and not path.endswith("/") and not self.is_ignored(path)
        }

    def flaw(self, state, is_told):
        found = self.exported(state)
        if found == self.new or (found == self.old and not is_told(self.last)):
            return ""
        if self.others and f"{self.folder}/{WEIGHTS}" not in found and not is_told(self.last):
            return ""
        return f"the folder holds a mixture: {sorted(found)}"


@unittest.skipUnless(FAULTS, "built with a sanitizer, which wants to be the first library")
class PowerLoss(support.CommandLineTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folder = os.path.realpath(cls.folder)
        cls.corpus = cls.prepare_demo(train_pairs=100)
        exports = support.golden_module("exports")
        with open(os.path.join(support.GOLDEN_DIR, "exports.json"), encoding="utf-8") as file:
            tiny = json.load(file)
        cls.models = {which: os.path.join(cls.folder, f"{which}.safetensors") for which in ("old", "new")}
        exports.write_tiny_model(cls.models["old"], tiny, d_ff=16)
        exports.write_tiny_model(cls.models["new"], tiny)
        cls.place = os.path.join(cls.folder, "place")

    def setUp(self):
        shutil.rmtree(self.place, ignore_errors=True)
        os.mkdir(self.place)

    def call(self, words, code=0, **variables):
        result = subprocess.run(
            support.command(*words), stdin=subprocess.DEVNULL, capture_output=True, cwd=self.place, timeout=600,
            env=support.environment(**variables), check=False)  # fmt: skip
        self.assertEqual(result.returncode, code, result.stderr.decode(errors="replace"))
        return result

    def record(self, words, **variables):
        """The record of a command that begins with what is in the folder `place`."""
        self.before = self.path("before")
        shutil.rmtree(self.before, ignore_errors=True)
        shutil.copytree(self.place, self.before)
        folder = self.path("record")
        shutil.rmtree(folder, ignore_errors=True)
        os.mkdir(folder)
        record = power_loss.Record(self.place, os.path.join(folder, "calls"), os.path.join(folder, "data"))
        self.call(words, LD_PRELOAD=FAULTS, VENTRIS_FAULT_PREFIX=self.place, VENTRIS_FAULT_RECORD=folder, **variables)
        record.read()
        # What the calls come to is what is there: none was missed.
        found = {path: record.content(node) for path, node in record.files().items()}
        self.assertEqual(found, self.contents())
        return record

    def contents(self):
        """The files of the folder `place`."""
        found = {}
        for path, _, names in os.walk(self.place):
            for name in names:
                file = os.path.join(path, name)
                found[os.path.relpath(file, self.place)] = self.read(file)
        return found

    def put(self, state):
        """Makes a state."""
        self.setUp()
        for path in sorted(state):
            target = os.path.join(self.place, path)
            if path.endswith("/"):
                os.makedirs(target)
            else:
                with open(target, "wb") as file:
                    file.write(state[path])

    def check(self, oracle, start):
        """No state of the record is bad, and each record that lacks a sync allows one that is. Calls start(state) with a sample of the states made."""
        states = []
        count, reason = oracle.sweep(seen=states.append)
        self.assertEqual(reason, "")
        planted = 0
        for what, calls in oracle.planted_faults():
            planted += 1
            with self.subTest(planted=what):
                self.assertNotEqual(oracle.of(calls).sweep()[1], "")
        self.assertGreaterEqual(planted, 2)
        sample = states if power_loss.ALL else random.Random(power_loss.SEED).sample(states, min(STARTS, len(states)))
        for state in sample:
            self.put(state)
            with self.subTest(state={path: len(content) for path, content in state.items()}):
                start(state)
                self.assertEqual([path for path in self.contents() if ".tmp." in path], [])
        syncs = sum(call.kind == "sync" for call in oracle.record.calls)
        print(
            f"{self._testMethodName}: {len(oracle.record.calls)} calls, {syncs} syncs; {count} states, "
            f"{len(sample)} starts, {planted} planted faults", file=sys.stderr, flush=True)  # fmt: skip

    def train(self, folder, steps=STEPS):
        return ["train", "--corpus", self.corpus, "--model-dir", folder, "--max-steps", steps, *MODEL, *RUN]

    def outcome(self, folder):
        """What a run came to but for times and its starts."""
        lines = self.read(os.path.join(self.place, folder, "metrics.jsonl")).splitlines()
        metrics = [line for line in map(json.loads, lines) if line.get("event") != "resumed"]
        for line in metrics:
            for key in [key for key in line if key.endswith(("_second", "_seconds")) or key == "time"]:
                del line[key]
        with h5py.File(os.path.join(self.place, folder, f"checkpoint-{STEPS:08}.h5"), "r") as file:
            digest = file.attrs["parameter_digest"]
        return metrics, digest, self.read(os.path.join(self.place, folder, "best.json"))

    def check_run(self, folder, **variables):
        oracle = RunOracle(self.record(self.train(folder), **variables), folder)
        expected = self.outcome(folder)

        def goes_on(state):
            newest = max(map(step_of, state), default=-1)
            message = self.call(self.train(folder), **variables).stderr.decode()
            if newest >= 0:
                checkpoint = f"{folder}/checkpoint-{newest:08}.h5"
                self.assertRegex(message, f"resuming from {checkpoint}|nothing to do: {checkpoint} has all {STEPS} steps")
            self.assertEqual(self.outcome(folder), expected, message)

        self.check(oracle, goes_on)

    def old_run(self):
        self.call(self.train("run", OLD_STEPS))

    def test_a_new_run_in_new_folders(self):
        self.check_run("a/b/run")

    def test_a_run_that_goes_on(self):
        self.old_run()
        self.check_run("run")

    def test_a_run_that_goes_on_where_files_have_names_from_the_start(self):
        self.old_run()
        self.check_run("run", **NAMED)

    def test_a_corpus_that_is_prepared_anew(self):
        demo = self.path("demo")
        words = ["prepare", "--train-sets", f"{demo}/train.en", f"{demo}/train.de", "--valid-sets", f"{demo}/valid.en"]
        words += [f"{demo}/valid.de", "--threads", 1, "--output", "corpus.h5"]
        self.call([*words, "--vocab-size", support.VOCABULARY - 20])
        words += ["--vocab-size", support.VOCABULARY]
        oracle = power_loss.Oracle(self.record(words))
        new = self.contents()

        def goes_on(state):
            self.call(["inspect", "corpus.h5", "--verify"])
            self.call(words)
            self.assertEqual(self.contents(), new)

        self.check(oracle, goes_on)

    def check_export(self, output_format, name, others=(), old="old", **variables):
        is_folder = output_format == "huggingface"
        make = dict.fromkeys(others, b"mine")
        words = {which: ["export", "--model", model, "--format", output_format, "--output", name]
                 for which, model in self.models.items()}  # fmt: skip
        if old:
            self.call(words[old])
        if is_folder and old:
            make = {**make, f"{name}/vocab.json": b"old"}  # that of the two models is the same
        for path, content in make.items():
            os.makedirs(os.path.dirname(os.path.join(self.place, path)), exist_ok=True)
            with open(os.path.join(self.place, path), "wb") as file:
                file.write(content)
        record = self.record(words["new"], **variables)
        new = self.contents()
        others = [path.removeprefix(f"{name}/") for path in others]
        oracle = FolderOracle(record, name, others) if is_folder else power_loss.Oracle(record)

        def goes_on(state):
            if not is_folder and name in state:
                self.call(["inspect", name, "--verify"])
            self.call(words["new"], **variables)
            self.assertEqual(self.contents(), new)

        self.check(oracle, goes_on)

    def test_an_export_over_an_older_one(self):
        self.check_export("hdf5", "weights.h5")

    def test_a_folder_that_is_exported_anew(self):
        self.check_export("huggingface", "out")

    def test_a_folder_that_is_exported_for_the_first_time(self):
        self.check_export("huggingface", "a/b/out", old="")

    def test_a_folder_that_is_exported_in_place(self):
        self.check_export("huggingface", "out", ["out/README.md", "out/sub/file"])


if __name__ == "__main__":
    unittest.main()
