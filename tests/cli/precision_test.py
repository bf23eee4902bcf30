# SPDX-License-Identifier: Apache-2.0
"""--precision of train and plan: its default on each device, what a resumed run keeps, and tf32."""

import json
import os
import re
import subprocess
import unittest

import h5py

import support

MODEL = [
    *("--encoder-layers", 1, "--decoder-layers", 1, "--d-model", 16, "--d-ff", 32, "--heads", 2, "--warmup-steps", 20),
    *("--batch-source-tokens", 128, "--batch-target-tokens", 128, "--logical-shards", 1, "--threads", 1),
    *("--valid-every", 0, "--log-every", 1),
]
ON_CUDA = ("--device", "cuda")


class PrecisionTest(support.CommandLineTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.corpus = cls.prepare_demo(train_pairs=200, vocabulary=120)

    def words(self, name, steps, *options):
        return ["train", "--corpus", self.corpus, "--model-dir", self.path(name), *MODEL, "--max-steps", steps, *options]

    def run_to(self, name, steps, *options, **how):
        """The row of the start report on the precision, after training to that step."""
        result = support.run(*self.words(name, steps, *options), **how)
        self.assertEqual(result.returncode, 0, result.stderr.decode())
        (row,) = re.findall(r"^  precision +(\S.*)$", result.stderr.decode(), re.MULTILINE)
        return row

    def recorded(self, name):
        return json.loads(self.read(self.path(name, "config.json")))["precision"]

    def checkpoint(self, name, steps):
        return self.path(name, f"checkpoint-{steps:08d}.h5")

    def digest(self, name, steps):
        return json.loads(self.succeed("inspect", self.checkpoint(name, steps), "--json"))["parameter_digest"]

    def losses(self, name):
        lines = [json.loads(line) for line in self.read(self.path(name, "metrics.jsonl")).splitlines()]
        return [line["loss"] for line in lines if "loss" in line]


class OnTheCpu(PrecisionTest):
    def test_f32_is_the_default(self):
        self.assertEqual(self.run_to("default", 2, "--device", "cpu"), "f32, the default on the CPU")
        self.assertEqual(self.run_to("asked", 2, "--device", "cpu", "--precision", "f32"), "f32, as --precision says")
        self.assertEqual([self.recorded("default"), self.recorded("asked")], ["f32", "f32"])
        self.assertEqual(self.digest("default", 2), self.digest("asked", 2))

    def test_a_resumed_run_keeps_its_precision(self):
        bf16 = ("--device", "cpu", "--precision", "bf16")
        self.run_to("whole", 4, *bf16)
        self.run_to("parts", 2, *bf16)
        row = self.run_to("parts", 4, "--device", "cpu")
        self.assertEqual(row, "bf16, that of the checkpoint; a new run on the CPU would have f32")
        self.assertEqual(self.recorded("parts"), "bf16")
        self.assertEqual(self.digest("parts", 4), self.digest("whole", 4))
        says = "was written with --precision bf16, but this run has f32"
        self.refuse(78, *self.words("parts", 6, "--device", "cpu", "--precision", "f32"), says=says)

    def test_tf32_is_refused_before_anything_is_written(self):
        tf32 = ("--precision", "tf32", "--device", "cpu")
        says = ["--precision tf32 computes only with CUDA", "--device cuda", "--precision f32 or bf16"]
        self.refuse(64, *self.words("none", 2, *tf32), says=says)
        self.assertFalse(os.path.exists(self.path("none")))
        self.refuse(64, "plan", "--corpus", self.corpus, *tf32, says=says)
        config = json.loads(self.read(self.config_of_a_run("read")))
        config["precision"] = "tf32"
        path = self.write("tf32.json", json.dumps(config))
        folder = ("--model-dir", self.path("none"), "--resume", "auto", "--device", "cpu")
        self.refuse(64, "train", "--config", path, *folder, says=says[:2])

    def config_of_a_run(self, name):
        self.run_to(name, 1, "--device", "cpu")
        return self.path(name, "config.json")

    def test_the_recorded_precision_is_an_explicit_one_for_config(self):
        config = self.config_of_a_run("configured")
        self.assertEqual(self.run_to("again", 1, "--config", config), "f32, as --precision says")

    def test_a_plan_has_the_default_of_its_device(self):
        memory = ("--device-memory", 80, "--host-memory", 64)
        for device, expected in (("cpu", "f32"), ("cuda", "bf16")):
            words = ("plan", "--corpus", self.corpus, "--device", device, *memory, "--json")
            plan = json.loads(self.succeed(*words))
            self.assertEqual(plan["precision"], expected)
            self.assertEqual(any("bf16" in part["kind"] for part in plan["memory"]), expected == "bf16")
        tf32, f32 = (json.loads(self.succeed(*words, "--precision", name)) for name in ("tf32", "f32"))
        self.assertEqual(tf32.pop("precision"), "tf32")
        self.assertEqual(f32.pop("precision"), "f32")
        self.assertEqual(tf32, f32)

    @unittest.skipUnless(support.MPIEXEC, "built without MPI")
    def test_ranks_with_different_precisions_are_refused(self):
        first = support.command(*self.words("differing", 2, "--precision", "f32"), ranks=2)
        first[first.index("-np") + 1] = "1"
        second = ["-np", "1", support.BINARY, *map(str, self.words("differing", 2, "--precision", "bf16"))]
        result = subprocess.run([*first, ":", *second], capture_output=True, env=support.environment(), timeout=240, check=False)
        self.assertEqual(result.returncode, 76, result.stderr)
        self.assertRegex(result.stderr.decode(), r'option precision: rank 1 has "+bf16"+, rank 0 has "+f32"')


@unittest.skipUnless(support.EMULATED, "built without the emulated device")
class OnCuda(PrecisionTest):
    def run_on_cuda(self, name, steps, *options):
        variables = {"VENTRIS_EMULATED_DEVICES": 1}
        return self.run_to(name, steps, *ON_CUDA, *options, binary=support.EMULATED, variables=variables)

    def test_bf16_is_the_default(self):
        self.assertEqual(self.run_on_cuda("default", 1), "bf16, the default on CUDA")
        self.assertEqual(self.run_on_cuda("asked", 1, "--precision", "bf16"), "bf16, as --precision says")
        self.assertEqual(self.recorded("default"), "bf16")
        self.assertEqual(self.digest("default", 1), self.digest("asked", 1))

    def test_a_run_in_f32_stays_in_f32(self):
        self.run_on_cuda("whole", 2, "--precision", "f32")
        self.run_on_cuda("begun", 1, "--precision", "f32")
        row = self.run_on_cuda("begun", 2)
        self.assertEqual(row, "f32, that of the checkpoint; a new run on CUDA would have bf16")
        self.assertEqual(self.recorded("begun"), "f32")
        self.assertEqual(self.digest("begun", 2), self.digest("whole", 2))
        self.assertEqual(self.run_to("begun", 3, "--device", "cpu"), "f32, that of the checkpoint")

    def test_tf32_is_recorded_and_kept(self):
        row = self.run_on_cuda("tf32", 3, "--precision", "tf32")
        self.assertEqual(row, "tf32, as --precision says; TF32 in matrix products, f32 in attention and all else")
        self.assertEqual(self.recorded("tf32"), "tf32")
        self.run_on_cuda("f32", 3, "--precision", "f32")
        for tf32, f32 in zip(self.losses("tf32"), self.losses("f32"), strict=True):
            self.assertAlmostEqual(tf32 / f32, 1, delta=1e-3)
        self.assertNotEqual(self.digest("tf32", 3), self.digest("f32", 3))
        for name, others in (("tf32", "\nf32 "), ("f32", "tf32 ")):
            with h5py.File(self.checkpoint(name, 3)) as file:
                self.assertIn(f"precision: {name}\n", file.attrs["resume_signature"].decode())
                choices = file.attrs["product_choices"].decode()
            self.assertIn(f"\n{name} f32 ", choices)
            self.assertNotIn(others, choices)

        self.run_on_cuda("parts", 2, "--precision", "tf32")
        self.assertTrue(self.run_on_cuda("parts", 3).startswith("tf32, that of the checkpoint; a new run on CUDA would have bf16"))
        self.assertEqual(self.digest("parts", 3), self.digest("tf32", 3))
        says = ["--precision tf32, that of the checkpoint, computes only with CUDA", "another --model-dir"]
        self.refuse(64, *self.words("parts", 6, "--device", "cpu"), says=says)
        says = "was written with --precision tf32, but this run has bf16"
        self.refuse(78, *self.words("parts", 6, *ON_CUDA, "--precision", "bf16"), binary=support.EMULATED, says=says)

    def test_tf32_that_the_environment_forbids_is_told(self):
        for number, (precision, value, expected) in enumerate((("tf32", "0", 1), ("tf32", "1", 0), ("f32", "0", 0))):
            words = self.words(f"forbidden-{number}", 1, *ON_CUDA, "--precision", precision)
            variables = {"VENTRIS_EMULATED_DEVICES": 1, "NVIDIA_TF32_OVERRIDE": value}
            result = support.run(*words, binary=support.EMULATED, variables=variables)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(result.stderr.count(b"NVIDIA_TF32_OVERRIDE is 0"), expected, result.stderr)

    def test_the_profile_names_the_product_that_it_compares_with(self):
        words = self.words("profile", 4, *ON_CUDA, "--precision", "tf32", "--profile", "--json")
        result = json.loads(self.succeed(*words, binary=support.EMULATED, variables={"VENTRIS_EMULATED_DEVICES": 1}))
        self.assertEqual(result["profile"]["product_precision"], "tf32")


if __name__ == "__main__":
    unittest.main(verbosity=2)
