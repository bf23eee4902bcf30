# SPDX-License-Identifier: Apache-2.0
"""What a run folder tells, and what can be done with it: command.txt, config.json, inspect; closed streams and outputs nobody reads."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import unittest

import support


class RunFolder(support.RunTest):
    def text(self, name, file):
        return self.read(self.path(name, file)).decode()

    def test_the_command_can_be_typed_again(self):
        own = self.train("all 'alone", max_steps=1)
        said = self.told(*own)
        self.assertEqual(shlex.split(self.text("all 'alone", "command.txt")), ["ventris", *map(str, own)])
        # What comes next can be typed as it is printed.
        following = said.split("Next: ")[1].split(",")[0]
        self.assertEqual(shlex.split(following), ["ventris", "translate", "--model", self.path("all 'alone")])

    def test_no_name_sends_a_terminal_a_command(self):
        odd, plain = "odd \x1b]0;title\x07 \x1b[2Jname\x7f", "odd  ]0;title   [2Jname "
        said = self.told(*self.train(odd, max_steps=1))
        failed = self.told(*self.train("none", corpus=self.path("gone " + odd)), code=66)
        self.assertNotRegex(said + failed, r"[\x00-\x09\x0b-\x1f\x7f]")
        self.assertIn(f"training in {self.path(plain)} on ", said)
        self.assertIn(f"error: {self.path('gone ' + plain)}: ", failed)

    def test_pipes_in_place_of_files_of_a_run_folder_are_not_waited_for(self):
        self.succeed(*self.train("pipes", max_steps=2, save_every=1))
        for name, code, says in (("metrics.jsonl", 73, "a device or a pipe has this name"), ("status.json", 0, "")):
            shutil.copytree(self.path("pipes"), self.path("pipes-" + name))
            os.remove(self.path("pipes-" + name, name))
            os.mkfifo(self.path("pipes-" + name, name))
            self.assertIn(support.run("inspect", self.path("pipes-" + name)).returncode, (0, 65))
            words = self.train("pipes-" + name, max_steps=3)
            supervised = ["--max-restarts", 0, "--", support.BINARY, *words]
            for command, program in ((supervised, support.SUPERVISE), (words, support.BINARY)):
                self.assertIn(says, self.told(*command, binary=program, code=code))

    def test_config_json_is_a_configuration(self):
        options = {"preset": "small", "dropout": 0.123, "ema": 0.5, "valid_metric": "chrf", "max_steps": 2, "seed": 2**63 + 1}
        self.succeed(*self.train("first", "--pre-norm", **options, positions="marian", adam_epsilon=3e-9))
        config = self.path("first", "config.json")
        self.succeed("train", "--config", config, "--model-dir", self.path("second"))
        first, second = (json.loads(self.text(name, "config.json")) for name in ("first", "second"))
        self.assertEqual(second, {**first, "model_dir": self.path("second")})
        self.assert_same_parameters("second", "first", 2)
        self.assertEqual(json.loads(self.succeed("plan", "--config", config, "--json"))["steps"], 2)

    def test_a_run_that_is_done_is_left_as_it_is(self):
        self.succeed(*self.train("done", max_steps=6))
        names = ("command.txt", "config.json", "metrics.jsonl")
        before = [self.text("done", name) for name in names]
        for steps in (6, 4):
            said = self.told(*self.train("done", max_steps=steps))
            self.assertIn(f"nothing to do: {self.checkpoint('done', 6)} has all {steps} steps\n", said)
            self.assertEqual([self.text("done", name) for name in names], before)

    def test_json_that_is_no_configuration(self):
        self.succeed(*self.train("strange", max_steps=1))
        config = json.loads(self.text("strange", "config.json"))
        for text, says in (
            ('{"corpus": "a', "bad.json"),
            (json.dumps({**config, "dropout": 0.5}), 'has the unknown option dropout: it belongs in "model"'),
            (json.dumps({**config, "seeed": 0.5}), "has the unknown option seeed: it is misspelt, or from another version"),
            (json.dumps({**config, "max_steps": "x"}), ['max_steps is "x"', "an integer from 0 to 4294967295"]),
            (json.dumps({**config, "valid_metric": "BLEU"}), ['valid_metric is "BLEU"', "auto or bleu or chrf or loss or perplexity"]),
        ):
            file = self.write("bad.json", text)
            self.refuse(78, "train", "--config", file, "--model-dir", self.path("unconfigured"), says=says)
            self.assertFalse(os.path.exists(self.path("unconfigured")))
        self.refuse(78, "bleu", "--config", file, says="is JSON; ventris bleu expects lines")

    def test_inspect_of_a_run_folder(self):
        self.succeed(*self.train("looked", max_steps=4, save_every=2))
        self.assertIn(f"{self.path('looked')}: done at step 4, exit code 0\n", self.succeed("inspect", self.path("looked")).decode())
        told = json.loads(self.succeed("inspect", self.path("looked"), "--json"))
        self.assertEqual((told["status"]["state"], told["status"]["killed"], told["newest"]), ("done", False, "checkpoint-00000004.h5"))
        self.assertEqual([checkpoint["step"] for checkpoint in told["checkpoints"]], [2, 4])
        self.assertEqual(told["config"], json.loads(self.text("looked", "config.json")))
        verified = self.succeed("inspect", self.path("looked"), "--verify").decode()
        self.assertEqual(len(re.findall(r"checkpoint-0000000[24].h5: verified; digest", verified)), 2)
        for step in (2, 4):  # both are reported
            self.write(f"looked/checkpoint-{step:08}.h5", self.read(self.checkpoint("looked", step))[:-1])
        self.refuse(65, "inspect", self.path("looked"), "--verify", says=["checkpoint-00000002.h5", "checkpoint-00000004.h5"])
        status = json.loads(self.text("looked", "status.json"))
        gone = {**status, "state": "running", "exit_code": None, "retryable": None, "pid": 2**22 + 1}
        self.write("looked/status.json", json.dumps(gone))
        self.assertIn(": killed; ", self.succeed("inspect", self.path("looked")).decode())
        for file, text in (("config.json", b'{"a": '), ("best.json", b"{}")):
            for bad in (text, b'"' + b"x" * 100000 + b'"'):
                self.write(f"looked/{file}", bad)
                self.assertRegex(self.succeed("inspect", self.path("looked")).decode(), rf"\n{file[:-5]} +cannot be read: .*{file}")
                self.refuse(65, "inspect", self.path("looked"), "--json", says=file)
            os.remove(self.path("looked", file))
        self.write("looked/command.txt", b"\xff" * 9)
        self.assertEqual(json.loads(self.succeed("inspect", self.path("looked"), "--json"))["command"], "\ufffd" * 9)
        os.mkdir(self.path("empty"))
        self.refuse(66, "inspect", self.path("empty"), says="not of a training run")


def run_with(prepare, *arguments):
    """Runs the program after calling `prepare` in its process; returns what subprocess.run does."""
    return subprocess.run(
        support.command(*arguments), stdin=subprocess.DEVNULL, capture_output=True, env=support.environment(),
        preexec_fn=prepare, timeout=600, check=False)  # fmt: skip


class Surroundings(support.RunTest):
    def prepare(self, *options):
        return ["prepare", "--train-sets", self.demo_path("train.en"), self.demo_path("train.de"), "--vocab-size", support.VOCABULARY, *options]

    def test_messages_of_a_closed_stream_go_into_no_file(self):
        for name, streams in (("error", (2,)), ("all", (0, 1, 2))):
            result = run_with(lambda: [os.close(fd) for fd in streams], *self.train(name, max_steps=10))  # noqa: B023
            self.assertEqual(result.returncode, 0)
            self.assertEqual([line["step"] for line in self.lines(name)], [5, 10])
            self.succeed("inspect", self.checkpoint(name, 10), "--verify")

    def test_an_output_that_nobody_reads_does_not_change_what_training_came_to(self):
        read_end, write_end = os.pipe()
        os.close(read_end)
        self.addCleanup(os.close, write_end)
        outputs = {"closed": (lambda: os.close(1), "Bad file descriptor"), "unread": (lambda: os.dup2(write_end, 1), "was closed")}
        if os.path.exists("/dev/full"):
            outputs["full"] = (lambda: os.dup2(os.open("/dev/full", os.O_WRONLY), 1), "No space left")
        for name, (prepare, reason) in outputs.items():
            result = run_with(prepare, *self.train(name, max_steps=10))
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertRegex(result.stderr.decode(), f"Warning: the result could not be written.*{reason}")
            status = self.status(name)
            self.assertEqual((status["state"], status["exit_code"], status["retryable"]), ("done", 0, False))
            self.succeed("inspect", status["last_checkpoint"], "--verify")
        # The same of a run that is asked to stop.
        process = subprocess.Popen(
            support.command(*self.train("stopped", max_steps=100000)), stdout=write_end, stderr=subprocess.PIPE, env=support.environment()
        )
        self.wait_for(lambda: self.status("stopped")["state"] == "running", process)
        process.send_signal(signal.SIGUSR1)
        self.assertIn("Warning: the result could not be written", self.end_of(process, 75))
        self.assertEqual(self.status("stopped")["state"], "stopped")

    def test_closed_input(self):
        result = run_with(lambda: os.close(0), "bleu", "--reference", self.demo_path("test.de"))
        self.assertEqual(result.returncode, 74)
        self.assertIn(b"standard input", result.stderr)

    def test_what_is_read_is_not_written_over(self):
        text = self.demo_path("train.de")
        before = self.read(text)
        self.refuse(64, *self.prepare("--output", text), says=text)
        self.assertEqual(self.read(text), before)

    def test_a_refused_run_leaves_the_description_of_the_one_it_found(self):
        self.succeed(*self.train("described", max_steps=2))
        files = [self.path("described", name) for name in ("config.json", "command.txt", "metrics.jsonl", "checkpoint-00000002.h5")]
        before = [self.read(file) for file in files]
        self.refuse(78, *self.train("described", max_steps=4, seed=9), says="seed")
        self.refuse(78, *self.train("described", max_steps=4, resume="never"), says="--resume")
        self.assertEqual([self.read(file) for file in files], before)


if __name__ == "__main__":
    unittest.main(verbosity=2)
