# SPDX-License-Identifier: Apache-2.0
"""The algorithms of matrix products on CUDA: one choice for all ranks of a run, kept in its checkpoints."""

import os
import shutil
import unittest

import h5py

import support


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
    unittest.main()
