"""Stops that are asked for by signals, at any moment: the run that goes on comes to the bits of one that was left alone."""

import json
import os
import shutil
import signal
import subprocess
import time
import unittest

import support

# Steps take a millisecond, validations with their wide search take most of the time.
OPTIONS = [
    *("--encoder-layers", "1", "--decoder-layers", "1", "--d-model", "16", "--d-ff", "32", "--heads", "2"),
    *("--batch-source-tokens", "192", "--batch-target-tokens", "192", "--logical-shards", "2", "--dropout", "0.1"),
    *("--warmup-steps", "20", "--log-every", "5", "--threads", "1", "--save-every", "5"),
    *("--valid-every", "2", "--valid-beam-size", "16"),
]
ABANDONED = "is abandoned for the stop"


class Preemption(support.CommandLineTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.corpus = cls.prepare_demo(train_pairs=200, vocabulary=120)

    def command(self, name, ranks, steps=6):
        folders = ["--corpus", self.corpus, "--model-dir", self.path(name)]
        return support.command("train", *folders, *OPTIONS, "--max-steps", steps, ranks=ranks)

    def start(self, name, ranks, steps=6, **variables):
        return support.start(self.command(name, ranks, steps), **variables)

    def validations(self, name):
        """The lines of metrics.jsonl."""
        with open(self.path(name, "metrics.jsonl"), encoding="utf-8") as file:
            return [line for line in map(json.loads, file) if "valid_loss" in line]

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
            before = self.status(name)["started"]
            process = self.start(name, ranks)
            support.wait_for(lambda before=before: self.status(name)["started"] != before, process)
            time.sleep(0.02 * (attempt % 8))
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
            with open(f"/proc/{launcher.pid}/task/{launcher.pid}/children", encoding="ascii") as file:
                ranks = file.read().split()
            if ranks:
                os.kill(int(ranks[-1]), signal.SIGUSR1)

        self.run_alone("pair", ranks=2)
        self.cut_validations_off("one", 2, send)
        self.check_same_run("one", "pair")

    @unittest.skipUnless(support.MPIEXEC, "built without MPI")
    def test_the_setting_of_open_mpi_gives_ranks_time_to_save_after_sigterm(self):
        process = self.start("term", ranks=2, steps=1000000, OMPI_MCA_odls_base_sigkill_timeout=5)
        support.wait_for(lambda: self.status("term")["state"] == "running", process)
        process.send_signal(signal.SIGTERM)
        text = process.communicate(timeout=100)[1].decode(errors="replace")
        self.assertNotEqual(process.returncode, 0, text)
        self.assertEqual((self.status("term")["state"], self.status("term")["exit_code"]), ("stopped", 75), text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
