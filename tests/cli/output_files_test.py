# SPDX-License-Identifier: Apache-2.0
"""Where files go that the commands write: not through links that others planted, with the mode of the umask, whole or not at
all, and with nothing left behind."""

import os
import shutil
import signal
import socket
import stat
import subprocess
import unittest

import support

FAULTS = os.environ.get("VENTRIS_FAULTS", "")
NAMED = {"VENTRIS_FAULT_NAMED_ONLY": 1}  # as where the file system has no files without names


@unittest.skipUnless(FAULTS, "built with a sanitizer, which wants to be the first library")
class OutputFiles(support.CommandLineTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        model = cls.train_demo(steps=2)
        demo = os.path.join(cls.folder, "demo")
        cls.out = os.path.join(cls.folder, "out")
        out = lambda name: os.path.join(cls.out, name)
        checkpoint = f"{model}/checkpoint-00000002.h5"
        sets = [f"--{name}-sets" for name in ("train", "valid")]
        texts = [(f"{demo}/{name}.en", f"{demo}/{name}.de") for name in ("train", "valid")]
        weights = os.path.join(cls.folder, "weights.safetensors")
        lines = {}
        for side in ("en", "de"):
            lines[side] = os.path.join(cls.folder, f"lines.{side}")
            with open(f"{demo}/test.{side}", "rb") as whole, open(lines[side], "wb") as part:
                part.write(b"".join(whole.readlines()[:2]))
        assert support.run("export", "--model", model, "--format", "safetensors", "--output", weights).returncode == 0
        # What each command writes, by the names of its files.
        cls.commands = {
            ("corpus.h5",): [
                "prepare", sets[0], *texts[0], sets[1], *texts[1], "--vocab-size", support.VOCABULARY, "--threads", 1,
                "--output", out("corpus.h5")],
            ("weights.h5",): ["export", "--model", model, "--output", out("weights.h5")],
            ("weights.safetensors",): [
                "export", "--model", model, "--format", "safetensors", "--output", out("weights.safetensors")],
            ("averaged.h5",): ["average", "--checkpoints", checkpoint, "--output", out("averaged.h5")],
            ("imported.h5",): ["import", "--input", weights, "--output", out("imported.h5")],
            ("translations",): [
                "evaluate", "--model", model, "--source", lines["en"], "--reference", lines["de"], "--threads", 1,
                "--output", out("translations")],
            ("page.html",): [
                "attention", "--model", model, "--source", "half past seven", "--output", out("page.html")],
            tuple(f"{name}.{side}" for name in ("test", "train", "valid") for side in ("de", "en")): [
                "demo-corpus", "--output-dir", cls.out, "--train-pairs", 30, "--valid-pairs", 3, "--test-pairs", 3],
        }  # fmt: skip

    def setUp(self):
        shutil.rmtree(self.out, ignore_errors=True)
        os.mkdir(self.out)

    def call(self, command, before=None, **variables):
        """Runs it with the library of faults; `before` is called in the process that becomes the program."""
        return subprocess.run(
            support.command(*command), capture_output=True, preexec_fn=before, timeout=240, check=False,
            env=support.environment(LD_PRELOAD=FAULTS, VENTRIS_FAULT_PREFIX=self.out, **variables))  # fmt: skip

    def calls(self, command, **variables):
        """Its calls, in order."""
        log = self.path("calls")
        if os.path.exists(log):
            os.remove(log)
        result = self.call(command, VENTRIS_FAULT_LOG=log, **variables)
        self.assertEqual(result.returncode, 0, result.stderr)
        return self.read(log).decode().splitlines()

    def test_what_a_command_reads_it_does_not_write_over(self):
        model = os.path.join(self.folder, "model")
        checkpoint = shutil.copyfile(f"{model}/checkpoint-00000002.h5", self.path("out", "copy.h5"))
        lines = {side: shutil.copyfile(self.path(f"lines.{side}"), self.path("out", side)) for side in ("en", "de")}
        config = self.path("out", "config")
        with open(config, "w", encoding="utf-8") as file:
            file.write("beam-size = 1\n")
        os.link(lines["de"], self.path("out", "other name"))
        evaluate = ["evaluate", "--model", checkpoint, "--source", lines["en"], "--reference", lines["de"], "--threads", 1]
        before = {name: self.read(self.path("out", name)) for name in os.listdir(self.out)}
        for command, output in (
            (["average", "--checkpoints", checkpoint, f"{model}/checkpoint-00000002.h5"], checkpoint),
            (["export", "--model", checkpoint], checkpoint),
            (["import", "--input", checkpoint], checkpoint),
            (["attention", "--model", checkpoint, "--source", "half past seven"], checkpoint),
            (evaluate, lines["en"]),
            (evaluate, self.path("out", "other name")),
            ([*evaluate, "--config", config], os.path.join(self.out, ".", "config")),
        ):
            self.refuse(64, *command, "--output", output, says="is also the input of")
        after = {name: self.read(self.path("out", name)) for name in os.listdir(self.out)}
        self.assertEqual(before, after)

    def test_a_run_does_not_write_over_what_it_reads(self):
        for name in ("config.json", "metrics.jsonl", "status.json", "command.txt", ".lock"):
            folder = self.path("out", "run" + name)
            os.mkdir(folder)
            for option, file in (("--corpus", self.path("corpus.h5")), ("--init", self.path("out", "w.h5"))):
                if option == "--init" and not os.path.exists(file):
                    self.succeed("export", "--model", os.path.join(self.folder, "model"), "--output", file)
                given = shutil.copyfile(file, os.path.join(folder, name))
                words = {"--corpus": self.path("corpus.h5"), option: given}
                train = ["train", *(word for pair in words.items() for word in pair), "--model-dir", folder, *support.TINY_MODEL]
                self.refuse(64, *train, says=f"{option} {given}: the run writes a file of this name")
                self.assertEqual(self.read(given), self.read(file))

    def test_outputs_do_not_replace_files_of_a_run(self):
        model = os.path.join(self.folder, "model")
        before = {name: self.read(os.path.join(model, name)) for name in os.listdir(model)}
        export = ["export", "--model", model]
        for name in ("best.json", "metrics.jsonl", "config.json", ".lock", "checkpoint-00000002.h5", "checkpoint-00000009.h5.damaged"):
            for command in (export, ["average", "--model-dir", model, "--last", 1], ["attention", "--model", model, "--source", "half past seven"]):
                self.refuse(73, *command, "--output", os.path.join(model, name), says=f"training run in {model}")
        for kind in ("ctranslate2", "huggingface"):
            self.refuse(73, *export, "--format", kind, "--output", model, says=f"{model}: holds a training run")
        self.assertEqual(before, {name: self.read(os.path.join(model, name)) for name in os.listdir(model)})
        for kind in ("ctranslate2", "huggingface"):  # and the other way about
            folder = self.path("out", kind)
            self.succeed(*export, "--format", kind, "--output", folder)
            exported = self.read(os.path.join(folder, "config.json"))
            self.refuse(
                73, "train", "--corpus", self.path("corpus.h5"), "--model-dir", folder, *support.TINY_MODEL, says=f"the folder {folder}"
            )
            self.assertEqual(exported, self.read(os.path.join(folder, "config.json")))
        self.succeed(*export, "--output", os.path.join(model, "weights.h5"))
        os.remove(os.path.join(model, "weights.h5"))

    def test_nothing_is_written_through_a_link_that_others_planted(self):
        os.chmod(self.out, 0o1777)
        victim = self.write("victim", "keep")
        host = socket.gethostname()
        for names, command in self.commands.items():
            for mode in ({}, NAMED):

                def plant(names=names):
                    # Every name that the program may take: even the random part is known here.
                    for name in names:
                        path = os.path.join(self.out, name)
                        for end in (f"{host}.{os.getpid()}.{0:016}", f"{host}.{os.getpid()}", str(os.getpid())):
                            os.symlink(victim, f"{path}.tmp.{end}")

                for taken in (False, True):
                    with self.subTest(files=names, mode=mode, taken=taken):
                        self.setUp()
                        for name in names if taken else ():
                            with open(os.path.join(self.out, name), "wb") as file:
                                file.write(b"old")
                        result = self.call(command, plant, VENTRIS_FAULT_KNOWN_NUMBERS=1, **mode)
                        self.assertEqual(self.read(victim), b"keep")
                        left = [name for name in os.listdir(self.out) if not os.path.islink(os.path.join(self.out, name))]
                        if mode or taken:  # there is no other name
                            self.assertIn(result.returncode, (73, 74), result.stderr)
                            self.assertIn(b"File exists", result.stderr)
                            self.assertEqual(sorted(left), sorted(names) if taken else [])
                            for name in left:
                                self.assertEqual(self.read(os.path.join(self.out, name)), b"old")
                        else:
                            self.assertEqual(result.returncode, 0, result.stderr)
                            self.assertEqual(sorted(left), sorted(names))

    def test_a_name_of_an_open_file_is_not_replaced(self):
        # As /dev/stdout is: without the refusal all programs would lose it.
        for names, command in self.commands.items():
            with self.subTest(files=names):
                self.setUp()
                path = os.path.join(self.out, names[0])
                os.symlink("/proc/self/fd/1", os.path.join(self.out, "open"))
                os.symlink("open", path)
                with open(self.path("seen"), "wb") as output:
                    result = subprocess.run(support.command(*command), stdout=output, stderr=subprocess.PIPE, check=False)
                self.assertEqual(result.returncode, 73, result.stderr)
                self.assertIn(f"{path}: cannot create the file: this name is an open file".encode(), result.stderr)
                self.assertTrue(os.path.islink(path))

    def test_no_name_but_that_of_the_output_can_be_foretold(self):
        for names, command in self.commands.items():
            for mode in ({}, NAMED):
                with self.subTest(files=names, mode=mode):
                    seen = []
                    for _ in range(2):  # the second replaces the files
                        calls = self.calls(command, **mode)
                        paths = {call.split(" ", 1)[1].removesuffix(" (deleted)") for call in calls}
                        within = {os.path.relpath(path, self.out) for path in paths if "/#" not in path}
                        seen.append(within - {".", *names})
                    self.assertTrue(all(".tmp." in name for name in seen[0] | seen[1]), seen)
                    self.assertFalse(seen[0] & seen[1])
                    self.assertEqual(sorted(os.listdir(self.out)), sorted(names))
                    self.setUp()

    def test_what_replaces_a_file_has_its_mode(self):
        for names, command in self.commands.items():
            for mode, kept in ((0o600, 0o600), (0o640, 0o640), (0o4755, 0o755)):
                for name in names:
                    with open(os.path.join(self.out, name), "wb") as file:
                        file.write(b"old")
                    os.chmod(os.path.join(self.out, name), mode)
                self.assertEqual(self.call(command, lambda: os.umask(0o022)).returncode, 0)
                for name in names:
                    self.assertNotEqual(self.read(os.path.join(self.out, name)), b"old")
                    self.assertEqual(oct(stat.S_IMODE(os.stat(os.path.join(self.out, name)).st_mode)), oct(kept), name)
                self.setUp()

    @unittest.skipUnless(os.geteuid() == 0, "only root may give files away, and take another's place")
    def test_what_replaces_a_file_of_others_is_theirs_where_that_may_be(self):
        names, command = next(item for item in self.commands.items() if "weights.h5" in item[0])
        path = os.path.join(self.out, names[0])
        model = command[command.index("--model") + 1]
        for folder, _, files in [(self.folder, None, []), *os.walk(model)]:
            os.chmod(folder, 0o755)
            for name in files:
                os.chmod(os.path.join(folder, name), 0o644)
        for group, user, expected in ((4242, None, (0o640, 1234, 4242)), (4242, 1234, (0o600, 1234, 1234))):
            self.setUp()
            os.chmod(self.out, 0o777)
            with open(path, "wb") as file:
                file.write(b"old")
            os.chown(path, 1234, group)
            os.chmod(path, 0o640)
            run = [["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"], []][user is None]
            result = subprocess.run([*run, *support.command(*command)], capture_output=True, env=support.environment(), check=False)
            self.assertEqual(result.returncode, 0, result.stderr)
            found = os.stat(path)
            self.assertEqual((stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid), expected)

    def test_modes_are_those_of_the_umask(self):
        for mask in (0o022, 0o027, 0o077):
            for names, command in self.commands.items():
                for mode in ({}, NAMED):
                    result = self.call(command, lambda mask=mask: os.umask(mask), **mode)
                    self.assertEqual(result.returncode, 0, result.stderr)
                    for name in names:
                        found = stat.S_IMODE(os.stat(os.path.join(self.out, name)).st_mode)
                        self.assertEqual(oct(found), oct(0o666 & ~mask), name)
                    self.setUp()
            if not os.environ.get("VENTRIS_ALL_FAULTS"):
                self.commands = {names: command for names, command in self.commands.items() if "weights.h5" in names}

    def check_kills(self, names, command, mode, step):
        """Kills the command at its calls, over files of before; what is left is the old file or the new one."""
        old = {name: f"old {name}".encode() for name in names}
        self.calls(command, **mode)
        calls = self.calls(command, **mode)  # over files that are there
        new = {name: self.read(os.path.join(self.out, name)) for name in names}
        for number in [*range(1, len(calls) + 1, step), len(calls)]:
            with self.subTest(files=names, call=calls[number - 1], number=number, mode=mode):
                self.setUp()
                for name, content in old.items():
                    with open(os.path.join(self.out, name), "wb") as file:
                        file.write(content)
                result = self.call(command, VENTRIS_FAULT_AT=number, VENTRIS_FAULT="kill", **mode)
                self.assertEqual(result.returncode, -signal.SIGKILL, result.stderr)
                for name in names:
                    self.assertIn(self.read(os.path.join(self.out, name)), (old[name], new[name]))
                rest = set(os.listdir(self.out)) - set(names)
                self.assertLessEqual(len(rest), len(names) if mode else 1, rest)
                if not mode and rest:  # between its first name and its last
                    self.assertTrue(calls[number - 1].startswith("rename "), calls[number - 1])
                if rest:
                    self.assertEqual(self.call(command, **mode).returncode, 0)
                    self.assertEqual(sorted(os.listdir(self.out)), sorted(names))
                    for name in names:
                        self.assertEqual(self.read(os.path.join(self.out, name)), new[name])

    def test_what_a_killed_command_leaves_is_removed_by_the_next(self):
        wanted = [("weights.h5",), ("weights.safetensors",), ("corpus.h5",)]
        for names in self.commands if os.environ.get("VENTRIS_ALL_FAULTS") else wanted:
            for mode, step in (({}, 9), (NAMED, 23)):
                self.check_kills(names, self.commands[names], mode, 1 if os.environ.get("VENTRIS_ALL_FAULTS") else step)

    def test_the_sets_of_a_demo_corpus_get_their_names_when_all_are_written(self):
        command = next(command for command in self.commands.values() if command[0] == "demo-corpus")
        kinds = [call.split(" ", 1)[0] for call in self.calls(command)]
        first = min(kinds.index(kind) for kind in ("rename", "link") if kind in kinds)
        self.assertNotIn("write", "".join(kinds[first:]), kinds)
        self.assertIn("write", "".join(kinds[:first]), kinds)

    def test_nobody_reads_what_replaces_a_private_file_while_it_is_written(self):
        names, command = ("weights.h5",), self.commands[("weights.h5",)]
        path = os.path.join(self.out, names[0])
        kinds = [call.split(" ", 1)[0] for call in self.calls(command, **NAMED)]
        for number in (1 + kinds.index("write"), 1 + kinds.index("fsync")):
            self.setUp()
            with open(path, "wb") as file:
                file.write(b"private")
            os.chmod(path, 0o600)
            result = self.call(command, VENTRIS_FAULT_AT=number, VENTRIS_FAULT="kill", **NAMED)
            self.assertEqual(result.returncode, -signal.SIGKILL, result.stderr)
            modes = {name: stat.S_IMODE(os.stat(os.path.join(self.out, name)).st_mode) for name in os.listdir(self.out)}
            self.assertEqual((len(modes), set(map(oct, modes.values()))), (2, {oct(0o600)}), modes)

    def test_signals_leave_nothing(self):
        command = self.commands[("weights.h5",)]
        fsync = 1 + [call.split(" ", 1)[0] for call in self.calls(command)].index("fsync")
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            self.setUp()
            log = self.path("signalled")
            process = support.start(
                support.command(*command), LD_PRELOAD=FAULTS, VENTRIS_FAULT_PREFIX=self.out, VENTRIS_FAULT_LOG=log,
                VENTRIS_FAULT_AT=fsync, VENTRIS_FAULT="wait")  # fmt: skip
            self.assertTrue(support.wait_for(lambda: os.path.exists(log) and b"fsync" in self.read(log), process))  # noqa: B023
            process.send_signal(number)
            process.communicate(timeout=60)
            self.assertEqual(process.returncode, -number)
            self.assertEqual(os.listdir(self.out), [])
            os.remove(log)

    def test_two_processes_that_write_one_output_leave_one_of_the_two(self):
        command = self.commands[("weights.h5",)]
        self.assertEqual(self.call(command).returncode, 0)
        alone = self.read(os.path.join(self.out, "weights.h5"))
        for mode in ({}, NAMED):
            variables = support.environment(LD_PRELOAD=FAULTS, VENTRIS_FAULT_PREFIX=self.out, **mode)
            both = [subprocess.Popen(support.command(*command), env=variables, stdout=subprocess.DEVNULL) for _ in "ab"]
            self.assertEqual([process.wait(timeout=240) for process in both], [0, 0])
            self.assertEqual(os.listdir(self.out), ["weights.h5"])
            self.assertEqual(self.read(os.path.join(self.out, "weights.h5")), alone)


if __name__ == "__main__":
    unittest.main()
