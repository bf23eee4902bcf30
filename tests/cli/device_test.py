# SPDX-License-Identifier: Apache-2.0
"""--device: what a program says without a CUDA device, and the program on emulated ones (tests/emulation)."""

import json
import os
import re
import subprocess
import unittest

import numpy

import support

# f32 and bf16 in tests/support/tolerance.h
ABSOLUTE, RELATIVE = 2e-5, 2e-4
BF16_ABSOLUTE, BF16_RELATIVE = 3e-2, 3e-2


class DeviceTest(support.RunTest):
    MODEL = [*support.TINIEST_MODEL, "--precision", "f32"]
    CORPUS = {"train_pairs": 200, "vocabulary": 120}

    def losses(self, name):
        return list(self.values(name, "loss").values())


class WithoutADevice(DeviceTest):
    """The ordinary program, blind to the devices that the machine may have."""

    BLIND = {"CUDA_VISIBLE_DEVICES": ""}

    def test_cuda_is_refused_with_the_reason(self):
        message = self.refuse(69, *self.train("none", "--device", "cuda"), variables=self.BLIND)
        self.assertRegex(message, r"--device cuda: .*(built without CUDA|driver)")
        self.assertIn("--device cpu", message)
        self.assertFalse(os.path.exists(self.path("none")))

    def test_auto_takes_the_cpu_and_says_why(self):
        result = support.run(*self.train("auto", "--max-steps", 2), variables=self.BLIND)
        message = result.stderr.decode()
        self.assertEqual(result.returncode, 0, message)
        built = b"CUDA: no\n" not in self.succeed("--version")
        says = "no CUDA device can be used (" if built else "this program was built without CUDA ("
        self.assertTrue(message.startswith(f"Computing on the CPU: {says}"), message)
        self.assertEqual(message.count("Computing on the CPU"), 1, message)
        # The text that a pipe translates gets no line about a device that the program cannot have.
        translate = ["translate", "--model", self.path("auto"), "--max-extra-length", 1]
        result = support.run(*translate, stdin=b"one\n", variables=self.BLIND)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr.count(b"Computing on the CPU"), int(built), result.stderr)

    def test_auto_refuses_the_cpu_where_slurm_gave_gpus(self):
        for variables, says in (
            ({"SLURM_JOB_ID": "7", "SLURM_GPUS_ON_NODE": "8"}, "SLURM_GPUS_ON_NODE=8"),
            ({"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "0"}, "SLURM_JOB_GPUS=0"),
        ):
            message = self.refuse(69, *self.train("gpus"), variables={**self.BLIND, **variables})
            self.assertIn(f"--device auto: the job has GPUs ({os.uname().nodename}: {says}) and cannot use them: ", message)
            self.assertRegex(message, r"(built without CUDA|driver).*\. Remove the cause, or give --device cpu")
            self.assertFalse(os.path.exists(self.path("gpus")))
        for variables in ({"SLURM_JOB_ID": "7"}, {"SLURM_GPUS_ON_NODE": "8"}):
            self.succeed(*self.train(f"cpu-{len(variables)}{next(iter(variables))}", "--max-steps", 1), variables={**self.BLIND, **variables})
        given = {**self.BLIND, "SLURM_JOB_ID": "7", "SLURM_GPUS_ON_NODE": "8"}
        self.succeed(*self.train("asked", "--max-steps", 1, "--device", "cpu"), variables=given)

    @unittest.skipUnless(support.MPIEXEC, "built without MPI")
    def test_auto_refuses_the_cpu_where_ranks_were_given_gpus(self):
        words = self.train("ranks")
        message = self.refuse(69, *words, ranks=2, variables={"CUDA_VISIBLE_DEVICES": "0,1"})
        self.assertRegex(message, r"--device auto: the job has GPUs \(rank 0 on \S+: CUDA_VISIBLE_DEVICES=0,1\) and cannot use them: rank 0 on ")
        self.assertEqual(message.count("error: "), 1, message)
        self.succeed(*words, "--max-steps", 1, ranks=2, variables=self.BLIND)

    @unittest.skipUnless(support.MPIEXEC, "built without MPI")
    def test_a_job_of_ranks_tells_it_once(self):
        words = self.train("none", "--device", "cuda")
        message = self.refuse(69, *words, ranks=2, variables=self.BLIND, says="--device cuda: rank 0 on ")
        self.assertEqual(message.count("error: "), 1, message)


class EmulatedDevice(DeviceTest):
    NAME = "emulated"

    @classmethod
    def setUpClass(cls):
        if not support.EMULATED and cls is EmulatedDevice:
            raise unittest.SkipTest("built without the emulated device")
        super().setUpClass()

    def run_on_device(self, *arguments, devices=1, variables=None, **options):
        variables = {"VENTRIS_EMULATED_DEVICES": devices, **(variables or {})}
        return support.run(*arguments, binary=support.EMULATED, variables=variables, **options)

    def succeed_on_device(self, *arguments, **options):
        result = self.run_on_device(*arguments, **options)
        self.assertEqual(result.returncode, 0, result.stderr.decode(errors="replace"))
        return result

    def refuse_on_device(self, code, *arguments, says=(), **options):
        result = self.run_on_device(*arguments, **options)
        message = result.stderr.decode(errors="replace")
        self.assertEqual(result.returncode, code, message)
        for words in [says] if isinstance(says, str) else says:
            self.assertIn(words, message)
        return message

    def assert_close_losses(self, got, expected, steps):
        got, expected = self.losses(got), self.losses(expected)
        self.assertEqual(len(got), steps)
        numpy.testing.assert_allclose(got, expected, RELATIVE, ABSOLUTE)
        self.assertLess(got[-1], got[0])

    def assert_equal_parameters(self, *files):
        """By digests, which the program computes: a machine with a GPU may lack HDF5."""
        first, second = (json.loads(self.succeed("inspect", file, "--json"))["parameter_digest"] for file in files)
        self.assertEqual(first, second)

    def test_training_has_the_losses_of_the_cpu_and_serves_every_command(self):
        steps = {"max_steps": 4, "save_every": 2, "valid_every": 4, "valid_max_sentences": 2, "valid_beam_size": 2, "ema": 0.5}
        self.succeed(*self.train("cpu", **steps, device="cpu"))
        result = self.succeed_on_device(*self.train("cuda", **steps, device="cuda"))
        self.assertIn(f"Computing on {self.NAME}", result.stderr.decode())
        self.assert_close_losses("cuda", "cpu", 4)
        for key in ("valid_loss", "valid_bleu"):
            self.assertAlmostEqual(self.values("cuda", key)[4], self.values("cpu", key)[4], delta=1e-3)
        self.succeed_on_device(*self.train("plain", "--no-cuda-graph", **steps, device="auto"))
        self.assert_equal_parameters(self.checkpoint("cuda", 4), self.checkpoint("plain", 4))
        newest = self.checkpoint("cuda", 4)
        model = ["--model", newest, "--threads", 1, "--max-extra-length", 5]
        lines, reference = (b"".join(self.read(self.demo_path(f"test.{side}")).splitlines(True)[:6]) for side in ("en", "de"))
        translate = ["translate", *model, "--beam-size", 2, "--n-best", 2]

        def hypotheses(text):
            return [(line.rsplit(" ||| ", 1)[0], float(line.rsplit(" ||| ", 1)[1])) for line in text.decode().splitlines()]

        expected = hypotheses(self.succeed(*translate, "--device", "cpu", stdin=lines))
        self.assertEqual(len(expected), 12)
        for rows in ((), ("--batch-rows", 1)):
            got = hypotheses(self.succeed_on_device(*translate, "--device", "cuda", *rows, stdin=lines).stdout)
            self.assertEqual([text for text, _ in got], [text for text, _ in expected])
            numpy.testing.assert_allclose([score for _, score in got], [score for _, score in expected], rtol=0, atol=1e-3)
        in_int8 = [*translate, "--precision", "int8"]
        auto = self.succeed_on_device(*in_int8, stdin=lines)
        self.assertEqual(auto.stdout, self.succeed(*in_int8, "--device", "cpu", stdin=lines))
        self.assertIn("Computing on the CPU: --precision int8", auto.stderr.decode())
        self.refuse_on_device(64, *in_int8, "--device", "cuda", stdin=lines, says="--precision int8 computes only on the CPU")
        texts = ["--source", self.write("few.en", lines), "--reference", self.write("few.de", reference)]
        evaluate = ["evaluate", *model, *texts, "--beam-size", 2, "--json", "--device"]
        on_cpu, on_device = (json.loads(text) for text in (self.succeed(*evaluate, "cpu"), self.succeed_on_device(*evaluate, "cuda").stdout))
        self.assertEqual({**on_device, "seconds": 0}, {**on_cpu, "seconds": 0})
        for command in (["average", "--model-dir", self.path("cuda"), "--last", 2], ["export", "--model", newest]):
            files = [self.path(f"{command[0]}-{name}.h5") for name in ("cpu", "emulated")]
            self.succeed(*command, "--output", files[0])
            self.succeed_on_device(*command, "--output", files[1])
            self.assert_equal_parameters(*files)
        # A run goes on on the other kind of device.
        self.succeed(*self.train("cuda", max_steps=6, device="cpu", ema=0.5))

    @unittest.skipUnless(support.MPIEXEC, "built without MPI")
    def test_two_ranks_have_the_losses_of_the_cpu(self):
        shards = {"max_steps": 4, "batch_source_tokens": 400, "batch_target_tokens": 400, "logical_shards": 3}
        self.succeed(*self.train("one", **shards, device="cpu"))
        result = self.succeed_on_device(*self.train("two", **shards, device="cuda"), ranks=2, devices=2)
        self.assertIn(b"each rank has its own device", result.stderr)
        self.assertNotIn(b"times as long as the median rank", result.stderr)
        self.assert_close_losses("two", "one", 4)
        self.succeed_on_device(*self.train("two-anew", "--no-cuda-graph", **shards, device="cuda"), ranks=2, devices=2)
        self.assert_equal_parameters(self.checkpoint("two", 4), self.checkpoint("two-anew", 4))

    @unittest.skipUnless(support.MPIEXEC, "built without MPI")
    def test_reproducible_sums_of_four_devices_have_the_bits_of_one_rank(self):
        if self.NAME != "emulated":
            self.skipTest("four ranks need four devices")
        options = {"max_steps": 3, "logical_shards": 4, "device": "cuda", "reduction": "reproducible", "batch_source_tokens": 400, "batch_target_tokens": 400}
        self.succeed_on_device(*self.train("alone", **options))
        self.succeed_on_device(*self.train("four", "--shard-optimizer", **options), ranks=4, devices=4)
        self.assert_equal_parameters(self.checkpoint("alone", 3), self.checkpoint("four", 3))

    @unittest.skipUnless(support.MPIEXEC, "built without MPI")
    def test_divergence_on_the_devices_ends_the_job_with_its_own_code(self):
        options = {"warmup_steps": 1, "learning_rate_scale": 1000000, "adam_epsilon": "1e-30", "beta2": 0.01, "log_every": 100, "max_steps": 40}
        says = ["training diverged", "10 steps in a row", "first seen in ", "at step "]
        message = self.refuse_on_device(77, *self.train("diverged", **options, device="cuda"), ranks=2, devices=2, says=says)
        self.assertGreaterEqual(message.count("is skipped: NaN or Inf"), 10, message)
        self.assertEqual(message.count("error: "), 1, message)

    def test_too_little_device_memory(self):
        large = {"d_model": 4096, "d_ff": 65536, "heads": 8, "encoder_layers": 8}
        message = self.refuse_on_device(69, *self.train("big", **large, device="cuda"))
        self.assertRegex(message, r"cannot allocate \d+ bytes .* MiB\) on device cuda for .+: .* MiB are free; ")
        self.assertRegex(message, r"--micro-batch-tokens|smaller model|--d-model")
        self.assertEqual(self.checkpoints("big"), [])

    @unittest.skipUnless(support.MPIEXEC, "built without MPI")
    def test_the_log_tells_the_rate_of_a_device_and_the_memory(self):
        def lines(name, ranks):
            words = self.train(name, "--max-steps", 2, "--device", "cuda", "--json")
            result = self.succeed_on_device(*words, ranks=ranks, devices=ranks)
            found = [json.loads(line) for line in self.read(self.path(name, "metrics.jsonl")).splitlines()]
            return [line for line in found if line["type"] == "interval"], result

        for ranks in (1, 2):
            if self.NAME != "emulated" and ranks > 1:
                break  # there may be one GPU
            intervals, result = lines(f"rate-{ranks}", ranks)
            self.assertEqual(len(intervals), 2)
            for line in intervals:
                self.assertGreater(line["device_memory_bytes"], 100000)
                self.assertGreater(line["model_flops_per_second"], 0)
            # Both intervals together are the whole run, whose rate is that of all ranks.
            seconds = [(line["target_tokens"] - before) / line["target_tokens_per_second"]
                       for line, before in zip(intervals, (0, intervals[0]["target_tokens"]))]  # fmt: skip
            flops = sum(line["model_flops_per_second"] * ranks * time for line, time in zip(intervals, seconds))
            whole = json.loads(result.stdout)["model_flops_per_second"]
            self.assertAlmostEqual(flops / sum(seconds) / whole, 1, delta=1e-6)
            if self.NAME == "emulated":
                self.assertRegex(result.stderr.decode(), r"target tokens/s  \d+\.\d GFLOP/s per GPU  \d+\.\d MiB used  \d")

    def test_a_profile_tells_the_phases_and_changes_no_bit(self):
        steps = ["--max-steps", 4, "--device", "cuda"]
        self.succeed_on_device(*self.train("unprofiled", *steps))
        result = self.succeed_on_device(*self.train("profiled", *steps, "--profile", "--json"))
        support.check_profile(self, result, steps=1)
        self.assert_equal_parameters(*(self.path(name, "checkpoint-00000004.h5") for name in ("unprofiled", "profiled")))

    @unittest.skipUnless(support.MPIEXEC, "built without MPI")
    def test_a_slow_device_is_named(self):
        if self.NAME != "emulated":
            self.skipTest("real devices are alike")
        slow = "rank=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}; export VENTRIS_EMULATED_WORK_US=$((1 + 9 * rank))"
        program = self.write("slow.sh", f'#!/bin/sh\n{slow}\nexec "{support.EMULATED}" "$@"\n')
        os.chmod(program, 0o700)
        words = self.train("slow", max_steps=5, device="cuda")
        message = self.told(*words, ranks=2, binary=program, variables={"VENTRIS_EMULATED_DEVICES": 2})
        told = re.findall(r"straggler: rank 1 on \S+ computes \d+\.\d times as long as the median rank", message)
        self.assertEqual(len(told), 5, message)

    @unittest.skipUnless(support.MPIEXEC, "built without MPI")
    def test_gradients_in_bf16_have_losses_close_to_those_of_f32(self):
        steps = ["--max-steps", 4, "--device", "cuda"]
        for name, graph in (("bf16", []), ("bf16-plain", ["--no-cuda-graph"])):
            words = self.train(name, *steps, *graph, "--gradient-dtype", "bf16")
            self.succeed_on_device(*words, ranks=2, devices=2)
        self.succeed_on_device(*self.train("f32", *steps), ranks=2, devices=2)
        self.assertNotEqual(self.losses("bf16"), self.losses("f32"))
        self.assertEqual(self.losses("bf16"), self.losses("bf16-plain"))
        numpy.testing.assert_allclose(self.losses("bf16"), self.losses("f32"), BF16_RELATIVE, BF16_ABSOLUTE)
        words = self.train("bf16", "--max-steps", 6, "--device", "cuda")
        self.refuse_on_device(78, *words, ranks=2, devices=2, says="--gradient-dtype bf16, but this run has f32")

    @unittest.skipUnless(support.MPIEXEC, "built without MPI")
    def test_two_ranks_do_not_share_a_device(self):
        words = self.train("shared")
        says = ["ranks 0 and 1 would share one CUDA device", "2 ranks", "1 CUDA device "]
        self.refuse_on_device(69, *words, "--device", "cuda", ranks=2, says=says)
        self.assertFalse(os.path.exists(self.path("shared")))
        message = self.refuse_on_device(69, *words, "--max-steps", 2, ranks=2, says=["--device auto: the job has GPUs (rank 0 on ", *says])
        self.assertIn("--device cpu", message)
        self.assertFalse(os.path.exists(self.path("shared")))

    def test_no_device(self):
        words = self.train("none", "--device", "cuda")
        self.refuse_on_device(69, *words, devices=0, says=["--device cuda", "no device"])
        result = self.succeed_on_device(*self.train("fallen", "--max-steps", 1), devices=0)
        self.assertTrue(result.stderr.startswith(b"Computing on the CPU: no CUDA device can be used (the driver finds no device; "), result.stderr)

    def test_a_device_that_cannot_be_used_is_refused_with_the_reason_and_auto_takes_the_cpu(self):
        for variables, says in (
            ({"VENTRIS_EMULATED_DRIVER": 12040}, "supports CUDA 12.4, but this program needs CUDA 13.0; install a"),
            ({"VENTRIS_EMULATED_DRIVER": 0}, "no NVIDIA driver is installed"),
            ({"VENTRIS_EMULATED_NO_KERNELS": 1}, "has compute capability 9.0, but this build has kernels only for "),
        ):
            with self.subTest(**variables):
                words = self.train("unusable", "--device", "cuda")
                self.refuse_on_device(69, *words, variables=variables, says=["--device cuda: ", says])
                self.assertFalse(os.path.exists(self.path("unusable")))
                words = self.train(f"auto-{len(says)}", "--max-steps", 1)
                result = self.succeed_on_device(*words, variables=variables)
                message = result.stderr.decode()
                self.assertRegex(message, rf"Computing on the CPU: no CUDA device can be used \(.*{says}")


def gpus():
    """How many GPUs the driver lists."""
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, check=True, timeout=600).stdout
    except (OSError, subprocess.SubprocessError):
        return 0
    return listed.count(b"GPU ")


class RealDevice(EmulatedDevice):
    """The same on GPUs, with the program that nvcc built."""

    NAME = "NVIDIA"

    @classmethod
    def setUpClass(cls):
        if b"CUDA: no\n" in support.run("--version").stdout:
            raise unittest.SkipTest("built without CUDA")
        if gpus() == 0:
            raise unittest.SkipTest("no CUDA device can be used: nvidia-smi lists none")
        super().setUpClass()

    def visible(self, devices):
        if devices > gpus():
            self.skipTest(f"{devices} GPUs are needed, and there are {gpus()}")
        return {"CUDA_VISIBLE_DEVICES": ",".join(map(str, range(devices)))}

    def run_on_device(self, *arguments, devices=1, variables=None, **options):
        return support.run(*arguments, variables={**self.visible(devices), **(variables or {})}, **options)

    def test_a_device_that_cannot_be_used_is_refused_with_the_reason_and_auto_takes_the_cpu(self):
        self.skipTest("this GPU can be used")

    def test_too_little_device_memory(self):
        self.skipTest("memory of GPUs differs; the emulated one is small")


if __name__ == "__main__":
    unittest.main(verbosity=2)
