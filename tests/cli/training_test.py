# SPDX-License-Identifier: Apache-2.0
"""ventris train: on one and two ranks, interrupted and resumed, and what it refuses."""

import json
import os
import pty
import signal
import subprocess
import time
import unittest

import numpy

import support


class Train(support.CommandLineTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.corpus = cls.prepare_demo()

    def train(self, name, *options):
        """The words of a run in the folder `name`; `options` take the place of those of the model."""
        settings = dict(zip(support.TINY_MODEL[::2], support.TINY_MODEL[1::2]))
        switches = [word for word in options if word in ("--json", "--profile")]
        words = [word for word in options if word not in switches]
        settings.update(zip(words[::2], words[1::2]))
        flat = [word for pair in settings.items() for word in pair]
        return ["train", "--corpus", self.corpus, "--model-dir", self.path(name), *flat, *switches]

    def assert_equal_parameters(self, first, second):
        a, b = support.parameters(first), support.parameters(second)
        self.assertEqual(a.keys(), b.keys())
        for name in a:
            self.assertTrue(numpy.array_equal(a[name].view(numpy.uint32), b[name].view(numpy.uint32)), name)

    def checkpoint(self, name, step):
        return self.path(name, f"checkpoint-{step:08d}.h5")

    def interrupt(self, number, *words, ranks=1):
        """Starts a run, signals it once it has written metrics, and returns its exit code and messages."""
        folder = words[words.index("--model-dir") + 1]
        process = subprocess.Popen(
            support.command(*words, ranks=ranks),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=support.environment(),
        )
        metrics = os.path.join(folder, "metrics.jsonl")
        deadline = time.monotonic() + 120
        while process.poll() is None and time.monotonic() < deadline:
            if os.path.exists(metrics) and os.path.getsize(metrics) > 0:
                break
            time.sleep(0.01)
        process.send_signal(number)
        _, messages = process.communicate(timeout=120)
        return process.returncode, messages.decode(errors="replace")

    def test_a_run_folder_has_what_it_should(self):
        result = json.loads(
            self.succeed(
                *self.train("run", "--max-steps", 12, "--valid-every", 6, "--save-every", 4, "--json")
            )
        )
        self.assertEqual((result["end"], result["step"]), ("done", 12))
        self.assertEqual(result["last_checkpoint"], self.checkpoint("run", 12))
        self.assertIn(result["best_step"], (6, 12))
        lines = [json.loads(line) for line in self.read(self.path("run", "metrics.jsonl")).splitlines()]
        intervals = [line for line in lines if "loss" in line]
        validations = [line for line in lines if "valid_loss" in line]
        self.assertEqual([line["step"] for line in validations], [6, 12])
        self.assertEqual(intervals[-1]["step"], 12)
        for key in (
            "step",
            "epoch",
            "loss",
            "nll",
            "perplexity",
            "learning_rate",
            "gradient_norm",
            "target_tokens",
            "target_tokens_per_second",
            "source_tokens_per_second",
            "elapsed_seconds",
            "skipped_steps",
        ):
            self.assertIsInstance(intervals[0][key], (int, float), key)
        phases = [line["phase_seconds"] for line in intervals]
        self.assertGreater(phases[0]["start"], 0)
        self.assertTrue(all(of["steps"] > 0 and of["start"] == 0 for of in phases[1:]), phases)
        # The time of a validation, and of saving, is in the line after it.
        validated = {line["step"] for line in validations}
        for before, line in zip(intervals, intervals[1:]):
            between = any(before["step"] <= step < line["step"] for step in validated)
            self.assertEqual(line["phase_seconds"]["validation"] > 0, between, line)
        self.assertTrue(any(of["saving"] > 0 for of in phases), phases)
        for key in ("valid_loss", "valid_perplexity", "valid_bleu"):
            self.assertIsInstance(validations[0][key], (int, float), key)
        self.assertLess(intervals[-1]["loss"], intervals[0]["loss"])

    def test_the_last_checkpoint_follows_the_last_validation(self):
        # Else a run that is killed between them ends without that validation.
        words = self.train("last", "--max-steps", 10, "--valid-every", 8, "--save-every", 5)
        self.succeed(*words)
        metrics, checkpoint = self.path("last", "metrics.jsonl"), self.checkpoint("last", 10)
        self.assertIn("valid_loss", json.loads(self.read(metrics).splitlines()[-1]))
        self.assertGreaterEqual(os.stat(checkpoint).st_mtime_ns, os.stat(metrics).st_mtime_ns)
        # Nor is the checkpoint that was the best before left as the best.
        best = json.loads(self.read(self.path("last", "best.json")))
        older = json.dumps({**best, "checkpoint": "checkpoint-00000005.h5", "value": 0})
        self.write(os.path.join("last", "best.json"), older)
        self.succeed(*words)
        self.assertEqual(json.loads(self.read(self.path("last", "best.json"))), best)

    def test_a_profile_tells_the_phases_and_changes_no_bit(self):
        words = self.train("profiled", "--max-steps", 6, "--logical-shards", 2, "--profile", "--json")
        result = support.run(*words)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.succeed(*self.train("unprofiled", "--max-steps", 6, "--logical-shards", 2))
        self.assert_equal_parameters(self.checkpoint("profiled", 6), self.checkpoint("unprofiled", 6))
        support.check_profile(self, result, steps=4)
        short = support.run(*self.train("short", "--max-steps", 2, "--profile"))
        self.assertIn(b"too few steps", short.stderr)

    def test_progress_is_one_live_line_on_a_terminal_and_lines_in_a_log(self):
        def messages(name, terminal):
            reader, writer = pty.openpty() if terminal else os.pipe()
            process = subprocess.Popen(
                support.command(*self.train(name, "--max-steps", 20)),
                stdout=subprocess.DEVNULL,
                stderr=writer,
                env=support.environment(TERM="xterm-256color"),
            )
            os.close(writer)
            text = b""
            while True:
                try:
                    piece = os.read(reader, 1 << 16)
                except OSError:  # how the end of a terminal is told
                    break
                if not piece:
                    break
                text += piece
            os.close(reader)
            self.assertEqual(process.wait(timeout=120), 0, text)
            return text.decode()

        live = messages("terminal", True)
        self.assertIn("\r\x1b[K" + "step 20/20  epoch ", live)
        self.assertNotRegex(live, r":\d\d  step \d+/20 ")
        for part in ("loss ", "perplexity ", "lr ", "target tokens/s", " left"):
            self.assertIn(part, live)
        log = messages("log", False)
        self.assertNotIn("\r", log)
        for step in (5, 10, 15, 20):
            self.assertEqual(log.count(f"step {step}/20  epoch "), 1)

    def test_two_runs_write_the_same_parameters(self):
        for name in ("a", "b"):
            self.succeed(*self.train(name, "--max-steps", 6))
        self.assert_equal_parameters(self.checkpoint("a", 6), self.checkpoint("b", 6))
        self.succeed(*self.train("c", "--max-steps", 6, "--seed", 2))
        with self.assertRaises(AssertionError):
            self.assert_equal_parameters(self.checkpoint("a", 6), self.checkpoint("c", 6))

    def test_threads_change_nothing(self):
        for threads in (1, 2):
            self.succeed(*self.train(f"threads{threads}", "--max-steps", 4, "--threads", threads))
        self.assert_equal_parameters(self.checkpoint("threads1", 4), self.checkpoint("threads2", 4))

    def stop_and_resume(self, name, number, *options, ranks=1):
        """A run that was stopped by a signal and went on for five steps equals one of as many steps."""
        options = ["--save-every", 0, *options]
        # Far more steps than it gets to do, on any machine.
        endless = self.train(name, "--max-steps", 1000000, *options)
        code, messages = self.interrupt(number, *endless, ranks=ranks)
        self.assertEqual(code, 75, messages)
        saved = [file for file in os.listdir(self.path(name)) if file.startswith("checkpoint-")]
        self.assertEqual(len(saved), 1)
        steps = int(saved[0][len("checkpoint-") : -len(".h5")]) + 5
        whole = f"{name}-whole"
        self.succeed(*self.train(name, "--max-steps", steps, *options), ranks=ranks)
        self.succeed(*self.train(whole, "--max-steps", steps, *options), ranks=ranks)
        self.assert_equal_parameters(self.checkpoint(whole, steps), self.checkpoint(name, steps))

    def test_stopped_and_resumed_runs_equal_one_that_was_not(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
            self.stop_and_resume(f"stopped{int(number)}", number)

    @unittest.skipUnless(support.MPIEXEC, "built without MPI")
    def test_two_ranks_stop_and_resume(self):
        self.stop_and_resume("stopped-ranks", signal.SIGUSR1, "--logical-shards", 2, ranks=2)

    @unittest.skipUnless(support.MPIEXEC, "built without MPI")
    def test_one_and_two_ranks_agree_after_ten_steps(self):
        options = ["--max-steps", 10, "--logical-shards", 2, "--dropout", 0.3]
        self.succeed(*self.train("one", *options))
        self.succeed(*self.train("two", *options), ranks=2)
        one, two = support.parameters(self.checkpoint("one", 10)), support.parameters(self.checkpoint("two", 10))
        for name in one:
            scale = numpy.abs(one[name]).max()
            self.assertLessEqual(numpy.abs(one[name] - two[name]).max(), 1e-5 * scale, name)

    @unittest.skipUnless(support.MPIEXEC, "built without MPI")
    def test_one_message_for_a_failure_of_all_ranks(self):
        result = support.run(
            "train", "--corpus", self.path("none.h5"), "--model-dir", self.path("m"), ranks=2
        )
        self.assertEqual(result.returncode, 66)
        message = result.stderr.decode()
        self.assertEqual(message.count("ventris train: error: "), 1, message)
        self.assertRegex(message, r"\[rank 0 on \S+\] ventris train: error: .*none\.h5")

    @unittest.skipUnless(support.MPIEXEC, "built without MPI")
    def test_commands_of_one_process_refuse_several_ranks(self):
        result = support.run("export", "--model", "x", "--output", self.path("w.h5"), ranks=2)
        self.assertEqual(result.returncode, 64)

    def test_a_run_of_another_shape_is_not_resumed(self):
        self.succeed(*self.train("shape", "--max-steps", 2))
        result = support.run(*self.train("shape", "--max-steps", 4, "--d-ff", 128))
        self.assertEqual(result.returncode, 78)
        self.assertIn(b"d_ff", result.stderr.replace(b"-", b"_"))

    def test_resume_never_leaves_a_run_alone(self):
        self.succeed(*self.train("never", "--max-steps", 2))
        before = self.read(self.checkpoint("never", 2))
        result = support.run(*self.train("never", "--max-steps", 2, "--resume", "never"))
        self.assertEqual(result.returncode, 78)
        self.assertEqual(self.read(self.checkpoint("never", 2)), before)

    def test_settings_that_cannot_be(self):
        self.refuse(78, *self.train("bad", "--max-positions", 4), says="max")
        self.refuse(78, *self.train("bad", "--heads", 3), says="heads")
        self.refuse(78, *self.train("bad", "--batch-source-tokens", 3), says="batch-source-tokens")

    def test_a_run_folder_that_cannot_be_made(self):
        file = self.write("file", "x")
        options = self.train("file/run", "--max-steps", 2)
        self.refuse(73, *options, says=file)


if __name__ == "__main__":
    unittest.main(verbosity=2)
