# SPDX-License-Identifier: Apache-2.0
"""Stops that are asked for by signals, at any moment: the run that goes on comes to the bits of one that was left alone."""

import json
import contextlib
import os
import re
import shutil
import signal
import subprocess
import time
import unittest

import h5py

import support

MODEL = [
    *("--encoder-layers", "1", "--decoder-layers", "1", "--d-model", "16", "--d-ff", "32", "--heads", "2"),
    *("--dropout", "0.1", "--warmup-steps", "20", "--threads", "1"),
]
# Steps take a millisecond, validations with their wide search take most of the time.
OPTIONS = [
    *(*MODEL, "--batch-source-tokens", "192", "--batch-target-tokens", "192", "--logical-shards", "2"),
    *("--log-every", "5", "--save-every", "5", "--valid-every", "2", "--valid-beam-size", "16"),
]
ABANDONED = "validation at step"
# Steps take some tenths of a second and more.
SHARDS = 1024
LONG_STEPS = [
    *(*MODEL, "--max-steps", 3, "--log-every", 5, "--save-every", 1, "--valid-every", 0),
    *("--digest-every", 1, "--ema", 0.5),
]


def children_of(process):
    """None of a process that has ended."""
    try:
        with open(f"/proc/{process}/task/{process}/children", encoding="ascii") as file:
            return [int(child) for child in file.read().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def state(path):
    """The bytes of parameters, moments and averages of a checkpoint."""
    found = {}
    with h5py.File(path, "r") as file:
        for group in ("model", "adam", "average"):
            if group in file:
                file[group].visititems(
                    lambda name, item, group=group: found.__setitem__(f"{group}/{name}", item[()].tobytes())
                    if isinstance(item, h5py.Dataset)
                    else None
                )
    return found


class Preemption(support.CommandLineTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.corpus = cls.prepare_demo(train_pairs=200, vocabulary=120)
        cls.validated = cls.folder + "/validated.h5"  # whose validations take most of the time of a run
        text = [f"{cls.folder}/demo/train.{side}" for side in ("en", "de")]
        valid = [f"{cls.folder}/valid.{side}" for side in ("en", "de")]
        for path, shorter in zip(text, valid, strict=True):
            with open(path, encoding="utf-8") as source, open(shorter, "w", encoding="utf-8") as file:
                file.writelines(source.readlines()[:110])
        result = support.run("prepare", "--train-sets", *text, "--valid-sets", *valid, "--vocab-size", 120, "--output", cls.validated)
        assert result.returncode == 0, result.stderr

    def command(self, name, ranks, steps=6):
        folders = ["--corpus", self.validated, "--model-dir", self.path(name)]
        return support.command("train", *folders, *OPTIONS, "--max-steps", steps, ranks=ranks)

    def start(self, name, ranks, steps=6, **variables):
        return support.start(self.command(name, ranks, steps), **variables)

    def validations(self, name):
        """The whole lines of validations of metrics.jsonl without their time."""
        if not os.path.exists(self.path(name, "metrics.jsonl")):
            return []
        with open(self.path(name, "metrics.jsonl"), encoding="utf-8") as file:
            lines = [line for line in map(json.loads, filter(lambda line: line.endswith("\n"), file)) if "valid_loss" in line]
        return [{key: value for key, value in line.items() if key != "time"} for line in lines]

    def check_same_run(self, name, other):
        last = "checkpoint-00000006.h5"
        one, two = (support.parameters(self.path(folder, last)) for folder in (name, other))
        self.assertEqual({k: v.tobytes() for k, v in one.items()}, {k: v.tobytes() for k, v in two.items()})
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
            process = self.start(name, ranks)
            # The next validation begins soon behind the line of this one.
            support.wait_for(lambda before=before: len(self.validations(name)) > before, process)
            time.sleep(0.01 * (attempt % 8))
            send(process)
            text = process.communicate(timeout=60)[1].decode(errors="replace")
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

    def test_stops_in_validations(self):
        self.run_alone("whole", ranks=1)
        self.assertEqual([line["step"] for line in self.validations("whole")], [2, 4, 6])
        self.cut_validations_off("stopped", 1, lambda process: process.send_signal(signal.SIGUSR1))
        self.check_same_run("stopped", "whole")

    @unittest.skipUnless(support.MPIEXEC, "built without MPI")
    def test_a_signal_to_one_rank_ends_the_validation_of_all(self):
        def send(launcher):
            with contextlib.suppress(ProcessLookupError):
                for rank in children_of(launcher.pid)[-1:]:
                    os.kill(rank, signal.SIGUSR1)

        self.run_alone("pair", ranks=2)
        self.cut_validations_off("one", 2, send)
        self.check_same_run("one", "pair")

    def long_steps(self, name, ranks, reduction, shards, device):
        folders = ["--corpus", self.corpus, "--model-dir", self.path(name)]
        tokens = 96 * shards
        options = [*LONG_STEPS, "--batch-source-tokens", tokens, "--batch-target-tokens", tokens]
        options += ["--reduction", reduction, "--logical-shards", shards, "--device", device, "--precision", "f32"]
        binary = support.BINARY if device == "cpu" else support.EMULATED
        return support.command("train", *folders, *options, ranks=ranks, binary=binary)

    def digests(self, name):
        """By step; of each the last."""
        with open(self.path(name, "metrics.jsonl"), encoding="utf-8") as file:
            return {line["step"]: line["digest"] for line in map(json.loads, file) if "digest" in line}

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
            first = self.path("long", "checkpoint-00000001.h5")
            if not support.wait_for(lambda first=first: os.path.exists(first), process):
                self.fail(process.communicate()[1].decode(errors="replace"))
            time.sleep(delay)
            os.kill(process.pid if to is None else children_of(process.pid)[to], signal.SIGUSR1)
            text = process.communicate(timeout=60)[1].decode(errors="replace")
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
        with open(self.path("long", "metrics.jsonl"), encoding="utf-8") as file:
            logged = [line["step"] for line in map(json.loads, file) if "learning_rate" in line]
        self.assertEqual(logged, [step - 1])  # what was done since the last line is told, though none was due
        saved = f"checkpoint-{step - 1:08d}.h5"
        self.assertEqual(status["last_checkpoint"], self.path("long", saved))
        at_the_stop = state(self.path("long", saved))
        for name in ("long", "quiet"):
            command = self.long_steps(name, ranks, reduction, shards, device)
            ended = subprocess.run(command, capture_output=True, env=environment, check=False)
            self.assertEqual(ended.returncode, 0, ended.stderr.decode(errors="replace"))
        self.assertEqual(at_the_stop, state(self.path("quiet", saved)))
        last = "checkpoint-00000003.h5"
        self.assertEqual(state(self.path("long", last)), state(self.path("quiet", last)))
        self.assertEqual(self.digests("long"), self.digests("quiet"))

    def test_a_stop_between_micro_batches_takes_the_step_back(self):
        self.check_an_abandoned_step()

    @unittest.skipUnless(support.MPIEXEC, "built without MPI")
    def test_a_stop_of_all_ranks_takes_the_step_back(self):
        self.check_an_abandoned_step(ranks=2, reduction="reproducible")

    @unittest.skipUnless(support.MPIEXEC, "built without MPI")
    def test_a_stop_of_one_rank_takes_the_step_of_all_back(self):
        # Rank 0, which says how far it came, hears of it from another. Shares have different sizes.
        self.check_an_abandoned_step(ranks=3, shards=SHARDS + 1, to=2)

    @unittest.skipUnless(support.MPIEXEC, "built without MPI")
    @unittest.skipUnless(support.EMULATED, "built without the emulated device")
    def test_a_stop_takes_the_step_of_devices_back(self):
        self.check_an_abandoned_step(ranks=2, shards=12, device="cuda")

    @unittest.skipUnless(support.MPIEXEC, "built without MPI")
    def test_the_setting_of_open_mpi_gives_ranks_time_to_save_after_sigterm(self):
        process = self.start("term", ranks=2, steps=1000000, OMPI_MCA_odls_base_sigkill_timeout=15)
        support.wait_for(lambda: self.status("term")["state"] == "running", process)
        process.send_signal(signal.SIGTERM)
        text = process.communicate(timeout=100)[1].decode(errors="replace")
        self.assertNotEqual(process.returncode, 0, text)
        self.assertEqual((self.status("term")["state"], self.status("term")["exit_code"]), ("stopped", 75), text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
