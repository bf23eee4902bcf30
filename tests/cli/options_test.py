"""The command line itself: help, unknown options, ranges, configuration files, documentation."""

import os
import subprocess
import unittest

import support

COMMANDS = ["demo-corpus", "prepare", "train", "translate", "evaluate", "bleu", "average", "export", "inspect"]


class Help(support.CommandLineTest):
    def test_program_help_names_every_command(self):
        text = self.succeed("--help").decode()
        for command in COMMANDS:
            self.assertIn(f"\n  {command}", text)
        self.assertEqual(self.succeed("help").decode(), text)

    def test_every_command_has_help_in_full(self):
        for command in COMMANDS:
            text = self.succeed(command, "--help").decode()
            for heading in ("NAME", "SYNOPSIS", "DESCRIPTION", "EXAMPLES", "EXIT CODES"):
                self.assertIn(f"{heading}\n", text)
            self.assertIn("--config FILE", text)
            self.assertEqual(self.succeed("help", command).decode(), text)
            self.assertLessEqual(max(map(len, text.split("\n"))), 150)

    def test_help_needs_no_other_option(self):
        self.assertIn(b"SYNOPSIS", self.succeed("prepare", "--output", "x", "--help"))

    def test_version_tells_commit_and_backends(self):
        lines = self.succeed("--version").decode().splitlines()
        self.assertRegex(lines[0], r"^ventris \d+\.\d+\.\d+ \(commit .+\)$")
        self.assertRegex(lines[1], r"^CPU: .*oneDNN \d+\.\d+")
        self.assertTrue(lines[2].startswith("MPI: "))
        self.assertTrue(lines[3].startswith("CUDA: "))

    def test_the_committed_reference_is_what_the_program_says(self):
        committed = os.path.join(support.SOURCE_DIR, "docs", "commands.md")
        self.assertEqual(
            self.read(committed), self.succeed("help", "--markdown"),
            "make it anew: ventris help --markdown > docs/commands.md")  # fmt: skip


class WrongOptions(support.CommandLineTest):
    def test_no_command(self):
        self.refuse(64, says="no command")

    def test_unknown_command_suggests_one(self):
        self.refuse(64, "trian", says="did you mean 'train'?")
        self.refuse(64, "help", "trian", says="trian")

    def test_unknown_option_suggests_one(self):
        self.refuse(64, "train", "--max-stpes", "5", says=["--max-stpes", "did you mean --max-steps?"])
        self.refuse(64, "translate", "--beam", "5", says="did you mean --beam-size?")
        self.refuse(64, "bleu", "--zzzzzzzz", "5", says="--zzzzzzzz")

    def test_prefixes_of_options_are_not_guessed(self):
        self.refuse(64, "train", "--max-step", "5", says="unknown option --max-step")

    def test_required_options(self):
        self.refuse(64, "prepare", "--output", "x", says="--train-sets is required")
        self.refuse(64, "train", "--model-dir", "x", says="--corpus is required")
        self.refuse(64, "inspect", says="FILE is required")
        self.refuse(64, "average", "--output", "x", says=["--model-dir", "--checkpoints"])

    def test_options_are_given_once(self):
        self.refuse(64, "train", "--seed", "1", "--seed", "2", says="--seed is given more than once")

    def test_numbers_are_checked_with_the_name_of_the_option(self):
        for option, value, says in (
            ("--max-steps", "5x", "not a whole number"),
            ("--max-steps", "1.5", "not a whole number"),
            ("--max-steps", "-1", "--max-steps must be"),
            ("--max-steps", "99999999999999999999999", "out of range"),
            ("--heads", "0", "--heads must be from 1"),
            ("--dropout", "1", "--dropout must be"),
            ("--dropout", "nan", "finite"),
            ("--dropout", "", "not a number"),
            ("--learning-rate-scale", "-0.5", "--learning-rate-scale must be above 0"),
            ("--preset", "huge", "tiny, small, base, big"),
            ("--precision", "f16", "f32, bf16"),
            ("--valid-bleu", "maybe", "yes nor no"),
        ):
            self.refuse(64, "train", option, value, says=[option, says])

    def test_missing_values_and_unexpected_words(self):
        self.refuse(64, "train", "--max-steps", says="--max-steps needs a value")
        self.refuse(64, "train", "word", says="'word'")
        self.refuse(64, "prepare", "--lowercase=yes", says="--lowercase takes no value")
        self.refuse(64, "inspect", "a", "b", says="one file")

    def test_n_best_needs_a_beam(self):
        self.refuse(64, "translate", "--model", "x", "--n-best", "5", "--beam-size", "4", says="--n-best")

    def test_pairs_of_files(self):
        self.refuse(64, "prepare", "--train-sets", "a", "--output", "x", says="--train-sets")

    def test_cuda_is_not_pretended(self):
        self.refuse(
            69, "train", "--device", "cuda", "--corpus", "x", "--model-dir", self.path("none"), says="--device cuda")
        self.assertFalse(os.path.exists(self.path("none")))


class ConfigurationFile(support.CommandLineTest):
    def test_a_preset_can_be_printed_and_read_again(self):
        text = self.succeed("train", "--show-preset", "tiny").decode()
        for line in ("preset = tiny", "d-model = 128", "heads = 4", "warmup-steps = 2000", "batch-target-tokens = 4096"):
            self.assertIn(f"\n{line}\n", text)
        # The only complaint about it is that the corpus of the command line is not there.
        file = self.write("tiny.ini", text)
        self.refuse(66, "train", "--config", file, "--corpus", self.path("none.h5"), "--model-dir", self.path("m"), says="none.h5")

    def test_flags_win(self):
        reference = self.write("reference", "a b c d e\n")
        hypothesis = self.write("hypothesis", "A b c d e\n")
        config = self.write("bleu.ini", f"# lowercased\ninput = {hypothesis}\nreference = {reference}\nlowercase = yes\n"
                            "tokenize = none\n")
        line = self.succeed("bleu", "--config", config).decode()
        self.assertIn("case:lc", line)
        self.assertIn("tok:none", line)
        self.assertIn(" = 100", line)
        self.assertIn("tok:char", self.succeed("bleu", "--config", config, "--tokenize", "char").decode())

    def test_lists_come_from_several_lines(self):
        a, b = self.write("ref1", "a b c d e\n"), self.write("ref2", "f g h i j\n")
        config = self.write("two.ini", f"reference = {a}\nreference = {b}\n")
        self.assertIn(b"nrefs:2", self.succeed("bleu", "--config", config, stdin=b"f g h i j\n"))

    def test_faults_name_file_and_option(self):
        for text, says in (
            ("max-stepz = 5\n", ["'max-stepz'", "did you mean 'max-steps'?"]),
            ("max-steps = many\n", ["max-steps", "many"]),
            ("seed = 1\nseed = 2\n", ["seed", "more than once"]),
            ("pre-norm = perhaps\n", ["pre-norm", "perhaps"]),
            ("no equals sign\n", ["no equals sign"]),
        ):
            file = self.write("bad.ini", text)
            self.refuse(78, "train", "--config", file, says=[file, *says])
        self.refuse(66, "train", "--config", self.path("none.ini"), says="none.ini")


class Bleu(support.CommandLineTest):
    def test_score_with_signature(self):
        reference = self.write("reference", "The cat sat on the mat .\nIt rains today again , my friend .\n")
        line = self.succeed("bleu", "--reference", reference, stdin=self.read(reference)).decode()
        self.assertRegex(line, r"^BLEU\|nrefs:1\|case:mixed\|eff:no\|tok:13a\|smooth:exp\|version:2\.\S+ = 100\.0")

    def test_unequal_lengths(self):
        reference = self.write("short", "one line\n")
        self.refuse(65, "bleu", "--reference", reference, stdin=b"one\ntwo\n", says=["1", "2"])

    def test_missing_and_invalid_files(self):
        self.refuse(66, "bleu", "--reference", self.path("none"), says="none")
        bad = self.write("latin1", "K\xe4se\n".encode("latin-1"))
        self.refuse(65, "bleu", "--reference", bad, stdin=b"Kaese\n", says=["latin1", ":1:", "UTF-8"])

    def test_closed_output_ends_quietly(self):
        reference = self.write("reference", "a\n")
        read_end, write_end = os.pipe()
        os.close(read_end)
        result = subprocess.run(
            support.command("bleu", "--input", reference, "--reference", reference), stdout=write_end,
            stderr=subprocess.PIPE, env=support.environment(), timeout=60, check=False)  # fmt: skip
        os.close(write_end)
        self.assertEqual((result.returncode, result.stderr), (74, b""))

    @unittest.skipUnless(os.path.exists("/dev/full"), "needs /dev/full")
    def test_full_disk_is_an_error(self):
        reference = self.write("reference", "a\n")
        with open("/dev/full", "wb") as full:
            result = subprocess.run(
                support.command("bleu", "--input", reference, "--reference", reference), stdout=full,
                stderr=subprocess.PIPE, env=support.environment(), timeout=60, check=False)  # fmt: skip
        self.assertEqual(result.returncode, 74)
        self.assertIn(b"standard output", result.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
