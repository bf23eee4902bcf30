# SPDX-License-Identifier: Apache-2.0
"""What a run folder tells, and what can be done with it: command.txt, config.json, inspect."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import time
import unittest

import support


def open_files(pid):
    """The paths of the files that a process has open, as far as they stay."""
    folder = f"/proc/{pid}/fd"
    paths = set()
    for name in os.listdir(folder):
        try:
            paths.add(os.readlink(os.path.join(folder, name)))
        except FileNotFoundError:
            continue
    return paths


class RunFolder(support.CommandLineTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.corpus = cls.prepare_demo()

    def train(self, name, *options):
        return ["train", "--corpus", self.corpus, "--model-dir", self.path(name), *support.TINY_MODEL, *options]

    def text(self, name, file):
        return self.read(self.path(name, file)).decode()

    def test_command_is_that_of_the_launcher(self):
        own = self.train("all 'alone", "--max-steps", 1)
        result = support.run(*own)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(shlex.split(self.text("all 'alone", "command.txt")), ["ventris", *map(str, own)])
        # What comes next can be typed as it is printed.
        following = result.stderr.decode().split("Next: ")[1].split(",")[0]
        self.assertEqual(shlex.split(following), ["ventris", "translate", "--model", self.path("all 'alone")])
        own = support.command(*self.train("supervised", "--max-steps", 1))
        words = [support.SUPERVISE, "--max-restarts", "3", "--", *own]
        subprocess.run(words, capture_output=True, check=True, env=support.environment())
        given = shlex.split(self.text("supervised", "command.txt"))
        self.assertEqual(given, ["bash", *words])

    def test_names_that_are_no_utf8(self):
        name = os.fsdecode(b"caf\xe9")
        corpus = self.path(f"{name}.h5")
        shutil.copyfile(self.corpus, corpus)
        words = ["train", "--corpus", corpus, "--model-dir", self.path(name), *support.TINY_MODEL, "--json"]
        for steps in (2, 4):  # the second goes on
            told = json.loads(self.succeed(*words, "--max-steps", steps))
            self.assertTrue(told["last_checkpoint"].endswith(f"caf\ufffd/checkpoint-{steps:08}.h5"), told)
        weights = self.path(f"{name}.weights.h5")
        self.succeed("export", "--model", self.path(name), "--output", weights, "--json")
        for path in (weights, corpus, self.path(name)):
            json.loads(self.succeed("inspect", path, "--json"))

    def test_no_name_sends_a_terminal_a_command(self):
        odd = "odd \x1b]0;title\x07 \x1b[2Jname\x7f"
        plain = "odd  ]0;title   [2Jname "
        result = support.run("train", "--corpus", self.corpus, "--model-dir", self.path(odd), *support.TINY_MODEL, "--max-steps", 1)
        failed = support.run("train", "--corpus", self.path("gone " + odd), "--model-dir", self.path("none"))
        self.assertEqual((result.returncode, failed.returncode), (0, 66), result.stderr + failed.stderr)
        said = result.stderr.decode()
        self.assertNotRegex(said + failed.stderr.decode(), r"[\x00-\x09\x0b-\x1f\x7f]")
        shown = self.path(plain)
        for words in (f"training in {shown} on ", f"saved in {shown}/checkpoint-", f"Next: ventris translate --model '{shown}'"):
            self.assertIn(words, said)
        self.assertIn(f"error: {self.path('gone ' + plain)}: ", failed.stderr.decode())

    def test_a_pipe_in_place_of_a_file_of_ours_is_not_waited_for(self):
        pipe = self.path("pipe")
        os.mkfifo(pipe)
        train = ["train", "--model-dir", self.path("never"), "--max-steps", 1]
        self.refuse(65, *train, "--corpus", pipe, says=f"{pipe}: not a regular file", timeout=20)
        self.refuse(65, *train, "--corpus", self.corpus, "--resume", pipe, says=f"{pipe}: not a regular file", timeout=20)
        self.refuse(65, "inspect", pipe, says=f"{pipe}: not a regular file", timeout=20)
        self.refuse(65, "translate", "--model", pipe, says=f"{pipe}: not a regular file", timeout=20)
        self.refuse(65, "import", "--input", pipe, "--output", self.path("no.h5"), says=f"{pipe}: not a regular file", timeout=20)

    def test_pipes_in_place_of_files_of_a_run_folder_are_not_waited_for(self):
        self.succeed(*self.train("pipes", "--max-steps", 2, "--save-every", 1))
        for name, code, says in (("metrics.jsonl", 73, "a device or a pipe has this name"), ("status.json", 0, "")):
            folder = self.path("pipes-" + name)
            shutil.copytree(self.path("pipes"), folder)
            os.remove(os.path.join(folder, name))
            os.mkfifo(os.path.join(folder, name))
            self.assertIn(support.run("inspect", folder, timeout=20).returncode, (0, 65))
            words = self.train("pipes-" + name, "--max-steps", 3)
            supervised = ["--max-restarts", 0, "--", support.BINARY, *words]
            for command, program in ((supervised, support.SUPERVISE), (words, support.BINARY)):
                result = support.run(*command, binary=program, timeout=60)
                self.assertEqual(result.returncode, code, result.stderr)
                self.assertIn(says, result.stderr.decode())

    def test_a_configuration_may_come_through_a_pipe_and_is_waited_for_only_until_a_stop(self):
        pipe = self.path("config.pipe")
        os.mkfifo(pipe)
        process = support.start(support.command("train", "--config", pipe, "--model-dir", self.path("piped")))
        with open(pipe, "w", encoding="utf-8") as writer:
            writer.write(f"corpus = {self.corpus}\nno-such-option = 1\n")
        self.assertIn("no-such-option", process.communicate(timeout=60)[1].decode())
        self.assertEqual(process.returncode, 78)
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            process = support.start(support.command("train", "--config", pipe))
            support.wait_for(lambda: pipe in open_files(process.pid), process)  # noqa: B023
            process.send_signal(number)
            self.assertIn(f"{pipe}, the file of --config", process.communicate(timeout=20)[1].decode())
            self.assertEqual(process.returncode, 75)

    @unittest.skipUnless(support.MPIEXEC, "built without MPI")
    def test_command_has_the_options_of_mpirun(self):
        own = self.train("ranks", "--max-steps", 1)
        words = support.command(*own, ranks=2)
        words.insert(1, "-x")
        words.insert(2, "SOME=a 'quoted' word")
        process = support.start(words)
        text = process.communicate(timeout=60)[1].decode(errors="replace")
        self.assertEqual(process.returncode, 0, text)
        self.assertEqual(shlex.split(self.text("ranks", "command.txt")), words)

    def test_config_json_is_a_configuration(self):
        options = ["--preset", "small", "--dropout", 0.123, "--pre-norm", "--ema", 0.5, "--valid-metric", "chrf"]
        options += ["--max-steps", 2, "--seed", 2**63 + 1, "--positions", "marian", "--adam-epsilon", 3e-9]
        self.succeed(*self.train("first", *options))
        config = self.path("first", "config.json")
        self.succeed("train", "--config", config, "--model-dir", self.path("second"))
        first, second = (json.loads(self.text(name, "config.json")) for name in ("first", "second"))
        self.assertEqual(second.pop("model_dir"), self.path("second"))
        first.pop("model_dir")
        self.assertEqual(first, second)
        one, two = (support.parameters(self.path(name, "checkpoint-00000002.h5")) for name in ("first", "second"))
        self.assertEqual({k: v.tobytes() for k, v in one.items()}, {k: v.tobytes() for k, v in two.items()})
        planned = json.loads(self.succeed("plan", "--config", config, "--json"))
        self.assertEqual(planned["steps"], 2)

    def test_a_run_that_is_done_is_left_as_it_is(self):
        self.succeed(*self.train("done", "--max-steps", 6))
        names = ("command.txt", "config.json", "metrics.jsonl")
        before = [self.text("done", name) for name in names]
        for options in (["--max-steps", 6, "--seed", 1], ["--max-steps", 4]):
            result = support.run(*self.train("done", *options))
            self.assertEqual(result.returncode, 0, result.stderr)
            checkpoint = self.path("done", "checkpoint-00000006.h5")
            self.assertIn(f"nothing to do: {checkpoint} has all {options[1]} steps\n", result.stderr.decode())
            self.assertNotIn("tokens/s", result.stderr.decode())
            self.assertIn(f"trained at step 6; last checkpoint {checkpoint}", result.stdout.decode())
            self.assertEqual([self.text("done", name) for name in names], before)
        self.succeed(*self.train("done", "--max-steps", 8))
        self.assertNotEqual(self.text("done", "command.txt"), before[0])

    def test_json_that_is_no_configuration(self):
        self.write("cut.json", '{"corpus": "a')
        self.refuse(78, "train", "--config", self.path("cut.json"), says="cut.json")
        self.write("other.json", '{"colour": 3}')
        self.refuse(78, "train", "--config", self.path("other.json"), says="with the options of a run")
        self.refuse(78, "bleu", "--config", self.path("other.json"), says="is JSON; ventris bleu expects lines")
        self.succeed(*self.train("strange", "--max-steps", 1))
        config = json.loads(self.text("strange", "config.json"))
        for key, says in (("dropout", 'it belongs in "model"'), ("seeed", "it is misspelt, or from a newer version")):
            self.write("strange.json", json.dumps({**config, key: 0.5}))
            self.refuse(78, "train", "--config", self.path("strange.json"), says=f"has the unknown option {key}: {says}")

    def test_json_with_a_word_that_an_option_does_not_take(self):
        self.succeed(*self.train("words", "--max-steps", 1))
        config = json.loads(self.text("words", "config.json"))
        for key, value, says in (
            ("valid_metric", "BLEU", "auto, bleu, chrf, loss, perplexity"),
            ("tie", "both", "auto, all, decoder, none"),
            ("begin_embedding", "Learned", "auto, learned, zero, none"),
            ("preset", "Base", "tiny, small, base, big"),
            ("device", "gpu", "auto, cpu, cuda"),
            ("valid_tokenize", "moses", "auto, 13a, none"),
            ("precision", "f64", "f32 or bf16"),
            ("gradient_dtype", "f64", "f32 or bf16"),
            ("reduction", "Fast", "fast or reproducible"),
        ):
            path = self.path("words.json")
            self.write("words.json", json.dumps({**config, key: value}))
            folder = self.path("never-words")
            self.refuse(78, "train", "--config", path, "--model-dir", folder, says=[f'{path}: {key} is "{value}"', says])
            self.assertFalse(os.path.exists(folder))

    def test_json_without_some_options_has_those_of_its_preset(self):
        self.succeed(*self.train("preset", "--max-steps", 1))
        config = json.loads(self.text("preset", "config.json"))
        for key in ("learning_rate_scale", "warmup_steps", "device"):
            del config[key]
        tiny = json.loads(self.text("preset", "config.json"))
        for preset in ("tiny", "small"):
            self.write("partial.json", json.dumps({**config, "preset": preset}))
            folder = self.path("of-" + preset)
            self.succeed("train", "--config", self.path("partial.json"), "--model-dir", folder, "--device", "cpu")
            shown = self.succeed("train", "--show-preset", preset).decode()
            found = json.loads(self.text(folder, "config.json"))
            for key in ("learning_rate_scale", "warmup_steps"):
                told = re.search(rf"^{key.replace('_', '-')} = (\S+)$", shown, re.M)[1]
                self.assertEqual(found[key], float(told), (preset, key))
            self.assertEqual(found["max_steps"], tiny["max_steps"])

    def sleeps(self, process):
        """Whether all threads of a process wait for something."""
        states = []
        for thread in os.listdir(f"/proc/{process.pid}/task"):
            with open(f"/proc/{process.pid}/task/{thread}/stat", encoding="utf-8") as file:
                states.append(file.read().rpartition(")")[2].split()[0])
        return set(states) == {"S"}

    def test_a_checkpoint_that_a_run_removes_meanwhile_is_passed_over(self):
        self.succeed(*self.train("vanishing", "--max-steps", 2, "--save-every", 1))
        gone = self.path("vanishing", "checkpoint-00000002.h5")
        # A full pipe holds the program at its first line, after it has listed the folder.
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        with self.assertRaises(BlockingIOError):
            while True:
                os.write(writing, b"x" * 512)
        os.set_blocking(writing, True)
        with subprocess.Popen(
            [support.BINARY, "inspect", self.path("vanishing"), "--verify"], stdout=writing, stderr=subprocess.PIPE
        ) as process:
            os.close(writing)
            asleep = 0
            while asleep < 20 and process.poll() is None:
                time.sleep(0.05)
                asleep = asleep + 1 if self.sleeps(process) else 0
            os.remove(gone)
            with os.fdopen(reading, "rb") as pipe:
                printed = pipe.read().lstrip(b"x").decode()
            said = process.stderr.read().decode()
        self.assertEqual(process.returncode, 0, said)
        self.assertIn(f"{gone}: removed by the run in the meantime", said)
        self.assertIn("checkpoint-00000001.h5: verified", printed)

    def test_a_copy_under_the_name_of_a_later_step_is_told(self):
        self.succeed(*self.train("copied", "--max-steps", 3, "--save-every", 1))
        copy = self.path("copied", "checkpoint-00000009.h5")
        shutil.copy(self.path("copied", "checkpoint-00000002.h5"), copy)
        self.refuse(78, *self.train("copied", "--max-steps", 12), says=[f"{copy} holds step 2, not that of its name"])

    def test_inspect_of_a_run_folder(self):
        self.succeed(*self.train("looked", "--max-steps", 4, "--save-every", 2))
        text = self.succeed("inspect", self.path("looked")).decode()
        self.assertIn(f"{self.path('looked')}: done at step 4, exit code 0\n", text)
        self.assertRegex(text, r"\ncheckpoints +2, [0-9.]+ MiB\nnewest +checkpoint-00000004.h5\n")
        self.assertRegex(text, r"\ncommand +ventris train --corpus ")
        self.assertRegex(text, r'\nconfig +{\n  "adam_epsilon": 1e-09,\n')
        told = json.loads(self.succeed("inspect", self.path("looked"), "--json"))
        self.assertEqual((told["status"]["state"], told["status"]["killed"], told["newest"]),
                         ("done", False, "checkpoint-00000004.h5"))  # fmt: skip
        self.assertEqual([checkpoint["step"] for checkpoint in told["checkpoints"]], [2, 4])
        self.assertEqual(told["config"], json.loads(self.text("looked", "config.json")))
        verified = self.succeed("inspect", self.path("looked"), "--verify").decode()
        self.assertEqual(len(re.findall(r"checkpoint-0000000[24].h5: verified; digest", verified)), 2)
        status = json.loads(self.text("looked", "status.json"))
        gone = {**status, "state": "running", "exit_code": None, "retryable": None, "pid": 2**22 + 1}
        self.write("looked/status.json", json.dumps(gone))
        self.assertIn(": killed; ", self.succeed("inspect", self.path("looked")).decode())
        self.write("looked/status.json", json.dumps({**gone, "last_checkpoint": None}))
        self.assertIn(": killed before its first checkpoint", self.succeed("inspect", self.path("looked")).decode())
        os.mkdir(self.path("empty"))
        self.refuse(66, "inspect", self.path("empty"), says="not of a training run")

    @unittest.skipUnless(support.MPIEXEC, "built without MPI")
    def test_inspect_of_a_command_that_is_no_text(self):
        self.succeed(*self.train("bytes", "--max-steps", 1))
        with open(self.path("bytes", "command.txt"), "wb") as file:
            file.write(b"\xff" * 9)
        self.assertEqual(json.loads(self.succeed("inspect", self.path("bytes"), "--json"))["command"], "\ufffd" * 9)


if __name__ == "__main__":
    unittest.main(verbosity=2)
