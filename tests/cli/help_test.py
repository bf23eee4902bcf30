# SPDX-License-Identifier: Apache-2.0
"""Topics of help, completion and manual pages."""

import re
import shutil
import subprocess
import unittest

import support


def commands():
    return support.run("help", "--commands").stdout.decode().split()


def options_of(command):
    reference = support.run("help", "--markdown").stdout.decode()
    section = reference.split(f"\n## ventris {command}\n", 1)[1].split("\n## ")[0]
    return set(re.findall(r"^\| `(--[a-z0-9-]+)", section, re.MULTILINE))


class Topics(support.CommandLineTest):
    def topics(self):
        text = self.succeed("help").decode().split("\n\n")
        part = next(part for part in text if part.startswith("Topics"))
        return re.findall(r"^  ([a-z-]+)  +\S", part, re.MULTILINE)

    def test_each_has_a_page_that_fits_a_terminal(self):
        topics = self.topics()
        self.assertGreater(len(topics), 12)
        self.assertEqual({"curves", "watching"} - set(topics), set())
        for topic in topics:
            text = self.succeed("help", topic).decode()
            self.assertGreater(len(text.splitlines()), 5, topic)
            self.assertNotIn("](", text)
            self.assertNotRegex(text, r"(?m)^!")  # pictures
            self.assertNotIn("\n|", text)
            for line in text.splitlines():  # examples are as they are
                long_word = max(map(len, line.split()), default=0) > 70
                self.assertTrue(len(line) <= 80 or line.startswith("    ") or long_word, f"{topic}: {line}")

    def test_an_unknown_one_is_answered_with_the_nearest(self):
        self.refuse(64, "help", "resumin", says="did you mean 'resuming'?")
        self.refuse(64, "help", "trian", says="'train'")
        self.refuse(64, "help", "nothing-alike", says="lists the commands")


class Completion(support.CommandLineTest):
    def complete(self, *words):
        """What bash offers for the last word."""
        line = " ".join("'" + word + "'" for word in ("ventris", *words))
        functions = self.write("c.bash", self.succeed("help", "--completion", "bash"))
        script = f'source {functions}; COMP_WORDS=({line}); COMP_CWORD={len(words)}; _ventris; echo "${{COMPREPLY[@]}}"'
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.split()

    def test_bash_completes_commands_options_and_values(self):
        self.assertEqual(self.complete("tran"), ["translate"])
        self.assertEqual(set(self.complete("")) - {"--help", "--version", "help"}, set(commands()))
        self.assertEqual(self.complete("train", "--label-s"), ["--label-smoothing"])
        self.assertEqual(self.complete("train", "--precision", ""), ["auto", "f32", "tf32", "bf16"])
        self.assertEqual(self.complete("train", "--precision", "t"), ["tf32"])
        self.assertEqual(self.complete("train", "--precision", "=", "b"), ["bf16"])
        self.assertIn("resuming", self.complete("help", ""))
        self.assertEqual(self.complete("train", "--corpus", ""), [])  # files, of the shell


class Manual(support.CommandLineTest):
    @unittest.skipUnless(shutil.which("groff"), "without groff")
    def test_pages_have_no_faults(self):
        for command in ("", *commands()):
            page = self.write("page.1", self.succeed("help", "--man", *([command] if command else [])))
            done = subprocess.run(["groff", "-Kutf8", "-man", "-Tutf8", "-ww", page], capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""), command)
            self.assertIn(f"ventris{command and '-' + command}", done.stdout)

    def test_every_option_is_there(self):
        page = self.succeed("help", "--man", "train").decode().replace("\\-", "-")
        self.assertGreater(len(options_of("train")), 70)
        self.assertEqual({name for name in options_of("train") if f"\\fB{name}" not in page}, set())


if __name__ == "__main__":
    unittest.main(verbosity=2)
