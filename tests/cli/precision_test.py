# SPDX-License-Identifier: Apache-2.0
"""--precision of train and plan: its default on each device, what a resumed run keeps, and tf32; the algorithms of matrix products on
CUDA: one choice for all ranks of a run, kept in its checkpoints."""

import json
import os
import re
import shutil
import unittest

import h5py

import support


class PrecisionTest(support.RunTest):
    MODEL = support.later_win(*support.TINIEST_MODEL, "--batch-source-tokens", 128, "--batch-target-tokens", 128, "--logical-shards", 1)
    CORPUS = {"train_pairs": 200, "vocabulary": 120}
    DEVICE = "cpu"
    PROGRAM = {}

    def run_to(self, name, steps, **settings):
        """The row of the start report on the precision, after training to that step."""
        said = self.told(*self.train(name, max_steps=steps, device=self.DEVICE, **settings), **self.PROGRAM)
        (row,) = re.findall(r"^  precision +(\S.*)$", said, re.MULTILINE)
        return row

    def recorded(self, name):
        return json.loads(self.read(self.path(name, "config.json")))["precision"]


class OnTheCpu(PrecisionTest):
    def test_f32_is_the_default_and_a_resumed_run_keeps_its_precision(self):
        self.assertEqual(self.run_to("default", 2), "f32, the default on the CPU")
        self.assertEqual(self.run_to("asked", 2, precision="f32"), "f32, as --precision says")
        self.assertEqual([self.recorded("default"), self.recorded("asked")], ["f32", "f32"])
        self.assert_same_parameters("default", "asked", 2)
        self.run_to("whole", 4, precision="bf16")
        self.run_to("parts", 2, precision="bf16")
        self.assertEqual(self.run_to("parts", 4), "bf16, that of the checkpoint; a new run on the CPU would have f32")
        self.assertEqual(self.recorded("parts"), "bf16")
        self.assert_same_parameters("parts", "whole", 4)

    def test_tf32_is_refused_before_anything_is_written(self):
        says = ["--precision tf32 computes only with CUDA", "--device cuda", "--precision f32 or bf16"]
        self.refuse(64, *self.train("none", precision="tf32", device="cpu"), says=says)
        self.assertFalse(os.path.exists(self.path("none")))
        self.refuse(64, "plan", "--corpus", self.corpus, "--precision", "tf32", "--device", "cpu", says=says)


@unittest.skipUnless(support.EMULATED, "built without the emulated device")
class OnCuda(PrecisionTest):
    DEVICE = "cuda"
    PROGRAM = {"binary": support.EMULATED, "variables": {"VENTRIS_EMULATED_DEVICES": 1}}

    def test_bf16_is_the_default_and_a_run_in_f32_stays_in_f32(self):
        self.assertEqual(self.run_to("default", 1), "bf16, the default on CUDA")
        self.assertEqual(self.recorded("default"), "bf16")
        self.run_to("whole", 2, precision="f32")
        self.run_to("begun", 1, precision="f32")
        self.assertEqual(self.run_to("begun", 2), "f32, that of the checkpoint; a new run on CUDA would have bf16")
        self.assertEqual(self.recorded("begun"), "f32")
        self.assert_same_parameters("begun", "whole", 2)

    def test_tf32_is_recorded_and_kept(self):
        row = self.run_to("tf32", 3, precision="tf32")
        self.assertEqual(row, "tf32, as --precision says; TF32 in matrix products, f32 in attention and all else")
        self.assertEqual(self.recorded("tf32"), "tf32")
        self.run_to("f32", 3, precision="f32")
        tf32, f32 = (self.values(name, "loss") for name in ("tf32", "f32"))
        self.assertNotEqual(tf32, f32)
        for step, loss in f32.items():
            self.assertAlmostEqual(tf32[step] / loss, 1, delta=1e-3)
        for name, others in (("tf32", "\nf32 "), ("f32", "tf32 ")):
            with h5py.File(self.checkpoint(name, 3)) as file:
                self.assertIn(f"precision: {name}\n", file.attrs["resume_signature"].decode())
                choices = file.attrs["product_choices"].decode()
            self.assertIn(f"\n{name} f32 ", choices)
            self.assertNotIn(others, choices)
        self.run_to("parts", 2, precision="tf32")
        self.assertTrue(self.run_to("parts", 3).startswith("tf32, that of the checkpoint; a new run on CUDA would have bf16"))
        self.assert_same_parameters("parts", "tf32", 3)
        says = ["--precision tf32, that of the checkpoint, computes only with CUDA", "another --model-dir"]
        self.refuse(64, *self.train("parts", max_steps=6, device="cpu"), says=says)


@unittest.skipUnless(support.MPIEXEC and support.EMULATED, "built without MPI, or without the emulated device")
class ProductChoices(support.RunTest):
    MODEL = [
        *(*support.TINY_MODEL, "--d-model", 64, "--d-ff", 128, "--decoder-layers", 1, "--logical-shards", 2, "--precision", "f32"),
        *("--batch-source-tokens", 128, "--batch-target-tokens", 128, "--device", "cuda", "--reduction", "reproducible"),
    ]

    def choices(self, name, steps, ranks=2, timed=1):
        """Trains to a step, choosing by time; the choices in the checkpoint."""
        variables = {"VENTRIS_EMULATED_DEVICES": ranks, "VENTRIS_TUNE_GEMM": timed}
        self.succeed(*self.train(name, max_steps=steps), ranks=ranks, binary=support.EMULATED, variables=variables)
        with h5py.File(self.checkpoint(name, steps), "r") as file:
            return set(file.attrs["product_choices"].decode().splitlines())

    def test_a_run_keeps_its_choices_where_it_resumes(self):
        self.choices("whole", 3)
        chosen = self.choices("whole", 6, timed=0)
        self.assertGreater(len(chosen), 10)
        shutil.copytree(self.path("whole"), self.path("parts"))
        os.remove(self.checkpoint("parts", 6))
        # One rank sums shards that two ranks have apart: another set of shapes may occur, but none is chosen anew.
        # Only products that lost against those with sums, and so are no longer met, may be missing.
        kept = self.choices("parts", 6, ranks=1)
        self.assertEqual(kept - chosen, set())
        with_sums = {line.split("\t")[0].replace(" sums", "", 1) for line in kept if " sums " in line}
        self.assertEqual({line.split("\t")[0] for line in chosen - kept} - with_sums, set())
        self.assert_same_parameters("parts", "whole", 6)


if __name__ == "__main__":
    unittest.main(verbosity=2)
