# SPDX-License-Identifier: Apache-2.0
"""Runs that were stopped anywhere and went on have the digests of runs that were not; what is not resumed."""

import glob
import json
import os
import signal
import unittest

import support
from digest_test import DigestTest

LAST = 12  # an epoch and a half of the corpus
BF16 = {"precision": "bf16"}


class Resume(DigestTest):
    def run_to(self, name, step, **options):
        self.succeed(*self.train(name, max_steps=step, digest_every=1, **options))

    def whole_run(self, name, **options):
        """The digests of a run that was not interrupted."""
        self.run_to(name, LAST, **options)
        digests = self.logged(name)
        self.assertEqual(list(digests), list(range(1, LAST + 1)))
        return digests

    def start(self, *words):
        return support.start(support.command(*words))

    def end(self, process):
        _, messages = process.communicate(timeout=120)
        return process.returncode, messages.decode(errors="replace")

    def wait_for(self, process, holds):
        support.wait_for(holds, process)
        self.assertIsNone(process.poll(), "the run ended before it could be interrupted")

    def check_stopped_after_every_step(self, name, **options):
        options.setdefault("ema", 0.9)
        expected = self.whole_run(name, **options)
        self.assertEqual(len(set(expected.values())), LAST)
        parts = name + "-parts"
        for step in range(1, LAST + 1):
            self.run_to(parts, step, **options)
        self.assertEqual(self.logged(parts), expected)

    def test_runs_that_stopped_after_every_step(self):
        self.check_stopped_after_every_step("steps", clip_norm=1)

    def test_runs_that_stopped_after_every_step_in_bf16(self):
        self.check_stopped_after_every_step("bf16", **BF16)

    @unittest.skipUnless(support.EMULATED, "built without the emulated device")
    def test_runs_that_stopped_after_every_other_step_on_the_emulated_device(self):
        small = {"d_model": 16, "d_ff": 32, "batch_source_tokens": 192, "batch_target_tokens": 192, "device": "cuda"}
        for precision in ("f32", "bf16"):
            name = "cuda-" + precision
            for folder, stops in ((name, (4,)), (name + "-parts", (1, 2, 4))):
                for step in stops:
                    words = self.train(folder, max_steps=step, digest_every=1, precision=precision, **small)
                    result = support.run(*words, binary=support.EMULATED, variables={"VENTRIS_EMULATED_DEVICES": 1})
                    self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(self.logged(name + "-parts"), self.logged(name))

    def check_interrupted(self, name, number, holds, steps, **options):
        """A run that gets a signal once `holds(folder, pid)` and then goes on has the digests of one that was not
        interrupted."""
        words = self.train(name, max_steps=steps, digest_every=1, **options)
        process = self.start(*words)
        self.wait_for(process, lambda: holds(self.path(name), process.pid))
        process.send_signal(number)
        code, messages = self.end(process)
        self.assertEqual(code, -number if number == signal.SIGKILL else 75, messages)
        self.succeed(*words)
        self.succeed(*self.train(name + "-whole", max_steps=steps, digest_every=1, **options))
        self.assertEqual(self.logged(name), self.logged(name + "-whole"))
        self.assertEqual(len(self.logged(name)), steps)

    def test_a_run_that_was_interrupted_while_it_validated(self):
        def validates(folder, _):
            # The line of a step that is validated stands there before the validation begins.
            metrics = os.path.join(folder, "metrics.jsonl")
            if not os.path.exists(metrics):
                return False
            lines = [json.loads(line) for line in self.read(metrics).splitlines(keepends=True) if line.endswith(b"\n")]
            return any(line.get("step") == 4 for line in lines)

        for number in (signal.SIGTERM, signal.SIGKILL):
            self.check_interrupted(
                f"validates{int(number)}", number, validates, 10, valid_every=4, valid_beam_size=8, save_every=3
            )

    def test_a_run_that_was_interrupted_while_it_saved(self):
        def written_files(folder, pid):
            """Those that have no name yet, or a temporary one."""
            for descriptor in glob.glob(f"/proc/{pid}/fd/*"):
                try:
                    target = os.readlink(descriptor)
                except FileNotFoundError:  # closed in the meantime
                    continue
                if target.startswith(os.path.realpath(folder) + "/") and (target.endswith(" (deleted)") or ".tmp." in target):
                    yield target

        def saves(folder, pid):
            return glob.glob(folder + "/checkpoint-*.h5") and any(written_files(folder, pid))

        for number in (signal.SIGTERM, signal.SIGKILL):
            self.check_interrupted(
                f"saves{int(number)}", number, saves, 30, save_every=1, keep_checkpoints=2, d_model=64, d_ff=256
            )

    def test_a_run_that_began_from_a_file_goes_on_from_its_own_newest(self):
        expected = self.whole_run("one-run")
        self.run_to("trunk", 4)
        trunk = self.checkpoint("trunk", 4)
        for last in (6, 8):
            self.run_to("branch", last, resume=trunk)
        config = self.path("branch", "config.json")
        self.succeed("train", "--config", config, "--max-steps", 10)
        kept = self.path("kept.h5")
        os.rename(trunk, kept)  # the trunk goes on and removes it
        self.run_to("branch", LAST, resume=trunk)
        branch = self.logged("branch")
        self.assertEqual(branch, {step: digest for step, digest in expected.items() if step > 4})
        # Of a run that began otherwise, newer checkpoints are not its own.
        self.run_to("trunk", 6)
        os.rename(kept, trunk)
        other = self.checkpoint("trunk", 6)
        for name, begin in (("branch", other), ("trunk", trunk)):
            self.refuse(78, *self.train(name, max_steps=LAST, resume=begin), says="is newer than")

    def test_a_run_that_began_from_a_file_begins_there_again_where_all_else_is_damaged(self):
        expected = {step: digest for step, digest in self.whole_run("one-run-more").items() if 4 < step <= 8}
        self.run_to("beginning", 4)
        begin = self.checkpoint("beginning", 4)
        for folder in ("beginning", "elsewhere"):
            self.run_to(folder, 6, resume=begin)
            with open(self.checkpoint(folder, 6), "r+b") as file:
                file.truncate(1000)
            told = self.told(folder, 8, resume=begin, digest_every=1)
            self.assertIn(f"resuming from {begin} at step 4", told)
            self.assertIn(f"{self.checkpoint(folder, 6)}: its length is 1000 bytes, but ", told)
            self.assertIn(" it was changed, or cut, after ventris wrote it. Copy it again.", told)
            self.assertIn(" It is renamed to ", told)
            self.assertEqual({step: digest for step, digest in self.logged(folder).items() if step > 4}, expected)

    def best(self, name):
        return json.loads(self.read(self.path(name, "best.json")))

    def told(self, name, step, **options):
        result = support.run(*self.train(name, max_steps=step, **options))
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stderr.decode()

    def test_a_best_checkpoint_that_is_not_there_is_looked_for_anew(self):
        valid = {"valid_every": 2, "save_every": 2, "keep_checkpoints": 20}
        self.run_to("validated", 8, **valid)
        best = self.best("validated")
        gone = self.path("validated", best["checkpoint"])
        os.remove(gone)
        told = self.told("validated", 10, **valid)
        self.assertIn(f"({best['metric']} {best['value']:.4g}), is not in ", told)
        self.assertIn("the search for the best starts again", told)
        self.assertEqual(self.best("validated")["checkpoint"], "checkpoint-00000010.h5")
        self.assertNotIn("the search for the best", self.told("validated", 12, **valid))


class Refusals(DigestTest):
    """A run does not go on with what would make it another run."""

    CHANGES = {
        "encoder_layers": 2,
        "decoder_layers": 1,
        "d_model": 64,
        "d_ff": 128,
        "heads": 4,
        "dropout": 0.25,
        "attention_dropout": 0.25,
        "label_smoothing": 0.2,
        "max_positions": 512,
        "layer_norm_epsilon": 1e-3,
        "batch_source_tokens": 640,
        "batch_target_tokens": 640,
        "logical_shards": 2,
        "seed": 5,
        "beta1": 0.8,
        "beta2": 0.9,
        "adam_epsilon": 1e-6,
        "precision": "bf16",
        "gradient_dtype": "bf16",
        "ema": 0.5,
    }

    def test_another_configuration_is_refused_with_the_key_and_both_values(self):
        self.succeed(*self.train("run", max_steps=2, logical_shards=1))
        before = self.read(self.checkpoint("run", 2))
        for key, value in self.CHANGES.items():
            options = {"logical_shards": 1, key: value}
            option = "--" + key.replace("_", "-")
            message = self.refuse(78, *self.train("run", max_steps=4, **options), says=[option, str(value)])
            self.assertRegex(message, rf"was written with {option} \S+, but this run has {value}\b")
        self.assertEqual(self.read(self.checkpoint("run", 2)), before)

    def test_another_corpus_or_tokenizer_is_refused_with_both_digests(self):
        self.succeed(*self.train("corpus", max_steps=2))
        demo = self.path("demo")
        for vocabulary, lines in ((support.VOCABULARY, 399), (support.VOCABULARY - 1, 400)):
            for language in ("en", "de"):
                with open(f"{demo}/train.{language}", "rb") as file:
                    self.write(f"other.{language}", b"".join(file.readlines()[:lines]))
            other = self.path("other.h5")
            self.succeed(
                *("prepare", "--train-sets", self.path("other.en"), self.path("other.de"), "--valid-sets"),
                *(f"{demo}/valid.en", f"{demo}/valid.de", "--vocab-size", vocabulary, "--output", other),
            )
            words = self.train("corpus", max_steps=4)
            words[words.index("--corpus") + 1] = other
            says = "corpus" if vocabulary == support.VOCABULARY else "vocab_size 300, but this run has 299"
            self.refuse(78, *words, says=says)


if __name__ == "__main__":
    unittest.main(verbosity=2)
