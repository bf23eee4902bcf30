# SPDX-License-Identifier: Apache-2.0
"""The algorithms of matrix products on CUDA: one choice for all ranks of a run, kept in its checkpoints."""

import os
import shutil
import unittest

import h5py

import support

MODEL = [*support.TINY_MODEL, "--d-model", 64, "--d-ff", 128, "--decoder-layers", 1, "--logical-shards", 2]
MODEL += ["--batch-source-tokens", 128, "--batch-target-tokens", 128, "--device", "cuda", "--reduction", "reproducible"]
MODEL += ["--precision", "f32"]


@unittest.skipUnless(support.MPIEXEC and support.EMULATED, "built without MPI, or without the emulated device")
class ProductChoices(support.CommandLineTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.corpus = cls.prepare_demo()

    def train(self, name, steps, ranks=2, timed=1):
        """Trains to a step, choosing by time; the choices in the checkpoint, and its parameters."""
        words = dict(zip(MODEL[::2], MODEL[1::2]))
        flat = [word for pair in words.items() for word in pair]
        variables = {"VENTRIS_EMULATED_DEVICES": ranks, "VENTRIS_TUNE_GEMM": timed}
        command = ["train", "--corpus", self.corpus, "--model-dir", self.path(name), *flat, "--max-steps", steps]
        self.succeed(*command, ranks=ranks, binary=support.EMULATED, variables=variables)
        path = self.path(name, f"checkpoint-{steps:08d}.h5")
        with h5py.File(path, "r") as file:
            return file.attrs["product_choices"].decode(), support.parameters(path)

    def test_a_run_keeps_its_choices_where_it_resumes(self):
        self.train("whole", 3)
        whole, expected = self.train("whole", 6, timed=0)
        chosen = set(whole.splitlines())
        self.assertGreater(len(chosen), 10)

        shutil.copytree(self.path("whole"), self.path("parts"))
        os.remove(self.path("parts", "checkpoint-00000006.h5"))
        later, parameters = self.train("parts", 6, ranks=1)
        # One rank sums shards that two ranks have apart: another set of shapes may occur, but none is chosen anew.
        # Only products that lost against those with sums, and so are no longer met, may be missing.
        kept = set(later.splitlines())
        self.assertEqual(kept - chosen, set())
        with_sums = {line.split("\t")[0].replace(" sums", "", 1) for line in kept if " sums " in line}
        self.assertEqual({line.split("\t")[0] for line in chosen - kept} - with_sums, set())
        for name, values in expected.items():
            self.assertTrue((parameters[name] == values).all(), name)


if __name__ == "__main__":
    unittest.main()
