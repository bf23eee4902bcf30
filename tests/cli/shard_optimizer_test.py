# SPDX-License-Identifier: Apache-2.0
"""train --shard-optimizer: each rank has a part of Adam's state."""

import json
import os
import unittest

import support

SHARDED = "--shard-optimizer"


@unittest.skipUnless(support.MPIEXEC, "built without MPI")
class ShardOptimizer(support.RunTest):
    # Some 400,000 parameters: several parts for each of four ranks.
    MODEL = [
        *(*support.TINY_MODEL, "--d-model", 128, "--d-ff", 256, "--dropout", 0.3, "--attention-dropout", 0.1),
        *("--reduction", "reproducible", "--log-every", 1, "--clip-norm", 1, "--ema", 0.9, "--weight-decay", 0.25),
    ]

    def losses(self, name):
        return self.values(name, "loss"), self.values(name, "gradient_norm")

    def test_checkpoints_are_those_of_a_whole_optimizer_on_any_ranks_and_after_any_resume(self):
        for precision in ("f32", "bf16"):
            with self.subTest(precision):
                options = {"precision": precision, "logical_shards": 6}
                whole = f"whole-{precision}"
                self.succeed(*self.train(whole, **options, max_steps=4), ranks=2)
                name = f"{precision}-3"
                self.succeed(*self.train(name, SHARDED, **options, max_steps=4), ranks=3)
                self.assert_same_checkpoints(name, whole, 4)
                self.assertEqual(self.losses(name), self.losses(whole))
                self.assertAlmostEqual(*(os.path.getsize(self.checkpoint(run, 4)) for run in (name, whole)), delta=256)  # the command is longer
                name = f"{precision}-changing"
                for steps, ranks, words in ((1, 1, [SHARDED]), (2, 2, []), (4, 2, [SHARDED])):
                    self.succeed(*self.train(name, *words, **options, max_steps=steps), ranks=ranks)
                self.assert_same_checkpoints(name, whole, 4)

    @unittest.skipUnless(support.EMULATED, "the emulated device was not built")
    def test_devices_have_the_bits_of_devices_with_a_whole_optimizer(self):
        # The emulated NCCL adds in one order, as a sum for all ranks and as one for owners.
        small = {"batch_source_tokens": 128, "batch_target_tokens": 128, "encoder_layers": 1, "decoder_layers": 1}
        on = {"ranks": 2, "binary": support.EMULATED, "variables": {"VENTRIS_EMULATED_DEVICES": 2}}
        for precision, reduction in (("f32", "reproducible"), ("bf16", "fast")):
            options = {"device": "cuda", "precision": precision, "max_steps": 2, "logical_shards": 2, "reduction": reduction, **small}
            self.succeed(*self.train(f"whole-cuda-{precision}", **options), **on)
            self.succeed(*self.train(f"cuda-{precision}", SHARDED, **options), **on)
            self.assert_same_checkpoints(f"cuda-{precision}", f"whole-cuda-{precision}", 2)

    @unittest.skipUnless(os.environ.get("VENTRIS_FAULTS"), "built with a sanitizer, which takes memory of its own")
    def test_ranks_take_less_memory_as_planned(self):
        options = {
            **{"d_model": 512, "d_ff": 2048, "encoder_layers": 1, "decoder_layers": 1, "heads": 4, "reduction": "fast", "ema": 0},
            **{"max_steps": 1, "logical_shards": 4, "batch_source_tokens": 256, "batch_target_tokens": 256, "save_every": 0, "device": "cpu"},
        }
        ranks = 4
        measured, planned = [], []
        for words in ([], [SHARDED]):
            command = self.train(f"large{len(words)}", *words, **options)
            measured.append(json.loads(self.succeed(*command, "--json", ranks=ranks))["peak_memory_mib"])
            planned.append(json.loads(self.succeed("plan", *command[1:], "--ranks", ranks, "--json"))["host_bytes_of_a_rank"] / 2**20)
        less = ranks * (planned[0] - planned[1])
        self.assertGreater(less, 50)
        # MPI needs buffers of its own for the sums that go to all ranks.
        self.assertGreater(measured[0] - measured[1], 0.8 * less, (measured, planned))

    def test_gradients_in_bf16_are_refused(self):
        words = self.train("refused", SHARDED, reduction="fast", gradient_dtype="bf16")
        self.refuse(78, *words, says="f32 with --shard-optimizer")


if __name__ == "__main__":
    unittest.main()
