# SPDX-License-Identifier: Apache-2.0
"""ventris plan, compared with runs of ventris train."""

import json
import os
import unittest

import support

LARGE = ["--d-model", 256, "--d-ff", 1024, "--encoder-layers", 3, "--decoder-layers", 3, "--heads", 4]
BATCH = ["--batch-source-tokens", 1024, "--batch-target-tokens", 1024, "--logical-shards", 2, "--threads", 1]


class Plan(support.CommandLineTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.corpus = cls.prepare_demo()

    def plan(self, *options):
        return json.loads(self.succeed("plan", "--corpus", self.corpus, "--json", *options))

    def run_of(self, name, *options):
        words = ["--corpus", self.corpus, "--model-dir", self.path(name), "--json", *options]
        return json.loads(self.succeed("train", *words))

    @unittest.skipUnless(os.environ.get("VENTRIS_FAULTS"), "built with a sanitizer, which takes memory of its own")
    def test_memory_is_near_what_a_run_takes(self):
        options = [*BATCH, "--max-steps", 3, "--valid-every", 0, "--device", "cpu"]
        small = [*options, "--d-model", 16, "--d-ff", 16, "--encoder-layers", 1, "--decoder-layers", 1, "--heads", 2]
        large = [*options, *LARGE]
        planned, measured = [], []
        for name, words in (("small", small), ("large", large)):
            planned.append(self.plan(*words)["bytes_of_a_host"] / 2**20)
            measured.append(self.run_of(name, *words)["peak_memory_mib"])
        # A run touches activations for the rows that it has, and a step of few rows is less than was planned.
        more = (planned[1] - planned[0]) / (measured[1] - measured[0])
        self.assertGreater(more, 0.8, (planned, measured))
        self.assertLess(more, 1.6, (planned, measured))

    @unittest.skipUnless(os.environ.get("VENTRIS_FAULTS"), "built with a sanitizer, which takes memory of its own")
    def test_recomputed_layers_take_the_memory_that_is_planned_and_have_the_same_bits(self):
        words = [*LARGE[:4], "--encoder-layers", 5, "--decoder-layers", 5, "--max-steps", 2, "--save-every", 1, "--digest-every", 1]
        words += [*BATCH[:4], "--logical-shards", 1, "--threads", 1, "--valid-every", 0, "--device", "cpu"]
        planned, measured, digests = [], [], []
        for name, options in (("kept", ()), ("again", ("--recompute",))):
            planned.append(self.plan(*words, *options)["bytes_of_a_host"] / 2**20)
            measured.append(self.run_of(name, *words, *options)["peak_memory_mib"])
            lines = map(json.loads, self.read(self.path(name, "metrics.jsonl")).splitlines())
            digests.append([line["digest"] for line in lines if "digest" in line])
        self.assertEqual(digests[0], digests[1])
        less = (planned[0] - planned[1]) / (measured[0] - measured[1])
        self.assertGreater(less, 0.7, (planned, measured))
        self.assertLess(less, 1.6, (planned, measured))
        # A run may go on without it.
        words[words.index("--max-steps") + 1] = 3
        self.run_of("again", *words)

    def test_steps_and_checkpoints_are_those_of_a_run(self):
        options = [*support.TINY_MODEL, "--device", "cpu", "--max-epochs", 2, "--save-every", 0]
        plan = self.plan(*options)
        run = self.run_of("steps", *options)
        self.assertIn(run["step"] - plan["steps"], (-1, 0))
        size = os.path.getsize(run["last_checkpoint"])
        self.assertAlmostEqual(plan["checkpoint_bytes"], size, delta=16384)

    def test_a_table_for_people_and_nothing_written(self):
        text = self.succeed("plan", "--corpus", self.corpus, "--preset", "tiny", "--model-dir", self.path("new"))
        for words in ("parameters", "activations", "steps of an epoch", "a checkpoint", "disk"):
            self.assertIn(words, text.decode())
        self.assertFalse(os.path.exists(self.path("new")))

    def test_what_cannot_fit_is_refused_with_advice(self):
        words = ["--corpus", self.corpus, "--preset", "big"]
        device = ["--device", "cuda", "--device-memory", 8, "--host-memory", 100]
        result = support.run("plan", *words, *device)
        self.assertEqual(result.returncode, 78, result.stderr)
        self.assertIn(b"memory of a rank's CUDA device", result.stdout)
        self.assertRegex(result.stderr.decode(), r"error: a rank needs .* GiB on its CUDA device, which has 8.0 GiB: ")
        device[device.index(8)] = 0.5
        result = support.run("plan", *words, *device)
        self.assertEqual(result.returncode, 78, result.stderr)
        self.assertIn(b"on its CUDA device, which has 512.0 MiB: ", result.stderr)
        result = support.run("plan", *words, "--device", "cpu", "--host-memory", 2, "--json")
        self.assertEqual(result.returncode, 78, result.stderr)
        self.assertFalse(json.loads(result.stdout)["fits"])
        self.assertIn(b"--precision bf16", result.stderr)

    @unittest.skipUnless(support.EMULATED, "the emulated device was not built")
    def test_a_device_here_is_asked_for_its_memory(self):
        words = ["plan", "--corpus", self.corpus, "--preset", "tiny", "--device", "cuda"]
        text = self.succeed(*words, binary=support.EMULATED).decode()
        self.assertRegex(text, r"memory of a rank's CUDA device\n(.*\n)+  together .* of \d+\.\d [GM]iB\n")

    def test_the_step_of_several_ranks_is_predicted_from_that_of_one(self):
        words = [*support.TINY_MODEL, "--logical-shards", 8, "--device", "cpu", "--max-steps", 1000]
        words += ["--link", 1, "--latency", 500, "--step-ms", 90, "--fixed-ms", 10]
        alone = self.plan(*words)["predicted"]
        self.assertAlmostEqual(alone["step_ms"], 90)
        self.assertEqual(alone["exchange_ms"], 0)
        four = self.plan(*words, "--ranks", 4)["predicted"]
        self.assertAlmostEqual(four["compute_ms"], 30)
        self.assertAlmostEqual(four["step_ms"], 30 + four["exposed_ms"])
        self.assertGreater(four["exposed_ms"], 2 * 0.5)  # a bucket and the loss
        self.assertAlmostEqual(four["efficiency"], 90 / four["step_ms"] / 4)
        self.assertAlmostEqual(four["hours"], four["step_ms"] / 3600)
        text = self.succeed("plan", "--corpus", self.corpus, *words, "--ranks", 4).decode()
        self.assertRegex(text, r"\npredicted step +\d+\.?\d* ms  .*\npredicted efficiency +\d+ %.*\npredicted run +0\.0 h")
        self.assertNotIn("predicted", self.plan(*support.TINY_MODEL))

    def test_a_sentence_that_is_longer_than_the_shards_of_many_ranks_is_no_fault(self):
        lines = [f"{'word ' * (3 + i % 5)}{i}." for i in range(60)]
        for side in ("source", "target"):
            self.write(f"long.{side}", "\n".join([*lines, "a " * 700]) + "\n")
        corpus = self.path("long.h5")
        sides = [self.path(f"long.{side}") for side in ("source", "target")]
        self.succeed("prepare", "--train-sets", *sides, "--vocab-size", 40, "--max-length", 2000, "--output", corpus)
        words = ["--corpus", corpus, "--encoder-layers", 1, "--decoder-layers", 1, "--d-model", 16, "--d-ff", 32, "--heads", 2]
        words += ["--batch-source-tokens", 16384, "--batch-target-tokens", 16384, "--max-positions", 1024]
        words += ["--reduction", "reproducible", "--device", "cpu"]
        for ranks in (1, 9, 64, 1024):  # 32 shards of 512 tokens would not hold it
            plan = json.loads(self.succeed("plan", *words, "--ranks", ranks, "--host-memory", 1000, "--json"))
            self.assertEqual(plan["micro_batches"], 8 if ranks == 1 else 16)
        if support.MPIEXEC:
            once = ["--max-steps", 1, "--threads", 1, "--valid-every", 0, "--model-dir", self.path("long")]
            self.succeed("train", *words, *once, ranks=9)

    def test_wrong_options_are_refused(self):
        for option in ("--link", "--step-ms"):
            self.refuse(64, "plan", "--corpus", self.corpus, option, 50, says="a prediction needs both --step-ms")
        words = ["--link", 50, "--step-ms", 5, "--fixed-ms", 6]
        self.refuse(64, "plan", "--corpus", self.corpus, *words, says="--fixed-ms 6 is more than --step-ms 5")
        self.refuse(64, "plan", says="--corpus is required")
        self.refuse(64, "plan", "--corpus", self.corpus, "--ranks", 2, "--ranks-per-host", 4, says="--ranks 2")
        self.refuse(66, "plan", "--corpus", self.path("none.h5"), says="none.h5")
        self.refuse(66, "plan", "--corpus", self.corpus, "--init", self.path("none.h5"), says="none.h5")


if __name__ == "__main__":
    unittest.main()
