# SPDX-License-Identifier: Apache-2.0
"""The command line itself: help, unknown options, ranges, configuration files, documentation."""

import json
import os
import re
import subprocess
import unittest

import support

# Of a run with the preset tiny.
GOLDEN_CONFIG = os.path.join(support.SOURCE_DIR, "tests", "golden", "files", "1.0", "run", "config.json")


def commands():
    """Those that the help of the program lists."""
    text = support.run("--help").stdout.decode()
    return re.findall(r"^  ([a-z][a-z-]*)  +\S", text.split("Commands, in the order of a first run:\n")[1].split("\n\n")[0], re.MULTILINE)


class Help(support.CommandLineTest):
    def test_program_help_names_every_command(self):
        text = self.succeed("--help").decode()
        self.assertGreaterEqual(len(commands()), 15)
        self.assertEqual(self.succeed("help").decode(), text)

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

    def test_the_common_options_have_their_values_in_the_preset(self):
        def values(text):
            return dict(re.findall(r"^  (--[a-z-]+) [^ ]+ +([0-9.]+)  ", text, re.M))

        shown = self.succeed("train", "--show-preset", "tiny").decode()
        for text, d_model, warmup in (
            (self.succeed("train", "--help"), "512", "4000"),
            (self.succeed("train", "--preset", "tiny", "--help"), "128", "2000"),
            (self.succeed("train", "--preset=big", "--help"), "1024", "4000"),
        ):
            self.assertEqual(values(text.decode())["--d-model"], d_model)
            self.assertEqual(values(text.decode())["--warmup-steps"], warmup)
        tiny = self.succeed("train", "--preset", "tiny", "--help").decode()
        self.assertIn("in the preset tiny", tiny)
        for option, value in values(tiny).items():
            if f"\n{option[2:]} = " in shown:
                self.assertIn(f"\n{option[2:]} = {value}\n", shown)

    def test_help_needs_no_other_option(self):
        self.assertIn(b"Usage: ", self.succeed("prepare", "--output", "x", "--help"))

    def test_version_tells_commit_and_backends(self):
        lines = self.succeed("--version").decode().splitlines()
        self.assertRegex(lines[0], r"^ventris \d+\.\d+\.\d+ \(commit .+\)$")
        self.assertRegex(lines[1], r"^CPU: .*oneDNN \d+\.\d+")
        used, built = re.fullmatch(r"ISA:  (\S+), of (.+)", lines[2]).groups()
        self.assertIn(used, built.split(", "))
        self.assertIn(built, ("avx2, avx512, avx512-bf16", "native", "neon"))
        self.assertTrue(lines[3].startswith("MPI: "))
        self.assertRegex(lines[4], r"^CUDA: (no$|yes, CUDA \d+\.\d+, architectures )")
        self.assertRegex(lines[5], r"^NCCL: (no|\d+\.\d+\.\d+)$")

    def test_the_version_as_json(self):
        lines = self.succeed("--version").decode().splitlines()
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
    def test_no_command_is_help(self):
        self.assertEqual(self.succeed(), self.succeed("help"))

    def test_unknown_command_suggests_one(self):
        self.refuse(64, "trian", says="did you mean 'train'?")
        self.refuse(64, "help", "trian", says="trian")

    def test_unknown_option_suggests_one(self):
        self.refuse(64, "train", "--max-stpes", "5", says=["--max-stpes", "did you mean --max-steps?"])
        self.refuse(64, "translate", "--beam", "5", says="did you mean --beam-size?")
        self.refuse(64, "bleu", "--zzzzzzzz", "5", says="--zzzzzzzz")

    def test_the_synopsis_is_indented_by_four_and_goes_on_by_eight(self):
        for command in commands():
            text = self.succeed(command, "--help", "all").decode()
            first, *others = text.split("SYNOPSIS\n")[1].split("\n\n")[0].split("\n")
            self.assertRegex(first, r"^ {4}\S")
            for line in others:
                self.assertRegex(line, r"^ {8}\S")

    def test_a_word_too_many_is_named(self):
        self.refuse(64, "train", "corpus.h5", "--max-steps", "5", says="unexpected argument 'corpus.h5'")
        self.refuse(64, "train", "--max-steps", "5", "corpus.h5", says="unexpected argument 'corpus.h5'")
        self.refuse(64, "average", "--json", "foo", says="unexpected argument 'foo'")
        self.refuse(64, "average", "--output=a.h5", "foo", says="unexpected argument 'foo'")

    def test_a_path_that_cannot_be_looked_at_is_a_missing_input(self):
        loop = self.path("loop")
        os.symlink(loop, loop)
        for path in (loop, "x" * 300):
            self.refuse(66, "inspect", path, says=[path])
            self.refuse(66, "translate", "--model", path, says=[path])

    def test_names_of_other_programs_are_known(self):
        for command, names in {
            "train": {"--lr": "peak-learning-rate", "--arch": "preset", "--mini-batch": "batch-target-tokens", "--max-tokens": "batch-target-tokens",
                      "-b": "valid-beam-size", "--update-freq": "micro-batch-tokens", "--dim-emb": "d-model", "--after": "max-steps",
                      "--exponential-smoothing": "ema", "--model": "model-dir", "--vocabs": "corpus", "-m": "model-dir", "-w": "micro-batch-tokens"},
            "translate": {"--beam": "beam-size", "-b": "beam-size", "-m": "model", "--path": "model", "--lenpen": "length-penalty", "-n": "length-penalty",
                          "--nbest": "n-best", "--mini-batch": "batch-sentences", "--max-tokens": "batch-rows", "--fp16": "precision"},
            "evaluate": {"-i": "source", "--tok": "tokenize"},
            "bleu": {"--tok": "tokenize", "--lc": "lowercase", "-t": "reference", "--num-refs": "reference", "-nr": "reference"},
            "prepare": {"--trainpref": "train-sets", "--destdir": "output", "--workers": "threads", "--vocabs": "tokenizer-model"},
        }.items():  # fmt: skip
            for name, ours in names.items():
                self.refuse(64, command, name, "5", says=f"unknown option {name}; did you mean --{ours}? 'ventris help other-programs'")
        unknown = {"train": ("--sync-sgd", "--nnodes"), "translate": ("--remove-bpe", "--gen-subset", "-i"), "bleu": ("--force", "--quiet")}
        for command, names in unknown.items():
            for name in names:
                self.refuse(64, command, name, "5", says=f"unknown option {name}; no such option is needed: 'ventris help other-programs'")
        file = self.write("marian.ini", "mini-batch = 64\n")
        self.refuse(78, "train", "--config", file, says=["'mini-batch'", "did you mean 'batch-target-tokens'?"])

    def test_the_table_of_names_in_the_guide_is_that_of_the_program(self):
        with open(os.path.join(support.SOURCE_DIR, "docs", "guide.md"), encoding="utf-8") as file:
            section = file.read().partition("### Names in other programs")[2].partition("\n### ")[0]
        rows = [line.split("|")[1:-1] for line in section.splitlines() if line.startswith("| `")]
        self.assertGreater(len(rows), 30)
        for names, ours, more in rows:
            expected = {f"did you mean --{name}?" for name in re.findall(r"--([a-z0-9-]+)", ours + more)} or {"no such option is needed"}
            for name in re.findall(r"`([^`]+)`", names):
                told = [support.run(command, "--" + name).stderr.decode() for command in ("train", "prepare", "translate", "bleu")]
                self.assertTrue(any(words in text for words in expected for text in told), (name, expected, told))

    def test_what_stands_in_another_place_elsewhere_is_told(self):
        text = self.write("text", "a\n")
        self.refuse(64, "bleu", text, "-m", "chrf++", says="chrF++ is 'chrf' with --chrf-word-order 2")
        self.refuse(65, "translate", "--model", text, text, says=["not an HDF5 file written by ventris", f"{text} < TEXT"])

    def test_a_short_option_is_no_file(self):
        self.refuse(64, "inspect", "-v", says=["unknown option -v", "a file of that name is ./-v"])
        self.refuse(64, "inspect", "-verify", says=["unknown option -verify", "did you mean --verify?"])
        self.refuse(64, "train", "-q", "5", says=["unknown option -q", "'ventris train --help all' lists the options"])
        self.refuse(64, "bleu", "--reference", "a", "-q", says="unknown option -q")
        # These are values.
        self.refuse(64, "train", "--max-steps", "-1", says="--max-steps must be")
        self.refuse(64, "train", "--learning-rate-scale", "-.5e1", says="--learning-rate-scale must be above 0")
        self.refuse(66, "train", "--model-dir", "m", "--corpus", "-c", says="-c: ")
        reference = self.write("reference", "a b c d e\n")
        self.assertIn(b" = 100", self.succeed("bleu", "--reference", reference, "--input", "-", stdin=b"a b c d e\n"))

    def test_prefixes_of_options_are_not_guessed(self):
        self.refuse(64, "train", "--max-step", "5", says="unknown option --max-step")

    def test_required_options(self):
        self.refuse(64, "prepare", "--output", "x", says="no training files given; pass --train-sets")
        self.refuse(64, "train", "--model-dir", "x", says="--corpus is required")
        self.refuse(64, "inspect", says="FILE_OR_DIR is required")
        self.refuse(64, "average", "--output", "x", says=["--model-dir", "--checkpoints"])
        self.refuse(64, "average", "--checkpoints", "a", "--last", 2, "--output", "x", says=["--checkpoints", "--last"])

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
            ("--precision", "int8", "f32, bf16"),
        ):
            self.refuse(64, "train", option, value, says=[option, says])

    def test_the_ends_of_a_range_are_in_it(self):
        for option, low, high in (("repetition-penalty", 0.01, 100), ("temperature", 0.001, 1000), ("top-p", 1e-6, 1)):
            for value in (low, high):
                words = ("translate", "--model", self.path("none"), "--sample", f"--{option}", value)
                self.refuse(66, *words, says="none")
            for value in (0.99 * low, 1.01 * high):
                self.refuse(64, *words[:-1], value, says=f"--{option} must be from")

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

    def test_help_names_only_options_of_the_command(self):
        self.assertIn(b"--sentence-level", self.succeed("bleu", "--help", "all"))
        self.assertNotIn(b"--sentence-level", self.succeed("evaluate", "--help", "all"))

    def test_missing_values_and_unexpected_words(self):
        self.refuse(64, "train", "--max-steps", says="--max-steps needs a value")
        self.refuse(64, "train", "word", says="'word'")
        self.refuse(64, "translate", "--beam-size", "--model", "m", says=["--beam-size needs a value: N", "'--model'"])
        for alias in ("--smooth-method", "-s"):
            self.refuse(64, "evaluate", alias, "--model", "m", says=["--smooth needs a value: exp|floor", "'--model'"])
        self.refuse(64, "bleu", "r", "--input", "--lowercase", says=["--input needs a value", "'--lowercase'"])
        self.refuse(64, "prepare", "--train-sets", "--output=x", says="--train-sets needs a value")
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
    def test_score_with_signature(self):
        reference = self.write("reference", "The cat sat on the mat .\nIt rains today again , my friend .\n")
        line = self.succeed("bleu", "--reference", reference, stdin=self.read(reference)).decode()
        self.assertRegex(
            line, r"^BLEU\|nrefs:1\|case:mixed\|eff:no\|tok:13a\|smooth:exp\|version:2\.[\d.]+\|ventris:\S+ = 100\.0"
        )

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
        options = ["--input", text, "--reference", reference, "--metrics", "chrf", "bleu", "--chrf-word-order", 2]
        lines = self.succeed("bleu", *options, "--confidence", "--confidence-n", 200).decode().splitlines()
        self.assertEqual([line.split("|")[0].strip() for line in lines], ["BLEU", "chrF2++"])
        self.assertEqual(len({line.index("=") for line in lines}), 1)
        for line in lines:
            self.assertRegex(line, r"\|nrefs:1\|bs:200\|seed:12345\|case:.*\|version:2\.\S+ = \d+\.\d\d \(μ = \d+\.\d\d ± \d+\.\d\d\)")
        objects = json.loads(self.succeed("bleu", *options, "--confidence", "--json"))
        self.assertEqual([o["name"] for o in objects], ["BLEU", "chrF2++"])
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
            self.assertEqual(len({len(line) for line in table.splitlines() if line.startswith(tuple("╒╞├╘│"))}), 1, table)
            self.assertIn(f"BLEU|nrefs:1|{test}:100|seed:12345|", table)
            systems = json.loads(self.succeed("bleu", *options, "--json"))
            self.assertEqual([s["system"] for s in systems], [f"Baseline: {good}", bad])
            self.assertIsNone(systems[0]["BLEU"]["p_value"])
            self.assertLess(systems[1]["BLEU"]["p_value"], 0.05)
        self.refuse(64, "bleu", "--input", good, "--reference", reference, "--paired-bs", says="baseline")
        self.refuse(64, "bleu", "--input", good, bad, "--reference", reference, "--confidence", says="--paired-bs")
        self.refuse(64, "bleu", "--input", good, "--reference", reference, "--metrics", "meteor", says="meteor")
        self.refuse(
            64, "bleu", "--input", good, "--reference", reference, "--metrics", "bleu", "chrf", "--sentence-level",
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
