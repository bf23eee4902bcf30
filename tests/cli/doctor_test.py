# SPDX-License-Identifier: Apache-2.0
"""ventris doctor, alone and under mpirun."""

import json
import os
import subprocess
import unittest

import support

ON_DEVICE = ("doctor", "--device", "cuda", "--preset", "tiny", "--json")


class Doctor(support.CommandLineTest):
    def doctor(self, *options, code=0, **how):
        """The report."""
        result = support.run(*(options or ("doctor", "--device", "cpu", "--json")), **how)
        self.assertEqual(result.returncode, code, result.stderr.decode() + result.stdout.decode())
        report = json.loads(result.stdout)
        self.assertEqual((report["fit"], bool(report["problems"])), (code == 0, code != 0))
        return report

    def test_one_process_looks_at_its_machine(self):
        report = self.doctor()
        (rank,) = report["ranks"]
        self.assertEqual(rank["host"], os.uname().nodename)
        self.assertEqual(rank["cores"], len(os.sched_getaffinity(0)))
        self.assertEqual(report["sum_bytes_per_second"], 0)
        page = self.succeed("doctor", "--device", "cpu").decode()
        self.assertRegex(page, rf"\nrank 0 +{os.uname().nodename}, \d+ of \d+ cores?, \S+ [MG]iB, CPU\n1 rank: fit to train\n\Z")

    @unittest.skipUnless(support.MPIEXEC, "built without MPI")
    def test_a_launcher_of_another_mpi_is_a_problem(self):
        for variables in ({"PMI_RANK": 3, "PMI_SIZE": 16}, {"OMPI_COMM_WORLD_RANK": 3, "OMPI_COMM_WORLD_SIZE": 16}):
            says = ["the launcher started 16 processes, but each is alone", "MPI"]
            self.refuse(69, "doctor", "--device", "cpu", variables=variables, says=says)

    def test_a_device_that_is_wanted_and_missing_is_a_problem(self):
        result = support.run("doctor", "--device", "cuda", variables={"CUDA_VISIBLE_DEVICES": "-1"})
        self.assertEqual(result.returncode, 69, result.stderr)
        self.assertRegex(result.stdout.decode(), r"\nproblem +\S.*\n1 rank: not fit to train\n\Z")

    def test_gpus_of_a_job_that_it_cannot_use_are_a_problem(self):
        result = support.run("doctor", variables={"SLURM_JOB_ID": 7, "SLURM_GPUS_ON_NODE": 8})
        self.assertEqual(result.returncode, 69, result.stderr)
        says = rf"\nproblem +the job has GPUs \({os.uname().nodename}: SLURM_GPUS_ON_NODE=8\) and cannot use them: "
        self.assertRegex(result.stdout.decode(), says)

    @unittest.skipUnless(support.MPIEXEC, "built without MPI")
    def test_two_ranks_sum(self):
        report = self.doctor(ranks=2)
        self.assertEqual(len(report["ranks"]), 2)
        self.assertIn("thread level MPI_THREAD_", report["ranks"][1]["mpi"])
        self.assertGreater(report["sum_bytes_per_second"], 0)
        self.assertGreater(report["sum_latency_seconds"], 0)

    @unittest.skipUnless(support.EMULATED and support.MPIEXEC, "the emulated device was not built")
    def test_devices_take_steps_and_sum(self):
        report = self.doctor(*ON_DEVICE, ranks=2, binary=support.EMULATED, variables={"VENTRIS_EMULATED_DEVICES": 2})
        for rank in report["ranks"]:
            self.assertEqual(rank["device"], "emulated, 4 multiprocessors, 4.0 GiB")
            self.assertRegex(rank["driver"], r"^(\S+ )?for CUDA 13\.0$")
        self.assertGreater(report["sum_bytes_per_second"], 0)
        self.assertEqual(bool(report["warnings"]), len(os.sched_getaffinity(0)) < 8, report["warnings"])  # few cores

    @unittest.skipUnless(support.EMULATED and support.MPIEXEC, "the emulated device was not built")
    def test_a_device_that_computes_wrongly_is_told_with_rank_and_host(self):
        first = support.command(*ON_DEVICE, ranks=2, binary=support.EMULATED)
        first[first.index("-np") + 1] = "1"
        broken = ["-np", "1", "-x", "VENTRIS_EMULATED_IDLE_KERNELS=adam_step", support.EMULATED, *ON_DEVICE]
        result = subprocess.run(
            [*first, ":", *broken],
            capture_output=True,
            env=support.environment(VENTRIS_EMULATED_DEVICES=2),
            timeout=600,
            check=False,
        )
        self.assertEqual(result.returncode, 69, result.stderr)
        report = json.loads(result.stdout)
        says = rf"^rank 1 on {os.uname().nodename} computes wrongly: step 2 in f32: the loss is "
        self.assertRegex(report["problems"][0], says)
        self.assertEqual([len(rank["faults"]) for rank in report["ranks"]], [0, 2])


if __name__ == "__main__":
    unittest.main()
