# SPDX-License-Identifier: Apache-2.0
"""Where files go that the commands write: not through links that others planted, with the mode of the umask, whole or not at
all, and with nothing left behind. VENTRIS_ALL_FAULTS=1 kills every command at each call, not some at those of a sample."""

import os
import shutil
import signal
import socket
import stat
import subprocess
import unittest

import support

FAULTS = os.environ.get("VENTRIS_FAULTS", "")
ALL = os.environ.get("VENTRIS_ALL_FAULTS", "")
NAMED = {"VENTRIS_FAULT_NAMED_ONLY": 1}  # as where the file system has no files without names
WEIGHTS = ("weights.h5",)


def mode_of(path):
    return stat.S_IMODE(os.stat(path).st_mode)


@unittest.skipUnless(FAULTS, "built with a sanitizer, which wants to be the first library")
class OutputFiles(support.CommandLineTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.model = cls.train_demo(steps=2)
        cls.last = os.path.join(cls.model, "checkpoint-00000002.h5")
        cls.out = cls.path("out")
        cls.lines = {}
        for side in ("en", "de"):
            cls.lines[side] = cls.write(f"lines.{side}", b"".join(cls.read(cls.demo_path(f"test.{side}")).splitlines(True)[:2]))
        weights = cls.path("weights.safetensors")
        cls.made("export", "--model", cls.model, "--output", weights)
        texts = [cls.demo_path(f"{name}.{side}") for name in ("train", "valid") for side in ("en", "de")]
        sets = ("--train-sets", *texts[:2], "--valid-sets", *texts[2:])
        evaluate = ("--source", cls.lines["en"], "--reference", cls.lines["de"], "--threads", 1)
        # What each command writes, by the names of its files; the last words name the first of them.
        cls.commands = {
            ("corpus.h5",): ["prepare", *sets, "--vocab-size", support.VOCABULARY, "--threads", 1, "--output"],
            WEIGHTS: ["export", "--model", cls.model, "--output"],
            ("weights.safetensors",): ["export", "--model", cls.model, "--output"],
            ("averaged.h5",): ["average", "--checkpoints", cls.last, "--output"],
            ("imported.h5",): ["import", "--input", weights, "--output"],
            ("translations",): ["evaluate", "--model", cls.model, *evaluate, "--output"],
            ("page.html",): ["attention", "--model", cls.model, "--source", "half past seven", "--output"],
        }  # fmt: skip
        cls.commands = {names: [*words, cls.path("out", names[0])] for names, words in cls.commands.items()}
        demo = tuple(f"{name}.{side}" for name in ("test", "train", "valid") for side in ("de", "en"))
        cls.commands[demo] = ["demo-corpus", "--train-pairs", 30, "--valid-pairs", 3, "--test-pairs", 3, "--output-dir", cls.out]

    def setUp(self):
        shutil.rmtree(self.out, ignore_errors=True)
        os.mkdir(self.out)

    def call(self, command, before=None, code=0, **variables):
        """Runs it with the library of faults; `before` is called in the process that becomes the program."""
        result = subprocess.run(
            support.command(*command), capture_output=True, preexec_fn=before, timeout=600, check=False,
            env=support.environment(LD_PRELOAD=FAULTS, VENTRIS_FAULT_PREFIX=self.out, **variables))  # fmt: skip
        if code is not None:
            self.assertEqual(result.returncode, code, result.stderr)
        return result

    def calls(self, command, **variables):
        """Its calls, in order."""
        log = self.write("calls", "")
        self.call(command, VENTRIS_FAULT_LOG=log, **variables)
        return self.read(log).decode().splitlines()

    def put(self, names, text="old", mode=None):
        """Begins anew with these files in the folder."""
        self.setUp()
        for name in names:
            self.write(f"out/{name}", text)
            if mode is not None:
                os.chmod(self.path("out", name), mode)

    def content(self, folder=None):
        folder = folder or self.out
        return {name: self.read(os.path.join(folder, name)) for name in os.listdir(folder)}

    def test_what_a_command_reads_it_does_not_write_over(self):
        checkpoint = shutil.copyfile(self.last, self.path("out", "copy.h5"))
        lines = {side: shutil.copyfile(self.lines[side], self.path("out", side)) for side in ("en", "de")}
        config = self.write("out/config", "beam-size = 1\n")
        os.link(lines["de"], self.path("out", "other name"))
        evaluate = ["evaluate", "--model", checkpoint, "--source", lines["en"], "--reference", lines["de"], "--threads", 1]
        before = self.content()
        for command, output in (
            (["average", "--checkpoints", checkpoint, self.last], checkpoint),
            (["export", "--model", checkpoint], checkpoint),
            (["import", "--input", checkpoint], checkpoint),
            (["attention", "--model", checkpoint, "--source", "half past seven"], checkpoint),
            (evaluate, lines["en"]),
            (evaluate, self.path("out", "other name")),
            ([*evaluate, "--config", config], os.path.join(self.out, ".", "config")),
        ):
            self.refuse(64, *command, "--output", output, says="is also the input of")
        self.assertEqual(before, self.content())

    def test_a_run_does_not_write_over_what_it_reads(self):
        self.succeed(*self.commands[WEIGHTS])
        for name, option, file in (("metrics.jsonl", "--corpus", self.path("corpus.h5")), (".lock", "--init", self.path("out", WEIGHTS[0]))):
            os.mkdir(self.path("out", "run" + name))
            given = shutil.copyfile(file, self.path("out", "run" + name, name))
            words = {"--corpus": self.path("corpus.h5"), option: given}
            train = ["train", *(word for pair in words.items() for word in pair), "--model-dir", os.path.dirname(given), *support.TINY_MODEL]
            self.refuse(64, *train, says=f"{option} {given}: the run writes a file of this name")
            self.assertEqual(self.read(given), self.read(file))

    def test_outputs_do_not_replace_files_of_a_run(self):
        before = self.content(self.model)
        export = ["export", "--model", self.model]
        attention = ["attention", "--model", self.model, "--source", "half past seven"]
        for name in ("best.json", "config.json", ".lock", "checkpoint-00000002.h5", "checkpoint-00000009.h5.damaged"):
            for command in (export, ["average", "--model-dir", self.model, "--last", 1], attention):
                self.refuse(73, *command, "--output", os.path.join(self.model, name), says=f"training run in {self.model}")
        train = ["train", "--corpus", self.path("corpus.h5"), *support.TINY_MODEL, "--model-dir"]
        for kind in ("ctranslate2", "huggingface"):
            self.refuse(73, *export, "--format", kind, "--output", self.model, says=f"{self.model}: holds a training run")
            folder = self.path("out", kind)  # and the other way about
            self.succeed(*export, "--format", kind, "--output", folder)
            exported = self.content(folder)
            self.refuse(73, *train, folder, says=f"the folder {folder}")
            self.assertEqual(exported, self.content(folder))
        self.assertEqual(before, self.content(self.model))

    def test_nothing_is_written_through_a_link_that_others_planted(self):
        os.chmod(self.out, 0o1777)
        victim = self.write("victim", "keep")
        host = socket.gethostname()
        cases = [(names, mode, taken) for names in self.commands for mode, taken in (({}, False), ({}, True), (NAMED, False))]
        for names, mode, taken in cases:

            def plant(names=names):
                # Every name that the program may take: even the random part is known here.
                for name in names:
                    for end in (f"{host}.{os.getpid()}.{0:016}", f"{host}.{os.getpid()}", str(os.getpid())):
                        os.symlink(victim, f"{self.path('out', name)}.tmp.{end}")

            with self.subTest(files=names, mode=mode, taken=taken):
                self.put(names if taken else ())
                result = self.call(self.commands[names], plant, code=None, VENTRIS_FAULT_KNOWN_NUMBERS=1, **mode)
                self.assertEqual(self.read(victim), b"keep")
                left = [name for name in os.listdir(self.out) if not os.path.islink(self.path("out", name))]
                if mode or taken:  # there is no other name
                    self.assertIn(result.returncode, (73, 74), result.stderr)
                    self.assertIn(b"File exists", result.stderr)
                    self.assertEqual(sorted(left), sorted(names) if taken else [])
                    self.assertTrue(all(self.read(self.path("out", name)) == b"old" for name in left))
                else:
                    self.assertEqual((result.returncode, sorted(left)), (0, sorted(names)), result.stderr)

    def test_a_name_of_an_open_file_is_not_replaced(self):
        # As /dev/stdout is: without the refusal all programs would lose it.
        path = self.path("out", WEIGHTS[0])
        os.symlink("/proc/self/fd/1", self.path("out", "open"))
        os.symlink("open", path)
        with open(self.path("seen"), "wb") as output:
            result = subprocess.run(support.command(*self.commands[WEIGHTS]), stdout=output, stderr=subprocess.PIPE, check=False)
        self.assertEqual(result.returncode, 73, result.stderr)
        self.assertIn(f"{path}: cannot create the file: this name is an open file".encode(), result.stderr)
        self.assertTrue(os.path.islink(path))

    def test_modes_are_those_of_the_umask_and_of_what_is_replaced(self):
        for names, command in self.commands.items():
            for mask, mode, expected in ((0o027, None, 0o640), (0o022, 0o600, 0o600), (0o022, 0o4755, 0o755)):
                for how in ({}, NAMED) if names == WEIGHTS else ({},):
                    self.put(() if mode is None else names, mode=mode)
                    self.call(command, lambda mask=mask: os.umask(mask), **how)
                    for name in names:
                        self.assertNotEqual(self.read(self.path("out", name)), b"old")
                        self.assertEqual(oct(mode_of(self.path("out", name))), oct(expected), name)

    @unittest.skipUnless(os.geteuid() == 0, "only root may give files away, and take another's place")
    def test_what_replaces_a_file_of_others_is_theirs_where_that_may_be(self):
        path = self.path("out", WEIGHTS[0])
        for folder, _, files in [(self.folder, None, []), *os.walk(self.model)]:
            os.chmod(folder, 0o755)
            for name in files:
                os.chmod(os.path.join(folder, name), 0o644)
        for group, user, expected in ((4242, None, (0o640, 1234, 4242)), (4242, 1234, (0o600, 1234, 1234))):
            self.put(WEIGHTS, mode=0o640)
            os.chmod(self.out, 0o777)
            os.chown(path, 1234, group)
            run = [["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"], []][user is None]
            words = [*run, *support.command(*self.commands[WEIGHTS])]
            result = subprocess.run(words, capture_output=True, env=support.environment(), check=False)
            self.assertEqual(result.returncode, 0, result.stderr)
            found = os.stat(path)
            self.assertEqual((mode_of(path), found.st_uid, found.st_gid), expected)

    def check_kills(self, names, mode, step):
        """Kills the command at its calls, over files of before; what is left is the old file or the new one."""
        command = self.commands[names]
        self.calls(command, **mode)
        calls = self.calls(command, **mode)  # over files that are there
        new = {name: self.read(self.path("out", name)) for name in names}
        for number in [*range(1, len(calls) + 1, step), len(calls)]:
            with self.subTest(files=names, call=calls[number - 1], number=number, mode=mode):
                self.put(names)
                self.call(command, code=-signal.SIGKILL, VENTRIS_FAULT_AT=number, VENTRIS_FAULT="kill", **mode)
                for name in names:
                    self.assertIn(self.read(self.path("out", name)), (b"old", new[name]))
                rest = set(os.listdir(self.out)) - set(names)
                self.assertLessEqual(len(rest), len(names) if mode else 1, rest)
                if not mode and rest:  # between its first name and its last
                    self.assertTrue(calls[number - 1].startswith("rename "), calls[number - 1])
                if rest:
                    self.call(command, **mode)
                    self.assertEqual(self.content(), new)

    def test_what_a_killed_command_leaves_is_removed_by_the_next(self):
        for names in self.commands if ALL else (WEIGHTS, ("corpus.h5",)):
            for mode, step in (({}, 9), (NAMED, 23)):
                self.check_kills(names, mode, 1 if ALL else step)

    def test_the_sets_of_a_demo_corpus_get_their_names_when_all_are_written(self):
        command = next(command for command in self.commands.values() if command[0] == "demo-corpus")
        kinds = [call.split(" ", 1)[0] for call in self.calls(command)]
        first = min(kinds.index(kind) for kind in ("rename", "link") if kind in kinds)
        self.assertEqual(("write" in kinds[:first], "write" in kinds[first:]), (True, False), kinds)

    def test_nobody_reads_what_replaces_a_private_file_while_it_is_written(self):
        kinds = [call.split(" ", 1)[0] for call in self.calls(self.commands[WEIGHTS], **NAMED)]
        for number in (1 + kinds.index("write"), 1 + kinds.index("fsync")):
            self.put(WEIGHTS, mode=0o600)
            self.call(self.commands[WEIGHTS], code=-signal.SIGKILL, VENTRIS_FAULT_AT=number, VENTRIS_FAULT="kill", **NAMED)
            self.assertEqual([oct(mode_of(self.path("out", name))) for name in os.listdir(self.out)], [oct(0o600)] * 2)

    def test_signals_leave_nothing(self):
        command = self.commands[WEIGHTS]
        fsync = 1 + [call.split(" ", 1)[0] for call in self.calls(command)].index("fsync")
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            self.setUp()
            log = self.write("signalled", "")
            faults = {"PREFIX": self.out, "LOG": log, "AT": fsync}
            process = support.start(
                support.command(*command), LD_PRELOAD=FAULTS, VENTRIS_FAULT="wait", **{f"VENTRIS_FAULT_{key}": value for key, value in faults.items()})
            self.wait_for(lambda log=log: b"fsync" in self.read(log), process)
            process.send_signal(number)
            self.end_of(process, -number)
            self.assertEqual(os.listdir(self.out), [])


if __name__ == "__main__":
    unittest.main()
