# SPDX-License-Identifier: Apache-2.0
"""Folders that `export` writes, killed at a file call: all old or all new, what else they hold stays, and nothing is left after
the next export. VENTRIS_ALL_FAULTS=1 kills at each call in each mode, not at those of a sample."""

import json
import os
import shutil
import signal
import stat
import subprocess
import unittest

import support

FAULTS = os.environ.get("VENTRIS_FAULTS", "")
ALL = os.environ.get("VENTRIS_ALL_FAULTS", "")
NAMED = {"VENTRIS_FAULT_NAMED_ONLY": 1}  # no files without names, no exchange
NEEDED = {"ctranslate2": "model.bin", "huggingface": "model.safetensors", "marian": "model.npz"}

exports = support.golden_module("exports")


@unittest.skipUnless(FAULTS, "built with a sanitizer, which wants to be the first library")
class ExportFolders(support.CommandLineTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        with open(os.path.join(support.GOLDEN_DIR, "exports.json"), encoding="utf-8") as file:
            golden = json.load(file)
        cls.models = {}  # by the format's family and which of two
        for family, changes in (("", {}), ("marian", exports.MARIAN_CONFIG)):
            for which, more in (("old", {"d_ff": 16}), ("new", {})):
                path = os.path.join(cls.folder, f"{family}{which}.safetensors")
                exports.write_tiny_model(path, golden, **changes, **more)
                cls.models[family, which] = path
        cls.place = os.path.join(cls.folder, "place")
        cls.out = os.path.join(cls.place, "out")

    def setUp(self):
        shutil.rmtree(self.place, ignore_errors=True)
        os.mkdir(self.place)

    def export(self, output_format, which="new", before=None, output=None, cwd=None, **variables):
        """Runs the export with the library of faults; `before` is called in the process that becomes the program."""
        model = self.models["marian" if output_format == "marian" else "", which]
        command = support.command(
            "export", "--model", model, "--format", output_format, "--output", output or self.out)  # fmt: skip
        return subprocess.run(
            command, capture_output=True, preexec_fn=before, timeout=600, check=False, cwd=cwd,
            env=support.environment(LD_PRELOAD=FAULTS, VENTRIS_FAULT_PREFIX=self.place, **variables))  # fmt: skip

    def calls(self, output_format, **variables):
        """The calls of an export, in order."""
        log = self.path("calls")
        if os.path.exists(log):
            os.remove(log)
        result = self.export(output_format, VENTRIS_FAULT_LOG=log, **variables)
        self.assertEqual(result.returncode, 0, result.stderr)
        return self.read(log).decode().splitlines()

    def contents(self, folder=None):
        """The files of the folder, by their paths in it."""
        found = {}
        folder = folder or self.out
        for path, _, names in os.walk(folder):
            for name in names:
                file = os.path.join(path, name)
                found[os.path.relpath(file, folder)] = self.read(file)
        return found

    def put(self, contents):
        self.setUp()
        os.mkdir(self.out)
        for name, content in contents.items():
            os.makedirs(os.path.dirname(os.path.join(self.out, name)), exist_ok=True)
            with open(os.path.join(self.out, name), "wb") as file:
                file.write(content)

    def test_nobody_looks_into_a_folder_while_it_is_written(self):
        self.assertEqual(self.export("ctranslate2", "old").returncode, 0)
        os.chmod(self.out, 0o755)
        for name in os.listdir(self.out):
            os.chmod(os.path.join(self.out, name), 0o600)
        number = 1 + [call.split(" ", 1)[0] for call in self.calls("ctranslate2")].index("fsync")
        result = self.export("ctranslate2", VENTRIS_FAULT_AT=number, VENTRIS_FAULT="kill")
        self.assertEqual(result.returncode, -signal.SIGKILL, result.stderr)
        (left,) = set(os.listdir(self.place)) - {"out"}
        self.assertEqual(oct(os.stat(os.path.join(self.place, left)).st_mode & 0o7777), oct(0o700))
        self.assertEqual(self.export("ctranslate2").returncode, 0)
        self.assertEqual(oct(os.stat(self.out).st_mode & 0o7777), oct(0o755))
        for name in os.listdir(self.out):  # as before it was exchanged
            self.assertEqual(oct(os.stat(os.path.join(self.out, name)).st_mode & 0o7777), oct(0o600))

    def sample(self, calls):
        """Numbers of calls, from 1: of those that write the files every few, of the later ones all but repetitions."""
        kinds = [call.split(" ", 1)[0] for call in calls]
        last_file = max(i for i, kind in enumerate(kinds) if kind in ("link", "write"))
        same = lambda i: 0 < i < len(kinds) - 1 and kinds[i - 1] == kinds[i] == kinds[i + 1]
        return [
            i + 1 for i in range(len(calls)) if ALL or (not same(i) if i > last_file else i < 2 or i % 15 == 14)
        ]

    def check_kills(self, output_format, others, mode):
        """Kills an export over an older one at its calls. Returns how often each state was found."""
        self.setUp()
        whole = {}
        for which in ("old", "new"):
            self.assertEqual(self.export(output_format, which).returncode, 0)
            whole[which] = {**self.contents(), **others}
        self.assertNotEqual(whole["old"][NEEDED[output_format]], whole["new"][NEEDED[output_format]])
        self.put(whole["old"])
        calls = self.calls(output_format, **mode)
        self.assertEqual(self.contents(), whole["new"])
        found = {"old": 0, "new": 0, "refused": 0}
        for number in self.sample(calls):
            with self.subTest(format=output_format, call=calls[number - 1], number=number, mode=mode, others=bool(others)):
                self.put(whole["old"])
                result = self.export(output_format, VENTRIS_FAULT_AT=number, VENTRIS_FAULT="kill", **mode)
                self.assertEqual(result.returncode, -signal.SIGKILL, result.stderr)
                left = {name: content for name, content in self.contents().items() if ".tmp." not in name}
                state = "new" if left == whole["new"] else "old" if left == whole["old"] else "refused"
                found[state] += 1
                if state == "refused":
                    self.assertNotIn(NEEDED[output_format], left)
                for name, content in others.items():
                    self.assertEqual(left[name], content)
                self.assertEqual(self.export(output_format, **mode).returncode, 0)
                self.assertEqual(self.contents(), whole["new"])
                self.assertEqual(os.listdir(self.place), ["out"])
        return found

    def test_a_killed_export_leaves_all_of_the_old_or_all_of_the_new(self):
        for output_format in NEEDED if ALL else ("marian",):
            found = self.check_kills(output_format, {}, {})
            self.assertEqual(found["refused"], 0, output_format)
            self.assertGreater(min(found["old"], found["new"]), 0, output_format)

    def test_where_the_folders_cannot_be_exchanged_nobody_reads_a_mixture(self):
        others = {"README.md": b"mine", "onnx/model.onnx": b"mine, too", ".git/HEAD": b"ref"}
        cases = [(name, kept, mode) for name in NEEDED for kept, mode in ((others, {}), ({}, NAMED))]
        for output_format, kept, mode in cases if ALL else (cases[2], cases[1]):
            found = self.check_kills(output_format, kept, mode)
            self.assertGreater(found["old"], 0)
            self.assertGreater(found["refused"], 0)

    def test_a_call_that_fails_leaves_all_of_the_old(self):
        self.assertEqual(self.export("ctranslate2", "old").returncode, 0)
        old = self.contents()
        calls = self.calls("ctranslate2", which="old")
        exchange = max(i for i, call in enumerate(calls) if call.startswith("rename ")) + 1
        for number in (n for n in self.sample(calls) if n <= exchange):
            result = self.export("ctranslate2", VENTRIS_FAULT_AT=number, VENTRIS_FAULT="EIO")
            if result.returncode != 0:
                self.assertIn(result.returncode, (73, 74), calls[number - 1])
                self.assertIn(self.out.encode(), result.stderr)
                self.assertEqual(self.contents(), old)
                self.assertEqual(os.listdir(self.place), ["out"])
            else:  # the mark that it is being written
                self.assertEqual(self.export("ctranslate2", "old").returncode, 0)

    def test_modes_and_places(self):
        for mask in (0o022, 0o077):
            self.setUp()
            self.assertEqual(self.export("ctranslate2", before=lambda mask=mask: os.umask(mask)).returncode, 0)
            self.assertEqual(stat.S_IMODE(os.stat(self.out).st_mode), 0o777 & ~mask)
            for name in os.listdir(self.out):
                self.assertEqual(stat.S_IMODE(os.stat(os.path.join(self.out, name)).st_mode), 0o666 & ~mask)
        whole = self.contents()
        os.chmod(self.out, 0o2750)  # that of a folder which is there stays
        self.assertEqual(self.export("ctranslate2", output=self.out + "/").returncode, 0)
        self.assertEqual(stat.S_IMODE(os.stat(self.out).st_mode), 0o2750)
        before = os.stat(self.out).st_ino
        self.assertEqual(self.export("ctranslate2", output=".", cwd=self.out).returncode, 0)
        self.assertEqual(os.stat(self.out).st_ino, before)  # it is still that of those who work in it
        self.assertEqual(self.contents(), whole)
        deep = os.path.join(self.place, "a", "b", "c")
        self.assertEqual(self.export("ctranslate2", output=deep).returncode, 0)
        self.assertEqual(self.contents(deep), whole)

    def test_what_would_be_lost_or_spoiled_is_refused(self):
        self.assertEqual(self.export("huggingface").returncode, 0)
        whole = self.contents()
        result = self.export("ctranslate2")
        self.assertEqual(result.returncode, 73)
        self.assertIn(b"holds model.safetensors, of another format", result.stderr)
        link = os.path.join(self.place, "link")
        os.symlink(self.out, link)
        result = self.export("huggingface", output=link)
        self.assertEqual(result.returncode, 73)
        self.assertIn(f"is a link, to {self.out}".encode(), result.stderr)
        result = self.export("huggingface", output=os.path.join(self.out, "config.json"))
        self.assertEqual(result.returncode, 73)
        self.assertIn(b"a file has this name", result.stderr)
        os.remove(os.path.join(self.out, "vocab.json"))
        os.mkdir(os.path.join(self.out, "vocab.json"))
        whole.pop("vocab.json")
        result = self.export("huggingface", "old")
        self.assertEqual(result.returncode, 73)
        self.assertIn(b"vocab.json: cannot create the file: a folder has this name", result.stderr)
        self.assertEqual(self.contents(), whole)
        self.assertEqual(sorted(os.listdir(self.place)), ["link", "out"])

    def test_files_of_others_are_not_replaced(self):
        for output_format, name in (("huggingface", "vocab.json"), ("ctranslate2", "config.json"), ("marian", "decoder.yml")):
            for mark in (None, b"mine", b'{"format": "other probes 1"}'):
                files = {name: b'{"mine": 1}', "README.md": b"mine"}
                if mark:
                    files["probe.json"] = mark
                self.put(files)
                result = self.export(output_format)
                self.assertEqual(result.returncode, 73, result.stderr)
                self.assertIn(f"{self.out}: holds ".encode(), result.stderr)
                self.assertTrue(any(f"holds {each},".encode() in result.stderr for each in files), result.stderr)
                self.assertEqual(self.contents(), files)
                self.assertEqual(os.listdir(self.place), ["out"])
        self.put({"config.json": b"mine"})
        self.assertEqual(self.export("ctranslate2", output=".", cwd=self.out).returncode, 73)
        self.assertEqual(self.contents(), {"config.json": b"mine"})
        self.put({"README.md": b"mine", "vocab.txt": b"mine"})
        self.assertEqual(self.export("huggingface").returncode, 0)
        self.assertEqual(self.read(os.path.join(self.out, "vocab.txt")), b"mine")

    def test_what_a_first_export_in_place_left_is_completed(self):
        others = {"README.md": b"mine"}
        self.put(others)
        calls = self.calls("huggingface")
        whole = self.contents()
        moved = [i + 1 for i, call in enumerate(calls) if call.startswith("rename ")]
        self.assertGreater(len(moved), 5)
        for number in moved:
            with self.subTest(call=calls[number - 1]):
                self.put(others)
                result = self.export("huggingface", VENTRIS_FAULT_AT=number, VENTRIS_FAULT="kill")
                self.assertEqual(result.returncode, -signal.SIGKILL, result.stderr)
                result = self.export("huggingface")
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual(self.contents(), whole)


if __name__ == "__main__":
    unittest.main()
