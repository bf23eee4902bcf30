# SPDX-License-Identifier: Apache-2.0
"""Lines of more than a MiB: one limit and one answer in every command that reads lines."""

import gzip
import subprocess
import unittest

import support

LIMIT = 1 << 20
SAYS = ["the line is longer than 1048576 bytes", "one sentence per line"]


class LongLines(support.CommandLineTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.model = cls.train_demo(steps=2)
        cls.longest = b"half past seven\n" + b"a" * LIMIT + b"\n"
        cls.too_long = b"half past seven\n" + b"a" * (LIMIT + 1) + b"\n"

    def test_every_file_of_every_command(self):
        short = self.write("short", "half past seven\nhalf past six\n")
        long = self.write("long", self.too_long)
        zipped = self.write("long.gz", gzip.compress(self.too_long, 1))
        model = ("--model", self.model)
        prepare = ("prepare", "--vocab-size", 20, "--output", self.path("none.h5"))
        for path in (long, zipped):
            for words in (
                ("translate", *model, "--prefix", path),
                ("score", *model, "--source", path, "--target", short),
                ("score", *model, "--source", short, "--target", path),
                ("evaluate", *model, "--source", path, "--reference", short),
                ("evaluate", *model, "--source", short, "--reference", short, path),
                ("bleu", "--input", path, "--reference", short),
                ("bleu", "--input", short, "--reference", short, path),
                (*prepare, "--train-sets", path, short),
                (*prepare, "--train-sets", short, path),
                (*prepare, "--train-sets", short, short, "--valid-sets", short, path),
            ):
                with self.subTest(command=words[0], path=path):
                    self.refuse(65, *words, stdin=b"one\ntwo\n", says=[f"{path}:2: ", *SAYS])

    def test_the_standard_input_of_every_command(self):
        short = self.write("reference", "half past seven\nhalf past six\n")
        column = self.too_long.replace(b"seven\n", b"seven\thalb\n").replace(b"aaa\n", b"aa\ta\n")
        for words in (
            ("translate", "--model", self.model),
            ("translate", "--model", self.model, "--prefix-column"),
            ("bleu", "--reference", short),
        ):
            text = column if "--prefix-column" in words else self.too_long
            for stdin in (text, gzip.compress(text, 1)):
                with self.subTest(command=words):
                    self.refuse(65, *words, stdin=stdin, says=["standard input:2: ", *SAYS])

    def test_the_longest_line_is_translated(self):
        result = support.run("translate", "--model", self.model, "--beam-size", 1, stdin=self.longest)
        self.assertEqual((result.returncode, result.stdout.count(b"\n")), (0, 2), result.stderr)
        self.assertIn("line 2 has", result.stderr.decode())

    def test_no_more_is_read_than_the_limit_and_a_buffer(self):
        short = self.write("one", "half past seven\n")
        for words in (
            ("translate", "--model", self.model, "--interactive"),
            ("translate", "--model", self.model),
            ("bleu", "--reference", short),
        ):
            with self.subTest(command=words), subprocess.Popen(
                support.command(*words),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env=support.environment(),
            ) as process:
                written = 0
                try:
                    while written < 16 * LIMIT:
                        written += process.stdin.write(b"a" * (1 << 16))
                        process.stdin.flush()
                    process.stdin.close()
                except BrokenPipeError:
                    pass
                self.assertIn("standard input:1: ", process.stderr.read().decode())
                self.assertEqual(process.wait(60), 65)
                self.assertLess(written, 2 * LIMIT)


if __name__ == "__main__":
    unittest.main(verbosity=2)
