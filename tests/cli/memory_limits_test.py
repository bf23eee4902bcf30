# SPDX-License-Identifier: Apache-2.0
"""Commands under a limit on their memory, as of ulimit -v: they do their work, or say that memory is short."""

import os
import resource
import shutil
import subprocess
import unittest

import support

MIB = 1 << 20


def run_within(limit, *arguments, stdin=b"", kind=resource.RLIMIT_AS):
    """Runs the program with at most `limit` bytes of addresses, or of data; returns what subprocess.run does."""

    def prepare():
        resource.setrlimit(kind, (limit, limit))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    return subprocess.run(
        support.command(*arguments), input=stdin, capture_output=True, env=support.environment(),
        preexec_fn=prepare, timeout=600, check=False)  # fmt: skip


@unittest.skipUnless(os.environ.get("VENTRIS_FAULTS"), "built with a sanitizer, which takes memory of its own")
class MemoryLimits(support.CommandLineTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.model = cls.train_demo(2)
        result = support.run("export", "--model", cls.model, "--format", "safetensors", "--output", cls.folder + "/w.safetensors")
        assert result.returncode == 0, result.stderr
        cls.floors = {kind: cls.least(kind) for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA)}

    @staticmethod
    def least(kind):
        """The least with which the libraries are loaded and the program begins."""
        least, most = 0, 2048 * MIB
        while most - least > MIB:
            middle = (least + most) // 2
            if run_within(middle, "--version", kind=kind).returncode == 0:
                most = middle
            else:
                least = middle
        return most

    def check(self, steps, *arguments, stdin=b"", kind=resource.RLIMIT_AS):
        """Runs the command with this many MiB more than the program itself needs."""
        codes = set()
        for more in steps:
            result = run_within(self.floors[kind] + int(more * MIB), *arguments, stdin=stdin, kind=kind)
            message = result.stderr.decode(errors="replace")
            self.assertIn(result.returncode, (0, 69, 70), f"{arguments[0]} with {more} MiB more: {message}")
            codes.add(result.returncode)
            if result.returncode != 0:
                self.assertEqual(message.count("error: "), 1, message)
                self.assertRegex(message, "error: .*(memory|thread)", f"{arguments[0]} with {more} MiB more")
                self.assertNotIn("terminate called", message)
        self.assertTrue(codes & {69, 70}, f"{arguments[0]} had enough everywhere: the test tells nothing")
        return codes

    def test_train(self):
        folders = ["--corpus", self.path("corpus.h5"), "--model-dir", self.path("new")]
        options = [*support.TINY_MODEL[: support.TINY_MODEL.index("--valid-every")], "--valid-every", 2, "--valid-beam-size", 2]
        self.check(range(2, 240, 34), "train", *folders, *options, "--max-steps", 2, "--threads", 2, "--resume", "auto")

    def test_prepare(self):
        text = ["--train-sets", self.demo_path("train.en"), self.demo_path("train.de"), "--vocab-size", support.VOCABULARY]
        for kind in ("bpe", "unigram"):
            codes = self.check(
                (4, 36, 60, 400), "prepare", *text, "--tokenizer", kind, "--threads", 2, "--output",
                self.path("new.h5"))  # fmt: skip
            self.assertIn(0, codes)

    def test_a_sound_checkpoint_is_never_called_damaged(self):
        """A library that gets no memory does not say so; the room where it fails is small, and differs."""
        for kind in self.floors:
            for arguments in (["inspect", self.model, "--verify"], ["export", "--model", self.model, "--output", self.path("x.h5")]):
                codes = self.check([*range(2, 80, 6), 400], *arguments, kind=kind)
                self.assertIn(0, codes, arguments[0])

    def test_a_start_with_little_memory_sets_no_checkpoint_aside(self):
        words = ["train", "--corpus", self.path("corpus.h5"), *support.TINY_MODEL, "--max-steps", 3, "--learning-rate-scale", 0.5]
        for kind in self.floors:
            run = self.path(f"again{kind}")
            shutil.copytree(self.model, run)
            before = {name for name in os.listdir(run) if name.startswith("checkpoint")}
            for more in (1.6 * i for i in range(1, 75)):
                result = run_within(self.floors[kind] + int(more * MIB), *words, "--model-dir", run, kind=kind)
                self.assertIn(result.returncode, (0, 69, 70), result.stderr.decode(errors="replace"))
                self.assertLessEqual(before, set(os.listdir(run)))
                if result.returncode == 0:
                    break


if __name__ == "__main__":
    unittest.main(verbosity=2)
