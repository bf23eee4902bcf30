# SPDX-License-Identifier: Apache-2.0
"""The command line itself: help, completion, manual pages, colours, unknown options, ranges, configuration files, documentation; bleu."""

import json
import os
import re
import shutil
import subprocess
import unittest

import support

# Of a run with the preset tiny.
GOLDEN_CONFIG = os.path.join(support.SOURCE_DIR, "tests", "golden", "files", "1.0", "run", "config.json")


GERMAN = "Der „Mann“ kauft E-Mail-Adressen, bzw. Dr. No.\nEs regnet heute, mein Freund.\n"


def commands():
    return support.run("help", "--commands").stdout.decode().split()


class Help(support.CommandLineTest):

    def test_every_command_has_help_in_full(self):
        for command in commands():
            text = self.succeed(command, "--help", "all").decode()
            for heading in ("NAME", "SYNOPSIS", "DESCRIPTION", "EXAMPLES", "EXIT CODES"):
                self.assertIn(f"{heading}\n", text)
            self.assertIn("--config FILE", text)
            self.assertIn("--help [all]", text)
            self.assertEqual(self.succeed("help", command, "all").decode(), text)
            self.assertEqual(self.succeed("help", command, "--all").decode(), text)
            self.assertLessEqual(max(map(len, text.split("\n"))), 80, command)

    def test_the_common_options_fit_on_one_screen(self):
        for command in ("prepare", "plan", "train", "translate", "evaluate", "bleu", "attention", "score"):
            text = self.succeed(command, "--help").decode()
            self.assertLessEqual(len(text.splitlines()), 40, command)
            self.assertLessEqual(max(map(len, text.splitlines())), 80, command)
            self.assertIn(f"ventris {command} --help all", text)
            self.assertEqual(self.succeed("help", command).decode(), text)
            every = self.succeed(command, "--help", "all").decode()
            shown = set(re.findall(r"^  +(?:-\w+, )*(--[a-z-]+)", text, re.M))
            self.assertGreater(len(shown), 3, command)
            for option in shown:
                self.assertRegex(every, rf"\n    (?:-\w+, )*{option}\b", command)

    def test_the_version_tells_commit_and_backends_also_as_json(self):
        lines = self.succeed("--version").decode().splitlines()
        self.assertRegex(lines[0], r"^ventris \d+\.\d+\.\d+ \(commit .+\)$")
        self.assertRegex(lines[1], r"^CPU: .*oneDNN \d+\.\d+")
        used, built = re.fullmatch(r"ISA:  (\S+), of (.+)", lines[2]).groups()
        self.assertIn(used, built.split(", "))
        version = json.loads(self.succeed("--version", "--json"))
        self.assertEqual(list(version), ["version", "commit", "cpu", "isa", "built_isa", "mpi", "cuda", "nccl"])
        self.assertEqual(lines[0], f"ventris {version['version']} (commit {version['commit']})")
        self.assertEqual(lines[2], f"ISA:  {version['isa']}, of {', '.join(version['built_isa'])}")
        for line in (lines[1], *lines[3:]):
            key, text = re.fullmatch(r"(\w+): +(?:yes, )?(?:f32 and bf16, )?(.+)", line).groups()
            self.assertEqual(version[key.lower()], None if text == "no" else text)
        self.refuse(64, "--version", "--yaml", says="--version takes --json and nothing else, not '--yaml'")

    def test_the_committed_reference_is_what_the_program_says(self):
        committed = os.path.join(support.SOURCE_DIR, "docs", "commands.md")
        self.assertEqual(
            self.read(committed),
            self.succeed("help", "--markdown"),
            "make it anew: ventris help --markdown > docs/commands.md",
        )

    def test_the_readme_trains_and_translates_as_the_quickstart_does(self):
        readme, script = (
            self.read(os.path.join(support.SOURCE_DIR, *path)).decode().replace("\\\n", " ")
            for path in (["README.md"], ["launch", "quickstart.sh"])
        )
        training = r"mpirun -np 2 ventris (train --corpus .*)\n", r"MPIRUN\[@\]}\" ventris (train --corpus .*) --device \"\$device\"\n"
        shown, run = (re.search(how, text)[1].split() for how, text in zip(training, (readme, script)))
        self.assertEqual(shown, run)
        self.assertIn("--max-steps", run)
        before = readme.split("$ mpirun", 1)[0]
        for option in ("--allow-run-as-root", "--oversubscribe"):
            self.assertIn(option, before, "what the first mpirun line needs is told before it")
        examples = re.findall(r'\ntry "(.*)" "(.*)"', script)
        self.assertEqual(len(examples), 5)
        self.assertIn(f"die \"$wrong of {len(examples)} examples", script)
        for english, _ in examples:
            self.assertIn(f'"{english}"', readme)
        english, german = examples[0]
        self.assertIn(f'echo "{english}" | ventris translate --model weights.h5\n{german}\n', readme)


class WrongOptions(support.CommandLineTest):
    def test_what_is_wrong_is_named_with_what_to_do(self):
        loop, text = self.path("loop"), self.write("text", "a\n")
        os.symlink(loop, loop)
        for words, says in (
            (("trian",), "did you mean 'train'?"),
            (("help", "trian"), "trian"),
            (("train", "--max-stpes", 5), ["--max-stpes", "did you mean --max-steps?"]),
            (("train", "--max-step", 5), "unknown option --max-step"),
            (("bleu", "--zzzzzzzz", 5), "--zzzzzzzz"),
            (("train", "corpus.h5", "--max-steps", 5), "unexpected argument 'corpus.h5'"),
            (("average", "--output=a.h5", "foo"), "unexpected argument 'foo'"),
            (("inspect", "a", "b"), "one file"),
            (("inspect", "-v"), ["unknown option -v", "a file of that name is ./-v"]),
            (("inspect", "-verify"), ["unknown option -verify", "did you mean --verify?"]),
            (("train", "-q", 5), ["unknown option -q", "'ventris train --help all' lists the options"]),
            (("bleu", text, "-m", "chrf++"), "chrF++ is 'chrf' with --chrf-word-order 2"),
            # Names of other programs.
            (("train", "--lr", 5), "unknown option --lr; did you mean --peak-learning-rate? 'ventris help other-programs'"),
            (("translate", "-b", 5), "did you mean --beam-size?"),
            (("train", "--sync-sgd", 5), "no such option is needed: 'ventris help other-programs'"),
            (("train", "--learned-positions"), "did you mean --positions?"),
            (("train", "--isa", "avx2"), "unknown option --isa; set the environment variable VENTRIS_ISA"),
            (("train", "--min-learning-rate", 0), "no such option is needed"),
            # What is missing, or there twice.
            (("prepare", "--output", "x"), "no training files given; pass --train-sets"),
            (("prepare", "--train-sets", "a", "--output", "x"), "--train-sets"),
            (("train", "--model-dir", "x"), "--corpus is required"),
            (("inspect",), "FILE_OR_DIR is required"),
            (("average", "--output", "x"), ["--model-dir", "--checkpoints"]),
            (("train", "--seed", 1, "--seed", 2), "--seed is given more than once"),
            (("train", "--max-steps"), "--max-steps needs a value"),
            (("translate", "--beam-size", "--model", "m"), ["--beam-size needs a value: N", "'--model'"]),
            (("bleu", "r", "--input", "--lowercase"), ["--input needs a value", "'--lowercase'"]),
            (("prepare", "--lowercase=yes"), "--lowercase takes no value"),
            (("translate", "--model", "x", "--n-best", 5, "--beam-size", 4), "--n-best"),
            # Values.
            (("train", "--max-steps", "5x"), ["--max-steps", "not a whole number"]),
            (("train", "--max-steps", -1), "--max-steps must be"),
            (("train", "--max-steps", "99999999999999999999999"), ["--max-steps", "out of range"]),
            (("train", "--dropout", 1), "--dropout must be"),
            (("train", "--dropout", "nan"), ["--dropout", "finite"]),
            (("train", "--dropout", ""), ["--dropout", "not a number"]),
            (("train", "--learning-rate-scale", "-.5e1"), "--learning-rate-scale must be above 0"),
            (("train", "--preset", "huge"), ["--preset", "tiny, small, base, big"]),
            (("train", "--precision", "int8"), ["--precision", "f32, bf16"]),
            (("translate", "--model", "x", "--sample", "--top-p", 1.01), "--top-p must be from"),
            (("train", "--seed=%value%"), ["--seed", "%value%"]),  # a placeholder of the library's own messages
        ):
            with self.subTest(words=words):
                self.refuse(64, *words, says=says)
        self.refuse(66, "translate", "--model", self.path("none"), "--sample", "--top-p", 1, says="none")  # the end of the range
        for path in (loop, "x" * 300):
            self.refuse(66, "inspect", path, says=path)
        self.refuse(65, "translate", "--model", text, text, says=["not an HDF5 file written by ventris", f"{text} < TEXT"])


    def test_the_table_of_names_in_the_guide_is_that_of_the_program(self):
        with open(os.path.join(support.SOURCE_DIR, "docs", "guide.md"), encoding="utf-8") as file:
            section = file.read().partition("### Names in other programs")[2].partition("\n### ")[0]
        rows = [line.split("|")[1:-1] for line in section.splitlines() if line.startswith("| `")]
        self.assertGreater(len(rows), 30)
        for names, ours, more in rows:
            expected = {f"did you mean --{name}?" for name in re.findall(r"--([a-z0-9-]+)", ours + more)} or {"no such option is needed"}
            for name in re.findall(r"`([^`]+)`", names):
                told = (support.run(command, "--" + name).stderr.decode() for command in ("train", "translate", "bleu", "prepare"))
                self.assertTrue(any(words in text for text in told for words in expected), (name, expected))

    def test_an_option_without_effect_is_refused(self):
        translate = ("translate", "--model", self.path("none"))
        evaluate = ("evaluate", "--model", self.path("none"), "--source", self.path("a"), "--reference", self.path("b"))
        for command in (translate, evaluate):
            for option, value, default in (("temperature", 0.5, 1), ("top-k", 3, 0), ("top-p", 0.5, 1), ("seed", 3, 1)):
                says = f"--{option} has no effect without --sample: leave it out, or give --sample"
                self.refuse(64, *command, f"--{option}", value, says=says)
                self.refuse(66, *command, f"--{option}", default)  # as without it
                self.refuse(66, *command, f"--{option}", value, "--sample")
        for option, value in (("alignment-layer", 1), ("alignment-unit", "token")):
            self.refuse(64, *translate, f"--{option}", value, says=f"--{option} has no effect with --alignment none")
            self.refuse(66, *translate, f"--{option}", value, "--alignment", "hard")
        files = ("--corpus", self.path("none.h5"), "--model-dir", self.path("m"))
        for option, value, off, on in (
            ("patience", 3, ("--valid-every", 0), ()),
            ("valid-tokenize", "char", ("--valid-beam-size", 0), ()),
        ):
            for command in (("train", *files), ("plan", *files)):
                self.refuse(64, *command, f"--{option}", value, *off, says=[f"--{option} has no effect", "leave it out"])
                self.refuse(66, *command, f"--{option}", value, *on, says="none.h5")

    def test_an_output_is_no_input(self):
        text = self.write("text", "a\n")
        self.refuse(64, "prepare", "--train-sets", text, text, "--output", text, says=f"--output {text}: is also the input of --train-sets")


class ConfigurationFile(support.CommandLineTest):

    def test_a_preset_beside_a_file_that_sets_all_of_another_is_refused(self):
        file = self.write("base.ini", self.succeed("train", "--show-preset", "base").decode())
        files = ("--corpus", self.path("none.h5"), "--model-dir", self.path("m"))
        for command in ("train", "plan"):
            words = (command, "--config", file, *files)
            self.refuse(64, *words, "--preset", "tiny", says=["--preset tiny has no effect", file, "the preset base"])
            self.refuse(66, *words, "--preset", "base", says="none.h5")
            self.refuse(66, *words, "--d-model", 64, says="none.h5")
            few = self.write("few.ini", "preset = base\nd-model = 64\n")
            self.refuse(66, command, "--config", few, *files, "--preset", "tiny", says="none.h5")
        run = ("train", "--config", GOLDEN_CONFIG, *files)
        self.refuse(64, *run, "--preset", "big", says=["--preset big has no effect", GOLDEN_CONFIG, "the preset tiny"])
        self.refuse(64, *run, "--preset", "huge", says=["--preset", "tiny, small, base, big"])
        self.refuse(66, *run, says="none.h5")

    def test_a_run_may_have_options_without_effect(self):
        with open(GOLDEN_CONFIG, encoding="utf-8") as file:
            config = {**json.load(file), "valid_every": 0, "patience": 3, "valid_beam_size": 0, "valid_tokenize": "char"}
        run = self.write("config.json", json.dumps({**config, "valid_metric": "loss"}))
        files = ("--corpus", self.path("none.h5"), "--model-dir", self.path("m"))
        self.refuse(66, "train", "--config", run, *files, says="none.h5")
        self.refuse(64, "train", "--config", run, *files, "--patience", 4, says="--patience has no effect")
        lines = self.write("run.ini", "valid-every = 0\npatience = 3\n")
        self.refuse(78, "train", "--config", lines, *files, says=f"{lines}: patience has no effect with --valid-every 0")
        self.refuse(66, "train", "--config", lines, *files, "--valid-every", 10, says="none.h5")
        # A file that several runs share: the command line may take the effect from what it says.
        lines = self.write("shared.ini", "patience = 3\n")
        self.refuse(66, "train", "--config", lines, *files, "--valid-every", 0, says="none.h5")
        lines = self.write("sample.ini", "temperature = 0.5\n")
        words = ("translate", "--model", self.path("none"), "--config", lines)
        self.refuse(78, *words, says=f"{lines}: temperature has no effect without --sample")
        self.refuse(66, *words, "--sample", says="none")

    def test_flags_win_and_lists_come_from_several_lines(self):
        first, second = self.write("first", "a b c d e\n"), self.write("second", "f g h i j\n")
        hypothesis = self.write("hypothesis", "A b c d e\n")
        lines = ["# lowercased", f"input = {hypothesis}", f"reference = {first}", f"reference = {second}", "lowercase = yes", "tokenize = none"]
        config = self.write("bleu.ini", "\n".join(lines) + "\n")
        line = self.succeed("bleu", "--config", config).decode()
        for part in ("nrefs:2", "case:lc", "tok:none", " = 100"):
            self.assertIn(part, line)
        self.assertIn("tok:char", self.succeed("bleu", "--config", config, "--tokenize", "char").decode())

    def test_faults_name_file_and_option(self):
        for text, says in (
            ("max-stepz = 5\n", ["'max-stepz'", "did you mean 'max-steps'?"]),
            ("help = yes\n", ["'help' is not an option of ventris train; 'ventris train --help all' lists the options"]),
            ("max-steps = many\n", ["max-steps", "many"]),
            ("seed = 1\nseed = 2\n", ["seed", "more than once"]),
            ("pre-norm = perhaps\n", ["pre-norm", "perhaps"]),
            ("no equals sign\n", ["no equals sign"]),
            ("# Marian\ndim-emb: 512\n", ["'dim-emb: 512' is not a line of the form 'option = value', but YAML; 'ventris help other-programs'"]),
            ("---\ntrain-sets:\n  - a\n", ["but YAML"]),
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

    def test_words_of_sacrebleu(self):
        """Its command's order and short names, and nothing else than ours."""
        reference = self.write("reference", "The cat sat on the mat.\nIt rains today again, my friend.\n")
        other = self.write("other", "A cat was on the mat.\nIt is raining again today.\n")
        system = self.write("system", "the cat sat on a mat.\nIt rains again today.\n")
        ours = ("bleu", "--reference", reference, "--input", system)
        for words, meaning in (
            (("-i", system, "-m", "bleu", "chrf"), ("--metrics", "bleu", "chrf")),
            (("-i", system, "-b", "-w", "4"), ("--score-only", "--width", 4)),
            (("-lc", "-tok", "char", "-i", system), ("--lowercase", "--tokenize", "char")),
            (("-s", "floor", "-sv", "0.2", "-i", system), ("--smooth", "floor", "--smooth-value", 0.2)),
            (("--smooth-method", "add-k", "-i", system), ("--smooth", "add-k")),
            (("--smooth-method=none", "-i", system), ("--smooth", "none")),
            (("-sl", "-f", "json", "-i", system), ("--sentence-level", "--json")),
            (("--input", system, "--format", "text"), ()),
        ):
            expected = self.succeed(*ours, *meaning)
            self.assertEqual(self.succeed("bleu", reference, *words), expected, words)
            if words[-2] == "-i":
                self.assertEqual(self.succeed("bleu", *words, "--confidence-n=5", "--", reference), expected, words)
        two = self.succeed("bleu", reference, other, "-i", system)
        self.assertIn(b"nrefs:2", two)
        self.assertEqual(self.succeed("bleu", "--reference", reference, other, stdin=self.read(system)), two)
        self.assertEqual(self.succeed("bleu", reference, other, "-i", "-", stdin=self.read(system)), two)
        self.refuse(64, "bleu", "-i", system, says=["a reference is required", "REFERENCE... --input"])
        self.refuse(64, "bleu", other, "--reference", reference, "-i", system, says=["twice", "other", "reference"])
        self.refuse(64, "bleu", reference, "-f", "latex", says=["--format", "text, json"])
        self.refuse(64, "bleu", reference, "-f", "text", "--json", says="exclude each other")
        self.refuse(66, "bleu", self.path("none"), "-i", system, says="none")

    def test_refusals(self):
        reference = self.write("short", "one line\n")
        self.refuse(65, "bleu", "--reference", reference, stdin=b"one\ntwo\n", says=["1", "2"])
        self.refuse(66, "bleu", "--reference", self.path("none"), says="none")
        bad = self.write("latin1", b"K\xe4se\n")
        self.refuse(65, "bleu", "--reference", bad, stdin=b"Kaese\n", says=["latin1", ":1:", "UTF-8"])
        for words, says in (
            (("--paired-bs",), "baseline"),
            ((reference, "--confidence"), "--paired-bs"),
            (("--metrics", "meteor"), "meteor"),
            (("--metrics", "bleu", "chrf", "--sentence-level"), "--sentence-level"),
        ):
            self.refuse(64, "bleu", "--reference", reference, "--input", reference, *words, says=says)

    def test_intervals_sentences_and_paired_tests(self):
        reference = self.write("reference", "".join(f"word{i} and word{i + 1} are here .\n" for i in range(40)))
        good = self.write("good", "".join(f"word{i} and word{i + 1} are there .\n" for i in range(40)))
        bad = self.write("bad", "".join(f"word{i} or {i + 1} were there .\n" for i in range(40)))
        options = ["--input", good, "--reference", reference, "--metrics", "chrf", "bleu", "--chrf-word-order", 2, "--confidence", "--confidence-n", 200]
        lines = self.succeed("bleu", *options).decode().splitlines()
        self.assertEqual([line.split("|")[0].strip() for line in lines], ["BLEU", "chrF2++"])
        for line in lines:
            self.assertRegex(line, r"\|nrefs:1\|bs:200\|seed:12345\|case:.*\|version:2\.\S+ = \d+\.\d\d \(μ = \d+\.\d\d ± \d+\.\d\d\)")
        keys = ("score", "signature", "confidence_mean", "confidence_var", "confidence", "verbose_score", "nrefs", "bs", "seed", "case", "eff", "tok",
                "smooth", "version")  # fmt: skip
        self.assertLessEqual(set(keys), set(json.loads(self.succeed("bleu", *options, "--json"))[0]))
        lines = self.succeed("bleu", "--input", reference, "--reference", reference, "--sentence-level").decode().splitlines()
        self.assertEqual((len(lines), "eff:yes" in lines[0], " = 100.00 " in lines[1]), (40, True, True))
        for test in ("bs", "ar"):
            options = ["--input", good, bad, "--reference", reference, f"--paired-{test}", f"--paired-{test}-n", 100]
            table = self.succeed("bleu", *options).decode()
            self.assertIn(f"Baseline: {good}", table)
            self.assertRegex(table, r"\(p = 0\.\d{4}\)\*")
            systems = json.loads(self.succeed("bleu", *options, "--json"))
            self.assertEqual([system["system"] for system in systems], [f"Baseline: {good}", bad])
            self.assertIsNone(systems[0]["BLEU"]["p_value"])
            self.assertLess(systems[1]["BLEU"]["p_value"], 0.05)

    def test_an_output_that_nobody_reads_ends_quietly_and_a_full_disk_is_an_error(self):
        reference = self.write("reference", "a\n")
        words = support.command("bleu", "--input", reference, "--reference", reference)
        read_end, write_end = os.pipe()
        os.close(read_end)
        with open(write_end, "wb") as closed, open("/dev/full", "wb") as full:
            for output, says in ((closed, b""), (full, b"standard output")):
                result = subprocess.run(words, stdout=output, stderr=subprocess.PIPE, env=support.environment(), timeout=600, check=False)
                self.assertEqual(result.returncode, 74)
                self.assertTrue(says in result.stderr if says else result.stderr == b"", result.stderr)


class Protocol(support.CommandLineTest):
    """Scores by the protocol of the Transformer paper, and the words that they compare."""

    def test_the_label_names_every_setting_and_is_none_of_sacrebleu(self):
        text = self.write("text", GERMAN)
        line = self.succeed("bleu", "--input", text, "--reference", text, "--protocol", "paper", "--language", "de").decode()
        self.assertRegex(line, r"^paper-BLEU\|nrefs:1\|case:mixed\|punct:ascii\|tok:moses-de\|compounds:split\|smooth:none\|ventris:\S+ = 100\.00 ")
        self.assertNotIn("version:", line)
        result = json.loads(self.succeed(
            "bleu", "--input", text, "--reference", text, "--protocol", "paper", "--language", "de", "--json"))  # fmt: skip
        self.assertEqual((result["name"], result["compounds"], result["hypothesis_length"]), ("paper-BLEU", "split", 21))

    def test_options_that_do_not_fit_are_refused(self):
        text = self.write("text", GERMAN)
        paper = ["bleu", "--input", text, "--reference", text, "--protocol", "paper"]
        self.refuse(64, *paper, says=["--language", "en, de, fr or cs\n"])
        self.refuse(64, *paper, "--language", "xx", says=["xx", "en, de, fr or cs"])
        self.refuse(64, *paper, "--language", "de", "--lowercase", says="--protocol paper")
        self.refuse(64, *paper, "--language", "de", "--metrics", "chrf", says="is only for BLEU")
        self.refuse(64, "bleu", "--input", text, "--reference", text, "--language", "de", says="--protocol paper")


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
