# SPDX-License-Identifier: Apache-2.0
"""train --shard-optimizer: each rank has a part of Adam's state."""

import json
import os
import unittest

import support

# Some 400,000 parameters: several parts for each of four ranks.
MODEL = [*support.TINY_MODEL, "--d-model", 128, "--d-ff", 256, "--dropout", 0.3, "--attention-dropout", 0.1]


@unittest.skipUnless(support.MPIEXEC, "built without MPI")
class ShardOptimizer(support.CommandLineTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.corpus = cls.prepare_demo()

    def train(self, name, *options):
        words = (*MODEL, "--reduction", "reproducible", "--log-every", 1, "--clip-norm", 1, "--ema", 0.9,
                 "--weight-decay", 0.25, *options)
        settings = dict(zip(words[::2], words[1::2]))
        flat = [word for pair in settings.items() for word in pair]
        return ["train", "--corpus", self.corpus, "--model-dir", self.path(name), *flat]

    def contents(self, name, step):
        """All bits of a checkpoint, and its size."""
        path = self.path(name, f"checkpoint-{step:08d}.h5")
        return support.checkpoint_bits(path), os.path.getsize(path)

    def assert_same_checkpoints(self, got, expected, step):
        (contents, size), (wanted, wanted_size) = self.contents(got, step), self.contents(expected, step)
        self.assertEqual(contents.keys(), wanted.keys())
        self.assertGreater(len(contents), 40)
        for key, value in wanted.items():
            self.assertTrue(contents[key] == value, f"{got}: {key}")
        if "environment" in contents:
            self.assertAlmostEqual(size, wanted_size, delta=256)  # the command is longer

    def losses(self, name):
        lines = [json.loads(line) for line in self.read(self.path(name, "metrics.jsonl")).splitlines()]
        return [(line["step"], line["loss"], line["gradient_norm"]) for line in lines if "loss" in line]

    def test_checkpoints_are_those_of_a_whole_optimizer_on_any_ranks_and_after_any_resume(self):
        for precision in ("f32", "bf16"):
            with self.subTest(precision):
                options = ["--precision", precision, "--max-steps", 6, "--logical-shards", 8]
                self.succeed(*self.train(f"whole-{precision}", *options), ranks=2)
                for ranks in (2, 3):
                    name = f"{precision}-{ranks}"
                    self.succeed(*self.train(name, *options), "--shard-optimizer", ranks=ranks)
                    self.assert_same_checkpoints(name, f"whole-{precision}", 6)
                    self.assertEqual(self.losses(name), self.losses(f"whole-{precision}"))
                changing = f"{precision}-changing"
                for steps, ranks, words in ((2, 3, ["--shard-optimizer"]), (4, 2, []), (6, 2, ["--shard-optimizer"])):
                    self.succeed(*self.train(changing, *options, "--max-steps", steps), *words, ranks=ranks)
                self.assert_same_checkpoints(changing, f"whole-{precision}", 6)

    def test_one_rank_has_all(self):
        self.succeed(*self.train("whole", "--max-steps", 3))
        self.succeed(*self.train("one", "--max-steps", 3), "--shard-optimizer")
        self.assert_same_checkpoints("one", "whole", 3)

    @unittest.skipUnless(support.EMULATED, "the emulated device was not built")
    def test_devices_have_the_bits_of_devices_with_a_whole_optimizer(self):
        # The emulated NCCL adds in one order, as a sum for all ranks and as one for owners.
        for precision, reduction in (("f32", "reproducible"), ("bf16", "reproducible"), ("bf16", "fast")):
            options = ["--device", "cuda", "--precision", precision, "--max-steps", 3, "--logical-shards", 2]
            options += ["--reduction", reduction]
            name = f"{precision}-{reduction}"
            small = ["--batch-source-tokens", 128, "--batch-target-tokens", 128, "--encoder-layers", 1]
            small += ["--decoder-layers", 1]
            on = {"ranks": 2, "binary": support.EMULATED, "variables": {"VENTRIS_EMULATED_DEVICES": 2}}
            self.succeed(*self.train(f"whole-cuda-{name}", *options, *small), **on)
            self.succeed(*self.train(f"cuda-{name}", *options, *small), "--shard-optimizer", **on)
            self.assert_same_checkpoints(f"cuda-{name}", f"whole-cuda-{name}", 3)

    @unittest.skipUnless(os.environ.get("VENTRIS_FAULTS"), "built with a sanitizer, which takes memory of its own")
    def test_ranks_take_less_memory_as_planned(self):
        large = ["--d-model", 512, "--d-ff", 2048, "--encoder-layers", 1, "--decoder-layers", 1, "--heads", 4]
        options = [*large, "--reduction", "fast", "--ema", 0, "--max-steps", 1, "--logical-shards", 4]
        options += ["--batch-source-tokens", 256, "--batch-target-tokens", 256, "--save-every", 0, "--device", "cpu"]
        ranks = 4
        measured, planned = {}, {}
        for words in ([], ["--shard-optimizer"]):
            command = [*self.train(f"large{len(words)}", *options), *words]
            measured[len(words)] = json.loads(self.succeed(*command, "--json", ranks=ranks))["peak_memory_mib"]
            plan = json.loads(self.succeed("plan", *command[1:], "--ranks", ranks, "--json"))
            planned[len(words)] = plan["host_bytes_of_a_rank"] / 2**20
        less = ranks * (planned[0] - planned[1])
        self.assertGreater(less, 50)
        # MPI needs buffers of its own for the sums that go to all ranks.
        self.assertGreater(measured[0] - measured[1], 0.8 * less, (measured, planned))

    def test_gradients_in_bf16_are_refused(self):
        words = self.train("refused", "--reduction", "fast", "--gradient-dtype", "bf16")
        self.refuse(78, *words, "--shard-optimizer", says="f32 with --shard-optimizer")


if __name__ == "__main__":
    unittest.main()
