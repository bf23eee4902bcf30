# SPDX-License-Identifier: Apache-2.0
"""Disks that are full, files that may not grow: the checkpoint before stays,
and the message tells how many bytes are needed and free."""

import os
import re
import resource
import signal
import subprocess
import unittest

import support


def train(corpus, folder, steps):
    return ["train", "--corpus", corpus, "--model-dir", folder, *support.TINY_MODEL, "--max-steps", steps]


class DiskFull(support.CommandLineTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.corpus = cls.prepare_demo(train_pairs=100)
        # How large files get.
        whole = os.path.join(cls.folder, "whole")
        result = support.run(*train(cls.corpus, whole, 2))
        assert result.returncode == 0, result.stderr.decode()
        cls.bytes = os.path.getsize(os.path.join(whole, "checkpoint-00000002.h5"))

    def mount(self, name, size):
        """A file system in memory with room for `size` bytes."""
        folder = self.path(name)
        os.makedirs(folder, exist_ok=True)
        words = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", folder]
        if os.geteuid() != 0 or subprocess.run(words, capture_output=True, check=False).returncode != 0:
            self.skipTest("needs root and leave to mount a file system in memory")
        self.addCleanup(subprocess.run, ["umount", folder], capture_output=True, check=False)
        return folder

    def check_message(self, result, code, path):
        message = result.stderr.decode()
        self.assertEqual(result.returncode, code, message)
        self.assertIn(f"error: {path}: ", message)
        self.assertRegex(message, r"has \d+ bytes free")
        found = re.search(r"The file needs (\d+) bytes, of which (\d+) are on the disk", message)
        if path.endswith(".h5") and code == 74:
            self.assertGreater(int(found[1]), 0.9 * self.bytes)
            self.assertLess(int(found[1]), 1.2 * self.bytes)
        return message

    def test_disks_of_several_sizes(self):
        # What one checkpoint and the small files of a run take, and a part of the second one.
        for part in (0.02, 0.3, 0.6, 0.85):
            with self.subTest(part=part):
                folder = self.mount(f"disk{part}", int((1 + part) * self.bytes) + 12 * 4096)
                run = os.path.join(folder, "run")
                self.succeed(*train(self.corpus, run, 2))
                first = os.path.join(run, "checkpoint-00000002.h5")
                before = self.read(first)
                result = support.run(*train(self.corpus, run, 4))
                message = self.check_message(result, 74, os.path.join(run, "checkpoint-00000004.h5"))
                self.assertIn("No space left on device", message)
                self.assertEqual(self.read(first), before)
                self.assertFalse([name for name in os.listdir(run) if ".tmp." in name])
                subprocess.run(["mount", "-o", f"remount,size={4 * self.bytes}", folder], check=True)
                self.succeed(*train(self.corpus, run, 4))

    def test_a_limit_on_the_size_of_files_whatever_is_done_at_its_signal(self):
        run = self.path("limited")
        self.succeed(*train(self.corpus, run, 2))
        first = os.path.join(run, "checkpoint-00000002.h5")
        before = self.read(first)
        for limit in (self.bytes // 10, self.bytes // 2, self.bytes - 1):
            for action in (signal.SIG_DFL, signal.SIG_IGN):

                def prepare(limit=limit, action=action):
                    signal.signal(signal.SIGXFSZ, action)
                    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

                result = subprocess.run(
                    support.command(*train(self.corpus, run, 4)), capture_output=True, timeout=600,
                    env=support.environment(), preexec_fn=prepare, check=False)  # fmt: skip
                message = self.check_message(result, 74, os.path.join(run, "checkpoint-00000004.h5"))
                self.assertIn(f"The limit on the size of a file is {limit} bytes (ulimit -f)", message)
                self.assertEqual(self.read(first), before)
                self.assertFalse([name for name in os.listdir(run) if ".tmp." in name])
        self.succeed(*train(self.corpus, run, 4))


if __name__ == "__main__":
    unittest.main()
