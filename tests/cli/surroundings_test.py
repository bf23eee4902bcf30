# SPDX-License-Identifier: Apache-2.0
"""The program in bad surroundings: closed streams, limits on files, pipes in place of files."""

import os
import signal
import subprocess
import unittest

import support


def run_with(prepare, *arguments):
    """Runs the program after calling `prepare` in its process; returns what subprocess.run does."""
    return subprocess.run(
        support.command(*arguments), stdin=subprocess.DEVNULL, capture_output=True, env=support.environment(),
        preexec_fn=prepare, timeout=240, check=False)  # fmt: skip


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

    def test_a_limit_on_files_is_an_error_and_leaves_nothing(self):
        result = run_with(limit_files_to(20000), *self.prepare("--output", self.path("limited.h5")))
        self.assertEqual(result.returncode, 74, result.stderr)
        self.assertIn(b"File too large", result.stderr)
        result = run_with(limit_files_to(2000), "demo-corpus", "--output-dir", self.path("limited"))
        self.assertEqual(result.returncode, 74, result.stderr)
        self.assertFalse([name for name in os.listdir(self.folder) if name.startswith("limited.h5")])
        self.assertEqual(os.listdir(self.path("limited")), [])

    def test_what_is_read_is_not_written_over(self):
        text = self.demo_path("train.de")
        before = self.read(text)
        self.refuse(64, *self.prepare("--output", text), says=text)
        self.assertEqual(self.read(text), before)

    def test_pipes_and_folders_in_place_of_outputs_are_refused(self):
        os.mkfifo(self.path("pipe"))
        self.refuse(73, *self.prepare("--output", self.path("pipe")), says="pipe")
        texts = ["--source", self.demo_path("test.en"), "--reference", self.demo_path("test.de")]
        start = ["evaluate", "--model", self.path("none"), *texts, "--output"]  # looked at before it works
        self.refuse(73, *start, self.folder, says="a folder")
        self.refuse(73, *start, self.path("nowhere", "out"), says="nowhere")

    def test_a_refused_run_leaves_the_description_of_the_one_it_found(self):
        self.succeed(*self.train("described", max_steps=2))
        files = [self.path("described", name) for name in ("config.json", "command.txt", "metrics.jsonl", "checkpoint-00000002.h5")]
        before = [self.read(file) for file in files]
        self.refuse(78, *self.train("described", max_steps=4, seed=9), says="seed")
        self.refuse(78, *self.train("described", max_steps=4, resume="never"), says="--resume")
        self.assertEqual([self.read(file) for file in files], before)


if __name__ == "__main__":
    unittest.main(verbosity=2)
