# SPDX-License-Identifier: Apache-2.0
"""train --freeze: parameters that keep their values, without gradients, sums over ranks, and moments of Adam."""

import json
import unittest

import h5py
import numpy

import support

# What they freeze, as prefixes of names: whole tensors of both stacks, parts of fused tensors, and both.
CASES = {
    "encoder": (["encoder/*", "embedding"], ("encoder/", "embedding")),
    "parts": (
        ["/model/*/query/*", "decoder/layers/0/cross_attention/[kv]*", "*/gamma"],
        ("/query/", "decoder/layers/0/cross_attention/key", "decoder/layers/0/cross_attention/value", "/gamma"),
    ),
}


def is_frozen(name, case):
    return any(name.startswith(part) or (part.startswith("/") and part in name + "/") for part in CASES[case][1])


class Freeze(support.RunTest):
    MODEL = [*support.TINY_MODEL, "--reduction", "reproducible", "--log-every", 1]

    def train(self, name, *options, case=None, **settings):
        freeze = ("--freeze", *CASES[case][0]) if case else ()
        return super().train(name, *options, *freeze, **settings)

    def moments(self, name, step):
        found = support.datasets(self.checkpoint(name, step), "adam")
        return found["m"], found["v"]

    def check_moments(self, whole, frozen):
        """Those of what is trained are those of the whole; of the frozen they are zero."""
        for of_all, first in zip(whole, frozen, strict=True):
            trained = first != 0
            self.assertTrue(numpy.array_equal(first[trained], of_all[trained]))
            self.assertGreater(trained.sum(), 1000)
            self.assertGreater((of_all != 0).sum(), trained.sum())

    def assert_frozen(self, name, start, step, case):
        """Against the first checkpoint of `start`, frozen parameters have kept their bits, and the others have not."""
        before, after = support.parameters(self.checkpoint(start, 0)), support.parameters(self.checkpoint(name, step))
        kept = {parameter for parameter in before if is_frozen(parameter, case)}
        self.assertTrue(kept)
        for parameter, values in before.items():
            # The bias of keys has no gradient (model/linear.h).
            expected = parameter in kept or parameter.endswith("/key/bias")
            self.assertEqual(numpy.array_equal(after[parameter], values), expected, parameter)
        return kept

    def test_frozen_parameters_keep_their_bits_and_the_others_begin_as_without(self):
        for case in CASES:
            with self.subTest(case):
                self.succeed(*self.train(f"start-{case}", ema=0.9, max_steps=0))
                self.succeed(*self.train(f"whole-{case}", ema=0.9, max_steps=1))
                self.succeed(*self.train(case, ema=0.9, max_steps=1, case=case))
                # After a step they are those of its gradient.
                self.check_moments(self.moments(f"whole-{case}", 1), self.moments(case, 1))
                self.succeed(*self.train(case, ema=0.9, max_steps=10, case=case))
                kept = self.assert_frozen(case, f"start-{case}", 10, case)
                with h5py.File(self.checkpoint(case, 10), "r") as file:
                    for parameter in kept:
                        self.assertTrue(numpy.array_equal(file["ema"][parameter], file["model"][parameter]), parameter)
                    trained = "decoder/layers/1/feed_forward/inner/weight"
                    self.assertFalse(numpy.array_equal(file["ema"][trained], file["model"][trained]))
                self.assertEqual(json.loads(self.read(self.path(case, "config.json")))["freeze"], CASES[case][0])

    def test_any_ranks_owners_and_resumes_have_the_same_bits(self):
        for precision, case in zip(("f32", "bf16"), CASES, strict=True):
            with self.subTest(case, precision=precision):
                words = {"precision": precision, "logical_shards": 8, "clip_norm": 1, "ema": 0.9, "weight_decay": 0.25, "case": case}
                self.succeed(*self.train(f"{case}-1", **words, max_steps=6))
                for steps in (3, 6):
                    self.succeed(*self.train(f"{case}-resumed", **words, max_steps=steps))
                self.assert_same_checkpoints(f"{case}-resumed", f"{case}-1", 6)
                again = f"{case}-again"  # by the recorded options
                self.succeed("train", "--config", self.path(f"{case}-1", "config.json"), "--model-dir", self.path(again))
                self.assert_same_checkpoints(again, f"{case}-1", 6)
                for ranks, more in ((4, []), (3, ["--shard-optimizer"])) if support.MPIEXEC else ():
                    name = f"{case}-{ranks}"
                    self.succeed(*self.train(name, *more, **words, max_steps=6), ranks=ranks)
                    self.assert_same_checkpoints(name, f"{case}-1", 6)

    @unittest.skipUnless(support.EMULATED and support.MPIEXEC, "the emulated device was not built, or without MPI")
    def test_devices_keep_them_too(self):
        words = {"device": "cuda", "batch_source_tokens": 128, "batch_target_tokens": 128, "ema": 0.9, "logical_shards": 2}
        on = {"binary": support.EMULATED, "variables": {"VENTRIS_EMULATED_DEVICES": 2}}
        for precision, case in zip(("f32", "bf16"), CASES, strict=True):
            with self.subTest(case, precision=precision):
                name = f"cuda-{case}"
                self.succeed(*self.train(f"{name}-start", **words, precision=precision, max_steps=0), **on)
                self.succeed(*self.train(name, **words, precision=precision, max_steps=2, case=case), **on)
                self.assert_frozen(name, f"{name}-start", 2, case)
                shared = self.train(f"{name}-2", "--shard-optimizer", **words, precision=precision, max_steps=2, case=case)
                self.succeed(*shared, ranks=2, **on)
                self.assert_same_checkpoints(f"{name}-2", name, 2)

    def test_what_cannot_be_frozen_is_refused(self):
        for globs, says in (
            (["encoder/*", "embeding"], ["matches embeding", "embedding"]),
            (["*"], ["--freeze *", "no parameter to train"]),
        ):
            for command in ("train", "plan"):
                self.refuse(78, command, *self.train("refused", "--freeze", *globs)[1:], says=says)


if __name__ == "__main__":
    unittest.main(verbosity=2)
