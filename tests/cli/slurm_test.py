# SPDX-License-Identifier: Apache-2.0
"""launch/slurm/*.sbatch under a Slurm of two nodes, which are network namespaces of this machine."""

import os
import signal
import unittest

import hosts
import slurm
import support

SCRIPTS = os.path.join(support.SOURCE_DIR, "launch", "slurm")
# The scripts give --threads themselves.
OPTIONS = [*support.TINY_MODEL[: support.TINY_MODEL.index("--threads")], "--logical-shards", "2"]
STEPS = 500
ENDED = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")


class TrainUnderSlurm(support.RunTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.slurm = slurm.Slurm(hosts.Hosts(), os.path.join(cls.folder, "slurm"))
        cls.addClassCleanup(cls.slurm.stop)

    def submit(self, name, *options, script="cpu.sbatch", export="ALL"):
        """Queues a training of two nodes with one rank each in the folder `name`."""
        size = ["--nodes=2", "--ntasks-per-node=1", "--cpus-per-task=1", f"--export={export}"]
        words = [self.corpus, self.path(name), *OPTIONS, *map(str, options)]
        return self.slurm.submit(*size, f"--output={self.path(name)}.log", os.path.join(SCRIPTS, script), *words)

    def log(self, name):
        path = f"{self.path(name)}.log"
        return self.read(path).decode(errors="replace") if os.path.exists(path) else ""

    def wait_for_steps(self, name, job):
        """Until the training has written metrics."""
        path = self.path(name, "metrics.jsonl")

        def begun():
            self.assertNotIn(self.slurm.job(job)["JobState"], ENDED, self.log(name))
            return os.path.exists(path) and os.path.getsize(path) > 0

        self.slurm.wait(begun, "training")

    def wait_for_end(self, job):
        self.slurm.wait(lambda: self.slurm.job(job)["JobState"] in ENDED, "the end of the job")
        return self.slurm.job(job)

    def test_a_job_that_is_asked_to_stop_saves_queues_itself_and_goes_on(self):
        job = self.submit("asked", "--max-steps", STEPS, "--save-every", 0)
        self.wait_for_steps("asked", job)
        self.slurm.call("scancel", "--signal=USR1", job)
        end = self.wait_for_end(job)
        log = self.log("asked")
        self.assertEqual((end["JobState"], end["Restarts"]), ("COMPLETED", "1"), log)
        # Both parts of the run are in the log.
        self.assertEqual(log.count("ranks       2 on 2 hosts, 1 per host"), 2, log)
        self.assertIn("stopped at step", log)
        self.assertIn(f"trained at step {STEPS}", log)
        self.succeed(*self.train("whole", logical_shards=2, max_steps=STEPS), ranks=2)
        self.assert_same_parameters("asked", "whole", STEPS)

    @unittest.skipUnless(support.EMULATED, "the emulated device was not built")
    def test_ranks_with_gpus_save_at_the_signal_and_go_on(self):
        """The GPUs are emulated; Slurm counts those that it gives."""
        programs = self.path("programs")
        os.mkdir(programs)
        # The devices of both nodes have one identity, as those of one machine have.
        program = self.write("programs/ventris", f'#!/bin/sh\nNCCL_HOSTID=$SLURMD_NODENAME exec "{support.EMULATED}" "$@"\n')
        os.chmod(program, 0o700)
        export = f"ALL,PATH={programs}:{os.environ['PATH']}"
        job = self.submit("gpus", "--max-steps", 40, "--save-every", 0, script="gpu.sbatch", export=export)
        self.wait_for_steps("gpus", job)
        self.slurm.call("scancel", "--signal=USR1", job)
        end = self.wait_for_end(job)
        log = self.log("gpus")
        self.assertEqual((end["JobState"], end["Restarts"]), ("COMPLETED", "1"), log)
        self.assertEqual(log.count("Computing on emulated"), 2, log)
        self.assertIn("stopped at step", log)
        self.assertIn("trained at step 40", log)

    def test_a_job_that_is_cancelled_does_not_queue_itself(self):
        job = self.submit("cancelled", "--max-steps", 1000000, "--save-every", 0)
        self.wait_for_steps("cancelled", job)
        self.slurm.call("scancel", job)
        end = self.wait_for_end(job)
        self.assertEqual((end["JobState"], end["Restarts"]), ("CANCELLED", "0"), self.log("cancelled"))

    def ranks(self, name):
        """The processes of a training, by the name of its folder."""
        found = []
        for process in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{process}/cmdline", "rb") as file:
                    words = file.read().split(b"\0")
            except OSError:
                continue
            if words[0].endswith(b"ventris") and self.path(name).encode() in words:
                found.append(int(process))
        return found

    def test_a_rank_that_is_killed_ends_the_job(self):
        job = self.submit("killed", "--max-steps", 1000000, "--save-every", 0)
        self.wait_for_steps("killed", job)
        ranks = self.ranks("killed")
        self.assertEqual(len(ranks), 2)
        os.kill(ranks[1], signal.SIGKILL)
        end = self.wait_for_end(job)
        log = self.log("killed")
        self.assertEqual((end["JobState"], end["ExitCode"]), ("FAILED", "137:0"), log)
        self.assertRegex(log, r"srun: error: node\d: task \d: Killed")
        self.slurm.wait(lambda: not self.ranks("killed"), "the end of all ranks", seconds=20)

    def test_a_job_that_fails_ends_with_the_exit_code_of_the_program(self):
        job = self.submit("failing", "--max-steps", 2, "--d-model", 33)
        end = self.wait_for_end(job)
        self.assertEqual((end["JobState"], end["ExitCode"]), ("FAILED", "64:0"), self.log("failing"))


if __name__ == "__main__":
    hosts.enter(*slurm.COMMANDS)
    unittest.main()
