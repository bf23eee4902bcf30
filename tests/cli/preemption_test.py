# SPDX-License-Identifier: Apache-2.0
"""Stops that are asked for by signals, at any moment: the run that goes on comes to the bits of one that was left alone."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import time
import unittest

import support

# Steps take a millisecond, validations with their wide search take most of the time.
VALIDATED = {"save_every": 5, "log_every": 5, "valid_every": 2, "valid_beam_size": 16, "max_steps": 6}
ABANDONED = "validation at step"
# Steps take some tenths of a second and more.
SHARDS = 600
LONG_STEPS = {"max_steps": 3, "log_every": 5, "save_every": 1, "digest_every": 1, "ema": 0.5, "precision": "f32"}


def state(path):
    """The parameters, moments and averages of a checkpoint."""
    return support.datasets(path, "model", "adam", "ema")


class Preemption(support.RunTest):
    MODEL = [*support.TINIEST_MODEL, "--dropout", "0.1"]
    CORPUS = {"train_pairs": 200, "vocabulary": 120}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.validated = cls.folder + "/validated.h5"  # whose validations take most of the time of a run
        text = [f"{cls.folder}/demo/train.{side}" for side in ("en", "de")]
        valid = [f"{cls.folder}/valid.{side}" for side in ("en", "de")]
        for path, shorter in zip(text, valid, strict=True):
            with open(path, encoding="utf-8") as source, open(shorter, "w", encoding="utf-8") as file:
                file.writelines(source.readlines()[:110])
        cls.made("prepare", "--train-sets", *text, "--valid-sets", *valid, "--vocab-size", 120, "--output", cls.validated)

    def command(self, name, ranks, **settings):
        return support.command(*self.train(name, corpus=self.validated, **{**VALIDATED, **settings}), ranks=ranks)

    def validations(self, name):
        """The lines of validations without their time."""
        return [{key: value for key, value in line.items() if key != "time"} for line in self.lines(name) if "valid_loss" in line]

    def check_same_run(self, name, other):
        self.assert_same_parameters(name, other, 6)
        self.assertEqual(self.validations(name), self.validations(other))
        for folder in (name, other):
            self.assertEqual(self.status(folder)["state"], "done")

    def cut_validations_off(self, name, ranks, send):
        """Starts the run again and again and lets `send` stop it, each time a bit later, until that has cut off two
        validations, or has cut off one and the run is done; and then lets it go on to its end. A run that is done
        before any was cut off begins anew."""
        abandoned = 0
        for attempt in range(30):
            if attempt > 0 and self.status(name)["state"] == "done":
                shutil.rmtree(self.path(name))
            before = len(self.validations(name))
            process = support.start(self.command(name, ranks))
            # The next validation begins soon behind the line of this one.
            support.wait_for(lambda before=before: len(self.validations(name)) > before, process)
            time.sleep((0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6)[attempt % 8])  # the longer ones beside a heavy load
            send(process)
            text = self.end_of(process)
            abandoned += text.count(ABANDONED)
            if process.returncode == 0:
                if abandoned > 0:
                    break
                continue
            self.assertEqual(process.returncode, 75, text)
            self.assertEqual(self.status(name)["state"], "stopped")
            if abandoned == 2:
                break
        self.assertGreater(abandoned, 0)
        self.run_alone(name, ranks)
        self.run_alone(name, ranks)  # a run that is done is left as it is

    def run_alone(self, name, ranks):
        done = subprocess.run(self.command(name, ranks), capture_output=True, env=support.environment(), check=False)
        self.assertEqual(done.returncode, 0, done.stderr.decode(errors="replace"))

    @unittest.skipUnless(support.MPIEXEC, "built without MPI")
    def test_a_signal_to_one_rank_ends_the_validation_of_all(self):
        def send(launcher):
            with contextlib.suppress(ProcessLookupError):
                for rank in support.children_of(launcher.pid)[-1:]:
                    os.kill(rank, signal.SIGUSR1)

        self.run_alone("pair", ranks=2)
        self.assertEqual([line["step"] for line in self.validations("pair")], [2, 4, 6])
        self.cut_validations_off("one", 2, send)
        self.check_same_run("one", "pair")

    def long_steps(self, name, ranks, reduction, shards, device):
        tokens = {"batch_source_tokens": 96 * shards, "batch_target_tokens": 96 * shards, "logical_shards": shards}
        words = self.train(name, **LONG_STEPS, **tokens, reduction=reduction, device=device)
        return support.command(*words, ranks=ranks, binary=support.BINARY if device == "cpu" else support.EMULATED)

    def check_an_abandoned_step(self, ranks=1, reduction="fast", shards=SHARDS, to=None, device="cpu"):
        """A stop in a step takes that back, and the next start does it anew, to the bits of a quiet run. The signal is
        sent to the rank `to`, or through the launcher."""
        environment = support.environment(VENTRIS_EMULATED_DEVICES=ranks)
        abandoned = None
        # Until it is neither between two steps nor too late.
        for delay in (0.1, 0.05, 0.2, 0.02, 0.3, 0.01, 0.5, 0.005, 1.0, 0.15, 0.7, 0.03):
            for name in ("long", "quiet"):
                shutil.rmtree(self.path(name), ignore_errors=True)
            process = support.start(self.long_steps("long", ranks, reduction, shards, device), VENTRIS_EMULATED_DEVICES=ranks)
            # Not its line in metrics.jsonl, behind which a slow disk takes long to save the checkpoint.
            self.wait_for(lambda: os.path.exists(self.checkpoint("long", 1)), process)
            time.sleep(delay)
            os.kill(process.pid if to is None else support.children_of(process.pid)[to], signal.SIGUSR1)
            text = self.end_of(process)
            if process.returncode == 0:
                continue
            self.assertEqual(process.returncode, 75, text)
            abandoned = re.search(r"step (\d) is abandoned because of the stop, (\d+) of (\d+) micro-batches", text)
            if abandoned and int(abandoned[2]) < int(abandoned[3]):
                break
        self.assertTrue(abandoned, text)
        step, done, of = map(int, abandoned.groups())
        self.assertLessEqual(done, of)  # rank 0 may have been done when it heard of the stop
        status = self.status("long")
        self.assertEqual((status["state"], status["step"]), ("stopped", step - 1))
        # What was done since the last line is told, though none was due.
        self.assertEqual(list(self.values("long", "learning_rate")), [step - 1])
        self.assertEqual(status["last_checkpoint"], self.checkpoint("long", step - 1))
        at_the_stop = {name: values.tobytes() for name, values in state(self.checkpoint("long", step - 1)).items()}
        for name in ("long", "quiet"):
            command = self.long_steps(name, ranks, reduction, shards, device)
            ended = subprocess.run(command, capture_output=True, env=environment, check=False)
            self.assertEqual(ended.returncode, 0, ended.stderr.decode(errors="replace"))
        quiet = state(self.checkpoint("quiet", step - 1))
        self.assertEqual(at_the_stop, {name: values.tobytes() for name, values in quiet.items()})
        self.assert_same_checkpoints("long", "quiet", 3, state)
        self.assertEqual(self.digests("long"), self.digests("quiet"))

    @unittest.skipUnless(support.MPIEXEC, "built without MPI")
    def test_a_stop_of_one_rank_takes_the_step_of_all_back(self):
        # Rank 0, which says how far it came, hears of it from another. Shares have different sizes.
        self.check_an_abandoned_step(ranks=3, reduction="reproducible", shards=SHARDS + 1, to=2)

    @unittest.skipUnless(support.MPIEXEC, "built without MPI")
    @unittest.skipUnless(support.EMULATED, "built without the emulated device")
    def test_a_stop_takes_the_step_of_devices_back(self):
        self.check_an_abandoned_step(ranks=2, shards=12, device="cuda")


if __name__ == "__main__":
    unittest.main(verbosity=2)
