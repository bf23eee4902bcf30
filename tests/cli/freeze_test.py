# SPDX-License-Identifier: Apache-2.0
"""train --freeze: parameters that keep their values, without gradients, sums over ranks, and moments of Adam."""

import json
import os
import unittest

import h5py
import numpy

import support

STEPS = 20
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


class Freeze(support.CommandLineTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.model = cls.train_demo(4)
        cls.corpus = os.path.join(cls.folder, "corpus.h5")

    def train(self, name, *options, case=None):
        words = (*support.TINY_MODEL, "--reduction", "reproducible", "--log-every", 1, *options)
        settings = dict(zip(words[::2], words[1::2]))
        flat = [word for pair in settings.items() for word in pair]
        freeze = ["--freeze", *CASES[case][0]] if case else []
        return ["train", "--corpus", self.corpus, "--model-dir", self.path(name), *flat, *freeze]

    def file(self, name, step):
        return self.path(name, f"checkpoint-{step:08d}.h5")

    def assert_same_checkpoints(self, got, expected, step):
        contents = support.checkpoint_bits(self.file(got, step))
        wanted = support.checkpoint_bits(self.file(expected, step))
        self.assertEqual(contents.keys(), wanted.keys())
        for key, value in wanted.items():
            self.assertTrue(contents[key] == value, f"{got}: {key}")

    def moments(self, name, step):
        with h5py.File(self.file(name, step), "r") as file:
            return file["adam/m"][()], file["adam/v"][()]

    def assert_frozen(self, name, start, step, case):
        """Against the first checkpoint of `start`, frozen parameters have kept their bits, and the others have not."""
        before, after = support.parameters(self.file(start, 0)), support.parameters(self.file(name, step))
        kept = {parameter for parameter in before if is_frozen(parameter, case)}
        self.assertTrue(kept)
        for parameter, values in before.items():
            same = numpy.array_equal(after[parameter], values)
            # The bias of keys has no gradient (model/linear.h).
            expected = parameter in kept or parameter.endswith("/key/bias")
            self.assertEqual(same, expected, parameter)
        return kept

    def test_frozen_parameters_keep_their_bits_and_the_others_begin_as_without(self):
        for case in CASES:
            with self.subTest(case):
                ema = ("--ema", 0.9)
                self.succeed(*self.train(f"start-{case}", *ema, "--max-steps", 0))
                self.succeed(*self.train(f"whole-{case}", *ema, "--max-steps", 1))
                result = support.run(*self.train(f"first-{case}", *ema, "--max-steps", 1, case=case))
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertRegex(result.stderr.decode(), r"\n +frozen +[0-9,]+ of the parameters: ")
                # Adam's moments after a step are those of its gradient; in the file by declaration, zero for the frozen.
                for whole, first in zip(self.moments(f"whole-{case}", 1), self.moments(f"first-{case}", 1)):
                    self.assertEqual(whole.shape, first.shape)
                    trained = first != 0
                    self.assertTrue(numpy.array_equal(first[trained], whole[trained]))
                    self.assertGreater(trained.sum(), 1000)
                    self.assertGreater((whole != 0).sum(), trained.sum())
                options = (*ema, "--max-steps", STEPS, "--digest-every", 5, "--save-every", 10)
                self.succeed(*self.train(case, *options, case=case))
                kept = self.assert_frozen(case, f"start-{case}", STEPS, case)
                with h5py.File(self.file(case, STEPS), "r") as file:
                    for parameter in kept:
                        self.assertTrue(numpy.array_equal(file["ema"][parameter], file["model"][parameter]), parameter)
                    self.assertFalse(numpy.array_equal(file["ema/decoder/layers/1/feed_forward/inner/weight"],
                                                       file["model/decoder/layers/1/feed_forward/inner/weight"]))  # fmt: skip
                recorded = json.loads(self.read(self.path(case, "config.json")))
                self.assertEqual(recorded["freeze"], CASES[case][0])
                self.assertEqual(json.loads(self.read(self.path(f"whole-{case}", "config.json")))["freeze"], [])

    def test_any_ranks_owners_and_resumes_have_the_same_bits(self):
        for precision in ("f32", "bf16"):
            for case in CASES:
                with self.subTest(case, precision=precision):
                    words = ("--precision", precision, "--logical-shards", 8, "--clip-norm", 1, "--ema", 0.9, "--weight-decay", 0.25)
                    one = f"{case}-{precision}-1"
                    self.succeed(*self.train(f"{one}-start", *words, "--max-steps", 0))
                    self.succeed(*self.train(one, *words, "--max-steps", 6, case=case))
                    self.assert_frozen(one, f"{one}-start", 6, case)
                    resumed = f"{case}-{precision}-resumed"
                    self.succeed(*self.train(resumed, *words, "--max-steps", 3, case=case))
                    self.succeed(*self.train(resumed, *words, "--max-steps", 6, case=case))
                    self.assert_same_checkpoints(resumed, one, 6)
                    again = f"{case}-{precision}-again"  # by the recorded options
                    self.succeed("train", "--config", self.path(one, "config.json"), "--model-dir", self.path(again))
                    self.assert_same_checkpoints(again, one, 6)
                    if not support.MPIEXEC:
                        continue
                    for ranks, more in ((4, []), (3, ["--shard-optimizer"])):
                        name = f"{case}-{precision}-{ranks}-{len(more)}"
                        self.succeed(*self.train(name, *words, "--max-steps", 6, case=case), *more, ranks=ranks)
                        self.assert_same_checkpoints(name, one, 6)

    @unittest.skipUnless(support.EMULATED, "the emulated device was not built")
    def test_devices_keep_them_too(self):
        small = ("--device", "cuda", "--batch-source-tokens", 128, "--batch-target-tokens", 128, "--ema", 0.9)
        on = {"binary": support.EMULATED, "variables": {"VENTRIS_EMULATED_DEVICES": 2}}
        for precision, case in zip(("f32", "bf16"), CASES, strict=True):
            with self.subTest(case, precision=precision):
                words = (*small, "--precision", precision, "--logical-shards", 2)
                name = f"cuda-{case}-{precision}"
                self.succeed(*self.train(f"{name}-start", *words, "--max-steps", 0), **on)
                self.succeed(*self.train(name, *words, "--max-steps", 3, case=case), **on)
                self.assert_frozen(name, f"{name}-start", 3, case)
                if not support.MPIEXEC:
                    continue
                for more in ([], ["--shard-optimizer"]):
                    ranks = f"{name}-2-{len(more)}"
                    self.succeed(*self.train(ranks, *words, "--max-steps", 3, case=case), *more, ranks=2, **on)
                    self.assert_same_checkpoints(ranks, name, 3)

    def test_moments_that_are_kept_are_those_of_what_is_trained(self):
        self.succeed(*self.train("kept", "--init", self.model, "--init-optimizer", "keep", "--max-steps", 0,
                                 case="encoder"))  # fmt: skip
        theirs, ours = self.moments("model", 4), self.moments("kept", 0)
        for whole, kept in zip(theirs, ours):
            trained = kept != 0
            self.assertTrue(numpy.array_equal(kept[trained], whole[trained]))
            self.assertGreater(trained.sum(), 1000)
            self.assertGreater((whole != 0).sum(), trained.sum())

    def test_a_plan_has_less_memory(self):
        plans = {}
        for case in (None, "encoder"):
            words = self.train("planned", "--ema", 0.9, case=case)
            plans[case] = json.loads(self.succeed("plan", *words[1:], "--ranks", 2, "--json"))
        self.assertEqual(plans[None]["frozen_parameters"], 0)
        frozen = sum(
            values.size for name, values in support.parameters(self.file("model", 4)).items() if is_frozen(name, "encoder")
        )
        self.assertEqual(plans["encoder"]["frozen_parameters"], frozen)
        memory = {case: {part["kind"]: part["bytes"] for part in plan["memory"]} for case, plan in plans.items()}
        self.assertEqual(memory["encoder"]["parameters"], memory[None]["parameters"])
        less = memory[None]["gradients"] - memory["encoder"]["gradients"]
        self.assertGreaterEqual(less, 4 * frozen)
        self.assertLess(less, 5 * frozen)  # rows that pad the embedding
        state = "Adam's moments and the average"
        self.assertEqual(memory[None][state] - memory["encoder"][state], 3 * less)

    def test_what_cannot_be_frozen_is_refused(self):
        for globs, says in (
            (["encoder/layer/*"], ["encoder/layer/*", "encoder/layers/0/", "ventris inspect"]),
            (["encoder/*", "embeding"], ["matches embeding", "embedding"]),
            (["*/gama"], ["*/gama", "/gamma"]),
            (["*"], ["--freeze *", "no parameter to train"]),
        ):
            for command in ("train", "plan"):
                words = self.train("refused")[1:]
                self.refuse(78, command, *words, "--freeze", *globs, says=says)
        self.succeed(*self.train("other", "--max-steps", 1, case="encoder"))
        for case, says in ((None, "this run has none"), ("parts", "this run has /model/*/query/*")):
            self.refuse(78, *self.train("other", "--max-steps", 2, case=case),
                        says=["--freeze encoder/* embedding", says])  # fmt: skip
        self.succeed(*self.train("other", "--max-steps", 2, case="encoder"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
