# SPDX-License-Identifier: Apache-2.0
"""ventris doctor, alone and under mpirun."""

import json
import os
import resource
import shutil
import subprocess
import unittest

import support


class Doctor(support.CommandLineTest):
    def doctor(self, *options, code=0, **how):
        """The findings by what they check, and the whole report."""
        result = support.run("doctor", "--device", "cpu", "--json", *options, **how)
        self.assertEqual(result.returncode, code, result.stderr.decode() + result.stdout.decode())
        report = json.loads(result.stdout)
        self.assertEqual(report["fit"], code == 0)
        order = [found["severity"] for found in report["findings"]]
        self.assertEqual(order, sorted(order, key=["problem", "warning", "note", "fine"].index))
        return {found["check"]: found for found in report["findings"]}, report

    def test_one_process_looks_at_its_machine(self):
        findings, report = self.doctor()
        self.assertEqual(findings["hosts"]["finding"], "1 rank on 1 host")
        self.assertEqual(findings["folder"]["severity"], "note")
        self.assertEqual(report["ranks"][0]["host"], os.uname().nodename)
        self.assertEqual(report["ranks"][0]["cores"], len(os.sched_getaffinity(0)))
        self.assertNotIn("sums", findings)

    @unittest.skipUnless(support.MPIEXEC, "built without MPI")
    def test_a_launcher_of_another_mpi_is_a_problem(self):
        for variables in ({"PMI_RANK": 3, "PMI_SIZE": 16}, {"OMPI_COMM_WORLD_RANK": 3, "OMPI_COMM_WORLD_SIZE": 16}):
            says = ["the launcher started 16 processes, but each is alone", "MPI"]
            self.refuse(69, "doctor", "--device", "cpu", variables=variables, says=says)

    def test_the_page_ends_with_the_verdict(self):
        page = self.succeed("doctor", "--device", "cpu", "--model-dir", self.path("new")).decode()
        self.assertRegex(page, r"fine +folder +\S+new is one folder for all ranks; .* are free; rename, fsync and locks work\n")
        self.assertTrue(page.endswith("1 rank: fit to train\n"), page)
        self.assertLess(len(page.splitlines()), 40)

    def test_nothing_stays_of_what_was_written(self):
        self.doctor("--model-dir", self.path("made", "and", "removed"))
        self.assertFalse(os.path.exists(self.path("made")))
        os.mkdir(self.path("kept"))
        self.doctor("--model-dir", self.path("kept"))
        self.assertEqual(os.listdir(self.path("kept")), [])

    def test_a_folder_that_cannot_be_made_is_a_problem(self):
        place = os.path.join(self.write("a-file", "not a folder"), "run")
        findings, _ = self.doctor("--model-dir", place, code=69)
        self.assertEqual(findings["folder"]["severity"], "problem")
        self.assertIn("cannot create the folder", findings["folder"]["finding"])

    def test_a_limit_on_files_smaller_than_a_checkpoint_is_a_problem(self):
        words = support.command("doctor", "--device", "cpu", "--json")
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        result = subprocess.run(words, capture_output=True, preexec_fn=limit, check=False)
        self.assertEqual(result.returncode, 69, result.stderr)
        worst = json.loads(result.stdout)["findings"][0]
        self.assertEqual((worst["check"], worst["severity"]), ("file size", "problem"))
        self.assertIn("ulimit -f", worst["advice"])

    def test_a_device_that_is_wanted_and_missing_is_a_problem(self):
        result = support.run("doctor", "--device", "cuda", variables={"CUDA_VISIBLE_DEVICES": "-1"})
        self.assertEqual(result.returncode, 69, result.stderr)
        self.assertRegex(result.stdout.decode(), r"\Aproblem +device +")

    @unittest.skipUnless(support.MPIEXEC, "built without MPI")
    def test_two_ranks_sum_and_share_the_folder(self):
        findings, report = self.doctor("--model-dir", self.path("two"), ranks=2)
        self.assertEqual(findings["hosts"]["finding"], "2 ranks on 1 host")
        self.assertIn("thread level MPI_THREAD_", findings["MPI"]["finding"])
        self.assertRegex(findings["sums"]["finding"], r"right; .*/s in and out of a rank, \d+ us for one number")
        self.assertIn("is one folder for all ranks", findings["folder"]["finding"])
        self.assertEqual([rank["local_rank"] for rank in report["ranks"]], [0, 1])
        self.assertLess(abs(report["ranks"][1]["clock_ahead"]), 5)
        self.assertGreater(report["sum_bytes_per_second"], 0)

    @unittest.skipUnless(support.EMULATED, "the emulated device was not built")
    def test_sums_on_a_device_are_checked(self):
        result = support.run("doctor", "--device", "cuda", "--preset", "tiny", "--json", binary=support.EMULATED)
        self.assertEqual(result.returncode, 0, result.stderr)
        device = next(found for found in json.loads(result.stdout)["findings"] if found["check"] == "device")
        self.assertRegex(device["finding"], r"^emulated, 4 multiprocessors, 4\.0 GiB, driver (\S+ )?for CUDA 13\.0, NCCL (\d+\.\d+\.\d+|no)$")

    @unittest.skipUnless(support.EMULATED and support.MPIEXEC, "the emulated device was not built")
    def test_links_and_cores_of_devices_are_told(self):
        def findings(**variables):
            words = ("doctor", "--device", "cuda", "--preset", "tiny", "--json")
            devices = {"VENTRIS_EMULATED_DEVICES": 2, **variables}
            result = support.run(*words, ranks=2, binary=support.EMULATED, variables=devices)
            self.assertEqual(result.returncode, 0, result.stderr)
            return [(one["severity"], one["check"], one["finding"]) for one in json.loads(result.stdout)["findings"]]

        found = findings()
        self.assertIn(("fine", "links", "2 GPUs, all pairs on one host reach each other directly"), found)
        cores = len(os.sched_getaffinity(0)) // 2
        few = f"rank 0 on {os.uname().nodename} has {max(cores, 1)} core{'s' * (cores > 1)}; a rank with a GPU needs 4 or more (2 ranks have fewer)"
        self.assertEqual(("warning", "cores", few) in found, cores < 4, found)
        apart = f"the GPUs of ranks 0 and 1 on {os.uname().nodename} do not reach each other directly"
        self.assertIn(("warning", "links", apart), findings(VENTRIS_EMULATED_NO_PEERS=1))

    def test_gpus_of_a_job_that_it_cannot_use_are_a_problem(self):
        given = {"SLURM_JOB_ID": 7, "SLURM_GPUS_ON_NODE": 8}
        result = support.run("doctor", variables=given)
        self.assertEqual(result.returncode, 69, result.stderr)
        says = rf"\Aproblem +device +the job has GPUs \({os.uname().nodename}: SLURM_GPUS_ON_NODE=8\) and cannot use them: "
        self.assertRegex(result.stdout.decode(), says)

    @unittest.skipUnless(support.EMULATED and support.MPIEXEC, "the emulated device was not built")
    def test_a_device_that_computes_wrongly_is_told_with_rank_and_host(self):
        words = ("doctor", "--device", "cuda", "--preset", "tiny", "--json")
        first = support.command(*words, ranks=2, binary=support.EMULATED)
        first[first.index("-np") + 1] = "1"
        broken = ["-np", "1", "-x", "VENTRIS_EMULATED_IDLE_KERNELS=adam_step", support.EMULATED, *words]
        result = subprocess.run(
            [*first, ":", *broken],
            capture_output=True,
            env=support.environment(VENTRIS_EMULATED_DEVICES=2),
            timeout=240,
            check=False,
        )
        self.assertEqual(result.returncode, 69, result.stderr)
        report = json.loads(result.stdout)
        worst = report["findings"][0]
        self.assertEqual((worst["severity"], worst["check"]), ("problem", "steps"), worst)
        self.assertRegex(worst["finding"], rf"^rank 1 on {os.uname().nodename} computes wrongly: step 2 in f32: the loss is ")
        self.assertEqual([len(rank["wrong_steps"]) for rank in report["ranks"]], [0, 2])

    def test_a_small_and_a_read_only_disk_are_told(self):
        if os.geteuid() != 0 or shutil.which("unshare") is None:
            self.skipTest("only root can mount a small file system")
        folder = self.path("disk")
        os.mkdir(folder)
        for options, code, severity in (("size=4m", 0, "warning"), ("size=4m,ro", 69, "problem")):
            script = f'mount -t tmpfs -o {options} none {folder} && exec "$@"'
            words = support.command("doctor", "--device", "cpu", "--json", "--model-dir", folder)
            result = subprocess.run(
                ["unshare", "--mount", "sh", "-c", script, "sh", *words], capture_output=True, check=False
            )
            if b"mount:" in result.stderr or b"unshare:" in result.stderr:
                self.skipTest(f"cannot mount here: {result.stderr.decode()}")
            self.assertEqual(result.returncode, code, result.stderr)
            worst = json.loads(result.stdout)["findings"][0]
            self.assertEqual(worst["severity"], severity, worst)
            self.assertIn(folder, worst["finding"])


if __name__ == "__main__":
    unittest.main()
