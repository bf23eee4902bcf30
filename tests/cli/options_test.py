"""The command line itself: help, unknown options, ranges, configuration files, documentation."""

import json
import os
import subprocess
import unittest

import support

COMMANDS = [
    "demo-corpus",
    "prepare",
    "train",
    "replay",
    "translate",
    "evaluate",
    "score",
    "bleu",
    "attention",
    "average",
    "export",
    "inspect",
]


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
            self.assertLessEqual(max(map(len, text.split("\n"))), 80, command)

    def test_help_needs_no_other_option(self):
        self.assertIn(b"SYNOPSIS", self.succeed("prepare", "--output", "x", "--help"))

    def test_version_tells_commit_and_backends(self):
        lines = self.succeed("--version").decode().splitlines()
        self.assertRegex(lines[0], r"^ventris \d+\.\d+\.\d+ \(commit .+\)$")
        self.assertRegex(lines[1], r"^CPU: .*oneDNN \d+\.\d+")
        self.assertTrue(lines[2].startswith("MPI: "))
        self.assertRegex(lines[3], r"^CUDA: (no$|yes, CUDA \d+\.\d+, architectures )")
        self.assertRegex(lines[4], r"^NCCL: (no|\d+\.\d+\.\d+)$")

    def test_the_committed_reference_is_what_the_program_says(self):
        committed = os.path.join(support.SOURCE_DIR, "docs", "commands.md")
        self.assertEqual(
            self.read(committed),
            self.succeed("help", "--markdown"),
            "make it anew: ventris help --markdown > docs/commands.md",
        )


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


class ConfigurationFile(support.CommandLineTest):
    def test_a_preset_can_be_printed_and_read_again(self):
        text = self.succeed("train", "--show-preset", "tiny").decode()
        for line in (
            "preset = tiny",
            "d-model = 128",
            "heads = 4",
            "warmup-steps = 2000",
            "batch-target-tokens = 4096",
        ):
            self.assertIn(f"\n{line}\n", text)
        # The only complaint about it is that the corpus of the command line is not there.
        file = self.write("tiny.ini", text)
        self.refuse(
            66,
            "train",
            "--config",
            file,
            "--corpus",
            self.path("none.h5"),
            "--model-dir",
            self.path("m"),
            says="none.h5",
        )

    def test_flags_win(self):
        reference = self.write("reference", "a b c d e\n")
        hypothesis = self.write("hypothesis", "A b c d e\n")
        config = self.write(
            "bleu.ini",
            f"# lowercased\ninput = {hypothesis}\nreference = {reference}\nlowercase = yes\n"
            "tokenize = none\n",
        )
        line = self.succeed("bleu", "--config", config).decode()
        self.assertIn("case:lc", line)
        self.assertIn("tok:none", line)
        self.assertIn(" = 100", line)
        self.assertIn("tok:char", self.succeed("bleu", "--config", config, "--tokenize", "char").decode())

    def test_lists_come_from_several_lines(self):
        a, b = self.write("ref1", "a b c d e\n"), self.write("ref2", "f g h i j\n")
        config = self.write("two.ini", f"reference = {a}\nreference = {b}\n")
        self.assertIn(b"nrefs:2", self.succeed("bleu", "--config", config, stdin=b"f g h i j\n"))

    def test_placeholders_of_the_library_on_the_command_line(self):
        for word in ("%option%", "%canonical_option%", "%original_token%", "%value%", "%invalid_line%", "%prefix%"):
            self.refuse(64, "train", f"--%{word}", says=f"%{word}")
            self.refuse(64, "train", f"%{word}", says=f"%{word}")
            self.refuse(64, "train", f"--seed=%{word}", says=["--seed", f"%{word}"])
            self.refuse(64, "train", f"--pre-norm=%{word}", says="--pre-norm")

    def test_faults_name_file_and_option(self):
        for text, says in (
            ("max-stepz = 5\n", ["'max-stepz'", "did you mean 'max-steps'?"]),
            ("max-steps = many\n", ["max-steps", "many"]),
            ("seed = 1\nseed = 2\n", ["seed", "more than once"]),
            ("pre-norm = perhaps\n", ["pre-norm", "perhaps"]),
            ("no equals sign\n", ["no equals sign"]),
            ("%%invalid_line%\n", ["'%%invalid_line%'"]),  # placeholders of the library's own messages
            ("%option% = 1\n", ["'%option%'"]),
            ("seed = %value%%option%\n", ["seed", "%value%%option%"]),
        ):
            file = self.write("bad.ini", text)
            self.refuse(78, "train", "--config", file, says=[file, *says])
        self.refuse(66, "train", "--config", self.path("none.ini"), says="none.ini")
        self.refuse(66, "train", "--config", self.folder, says="a folder")
        self.refuse(78, "train", "--config", self.write("bad.ini", b"seed\0 = 1\n"), says="NUL")
        self.refuse(78, "train", "--config", self.write("long.ini", "seed = 1\n" + "#\n" * 40000), says="longer than")

    def test_the_mark_and_line_ends_of_other_editors(self):
        reference = self.write("reference", "a b c d e\n")
        config = self.write("marked.ini", f"\ufeffreference = {reference}\r\ntokenize = char\r\n")
        self.assertIn(b"tok:char", self.succeed("bleu", "--config", config, stdin=b"a b c d e\n"))


class Bleu(support.CommandLineTest):
    def test_score_with_signature(self):
        reference = self.write("reference", "The cat sat on the mat .\nIt rains today again , my friend .\n")
        line = self.succeed("bleu", "--reference", reference, stdin=self.read(reference)).decode()
        self.assertRegex(
            line, r"^BLEU\|nrefs:1\|case:mixed\|eff:no\|tok:13a\|smooth:exp\|version:2\.[\d.]+\|ventris:\S+ = 100\.0"
        )

    def test_unequal_lengths(self):
        reference = self.write("short", "one line\n")
        self.refuse(65, "bleu", "--reference", reference, stdin=b"one\ntwo\n", says=["1", "2"])

    def test_missing_and_invalid_files(self):
        self.refuse(66, "bleu", "--reference", self.path("none"), says="none")
        bad = self.write("latin1", "K\xe4se\n".encode("latin-1"))
        self.refuse(65, "bleu", "--reference", bad, stdin=b"Kaese\n", says=["latin1", ":1:", "UTF-8"])

    def test_all_metrics_with_intervals(self):
        reference = self.write("reference", "The cat sat on the mat.\nIt rains today again, my friend.\nSo it is.\n")
        text = self.write("text", "The cat sat on a mat.\nIt rains today, my friend.\nSo is it.\n")
        options = ["--input", text, "--reference", reference, "--metrics", "ter", "bleu", "chrf", "--chrf-word-order", 2]
        lines = self.succeed("bleu", *options, "--confidence", "--confidence-n", 200).decode().splitlines()
        self.assertEqual([line.split("|")[0].strip() for line in lines], ["BLEU", "chrF2++", "TER"])
        self.assertEqual(len({line.index("=") for line in lines}), 1)
        for line in lines:
            self.assertRegex(line, r"\|nrefs:1\|bs:200\|seed:12345\|case:.*\|version:2\.\S+ = \d+\.\d\d \(μ = \d+\.\d\d ± \d+\.\d\d\)")
        objects = json.loads(self.succeed("bleu", *options, "--confidence", "--json"))
        self.assertEqual([o["name"] for o in objects], ["BLEU", "chrF2++", "TER"])
        for key in ("score", "signature", "confidence_mean", "confidence_var", "confidence", "verbose_score", "nrefs",
                    "bs", "seed", "case", "eff", "tok", "smooth", "version"):  # fmt: skip
            self.assertIn(key, objects[0])

    def test_sentence_level(self):
        reference = self.write("reference", "The cat sat on the mat.\nIt rains.\n")
        lines = self.succeed("bleu", "--reference", reference, "--sentence-level", stdin=b"The cat sat.\nIt rains.\n")
        lines = lines.decode().splitlines()
        self.assertEqual(len(lines), 2)
        self.assertIn("eff:yes", lines[0])
        self.assertIn(" = 100.00 ", lines[1])

    def test_paired_tests(self):
        reference = self.write("reference", "".join(f"word{i} and word{i + 1} are here .\n" for i in range(40)))
        good = self.write("good", "".join(f"word{i} and word{i + 1} are there .\n" for i in range(40)))
        bad = self.write("bad", "".join(f"word{i} or {i + 1} were there .\n" for i in range(40)))
        for test in ("bs", "ar"):
            options = ["--input", good, bad, "--reference", reference, f"--paired-{test}", f"--paired-{test}-n", 100]
            table = self.succeed("bleu", *options, "--tokenize", "none").decode()
            self.assertIn(f"Baseline: {good}", table)
            self.assertRegex(table, r"\(p = 0\.\d{4}\)\*")
            self.assertIn(f"BLEU|nrefs:1|{test}:100|seed:12345|", table)
            systems = json.loads(self.succeed("bleu", *options, "--json"))
            self.assertEqual([s["system"] for s in systems], [f"Baseline: {good}", bad])
            self.assertIsNone(systems[0]["BLEU"]["p_value"])
            self.assertLess(systems[1]["BLEU"]["p_value"], 0.05)
        self.refuse(64, "bleu", "--input", good, "--reference", reference, "--paired-bs", says="baseline")
        self.refuse(64, "bleu", "--input", good, bad, "--reference", reference, "--confidence", says="--paired-bs")
        self.refuse(64, "bleu", "--input", good, "--reference", reference, "--metrics", "meteor", says="meteor")
        self.refuse(
            64, "bleu", "--input", good, "--reference", reference, "--metrics", "bleu", "ter", "--sentence-level",
            says="--sentence-level")  # fmt: skip

    def test_closed_output_ends_quietly(self):
        reference = self.write("reference", "a\n")
        read_end, write_end = os.pipe()
        os.close(read_end)
        result = subprocess.run(
            support.command("bleu", "--input", reference, "--reference", reference),
            stdout=write_end,
            stderr=subprocess.PIPE,
            env=support.environment(),
            timeout=60,
            check=False,
        )
        os.close(write_end)
        self.assertEqual((result.returncode, result.stderr), (74, b""))

    @unittest.skipUnless(os.path.exists("/dev/full"), "needs /dev/full")
    def test_full_disk_is_an_error(self):
        reference = self.write("reference", "a\n")
        with open("/dev/full", "wb") as full:
            result = subprocess.run(
                support.command("bleu", "--input", reference, "--reference", reference),
                stdout=full,
                stderr=subprocess.PIPE,
                env=support.environment(),
                timeout=60,
                check=False,
            )
        self.assertEqual(result.returncode, 74)
        self.assertIn(b"standard output", result.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
