# SPDX-License-Identifier: Apache-2.0
"""A trained model in use: export, average, translate, evaluate, on one and two ranks."""

import json
import os
import re
import shutil
import subprocess
import unittest

import h5py
import numpy

import support
from digest_test import seal_hdf5


class TrainedModel(support.CommandLineTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        corpus = cls.prepare_demo()
        cls.model = os.path.join(cls.folder, "model")
        ranks = 2 if support.MPIEXEC else 1
        result = support.run(
            "train",
            "--corpus",
            corpus,
            "--model-dir",
            cls.model,
            *support.TINY_MODEL,
            "--max-steps",
            300,
            "--save-every",
            100,
            "--learning-rate-scale",
            0.5,
            ranks=ranks
        )
        assert result.returncode == 0, result.stderr.decode(errors="replace")
        cls.weights = os.path.join(cls.folder, "weights.h5")
        result = support.run("export", "--model", cls.model, "--output", cls.weights)
        assert result.returncode == 0, result.stderr.decode(errors="replace")

    def source(self):
        return self.read(self.demo_path("test.en"))

    def translate(self, *options, model=None, stdin=None, **more):
        stdin = self.source() if stdin is None else stdin
        return self.succeed("translate", "--model", model or self.weights, *options, stdin=stdin, **more)

    def test_the_weights_open_in_h5py(self):
        shapes = {}
        with h5py.File(self.weights, "r") as file:
            file["model"].visititems(
                lambda name, item: (
                    shapes.__setitem__(name, item.shape) if isinstance(item, h5py.Dataset) else None
                )
            )
            for dataset in (file["model/embedding"], file["model/decoder/layers/1/feed_forward/norm/gamma"]):
                self.assertEqual(dataset.dtype, numpy.float32)
                self.assertTrue(numpy.isfinite(dataset[()]).all())
            self.assertIn("config", file.attrs)
            self.assertGreater(len(file["tokenizer"]), 1000)
        self.assertEqual(shapes["embedding"], (support.VOCABULARY, 32))
        self.assertEqual(shapes["encoder/layers/0/self_attention/query/weight"], (32, 32))
        self.assertEqual(shapes["encoder/layers/0/self_attention/query/bias"], (32,))
        self.assertEqual(shapes["encoder/layers/0/feed_forward/inner/weight"], (32, 64))
        self.assertEqual(shapes["decoder/layers/1/cross_attention/key/weight"], (32, 32))
        self.assertNotIn("encoder/layers/1/self_attention/query/weight", shapes)
        listed = json.loads(self.succeed("inspect", self.weights, "--json"))
        self.assertEqual(listed["parameters"], sum(int(numpy.prod(shape)) for shape in shapes.values()))
        self.assertEqual(listed["config"]["d_model"], 32)

    def test_weights_checkpoint_and_run_folder_translate_alike(self):
        expected = self.translate()
        self.assertEqual(expected.count(b"\n"), 24)
        self.assertGreater(len(set(expected.splitlines())), 3)
        checkpoint = os.path.join(self.model, "checkpoint-00000300.h5")
        self.assertEqual(self.translate(model=checkpoint), expected)
        self.assertEqual(self.translate(model=self.model), expected)

    def test_export_of_an_export_is_the_same_model(self):
        self.succeed("export", "--model", self.weights, "--output", self.path("again.h5"))
        self.assertEqual(self.translate(model=self.path("again.h5")), self.translate())

    def test_results_do_not_depend_on_blocks_batches_or_threads(self):
        for precision in ("f32", "bf16", "int8"):
            for how in (("--beam-size", 4, "--n-best", 4), ("--sample", "--n-best", 2), ("--beam-size", 1)):
                options = ("--precision", precision, *how)
                expected = self.translate(*options)
                for other in (
                    ("--block-lines", 5),
                    ("--batch-rows", 1),
                    ("--batch-rows", 64),
                    ("--batch-sentences", 7),
                    ("--threads", 2),
                    ("--threads", 3, "--batch-rows", 30),
                    ("--interactive",),
                ):
                    self.assertEqual(self.translate(*options, *other), expected, (options, other))
        expected = self.translate()
        backwards = b"".join(reversed(self.source().splitlines(keepends=True)))
        self.assertEqual(list(reversed(self.translate(stdin=backwards).splitlines())), expected.splitlines())

    @unittest.skipUnless(support.MPIEXEC, "built without MPI")
    def test_translations_on_several_ranks_are_the_same_file(self):
        for options in (("--n-best", 4), ("--sample",), ("--precision", "bf16", "--n-best", 2), ("--precision", "int8", "--n-best", 3)):
            expected = self.translate(*options)
            for ranks in (2, 3):
                self.assertEqual(self.translate(*options, ranks=ranks), expected, (options, ranks))

    @unittest.skipUnless(support.MPIEXEC, "built without MPI")
    def test_ranks_that_differ_are_refused(self):
        early = os.path.join(self.model, "checkpoint-00000100.h5")
        texts = ["--source", self.demo_path("test.en")]
        words = {
            "translate": [],
            "evaluate": [*texts, "--reference", self.demo_path("test.de")],
            "score": [*texts, "--target", self.demo_path("test.de")],
        }
        cases = [
            ("translate", ["--max-length", 6], "option max-length"),
            ("translate", ["--prefix", self.demo_path("test.de")], "option prefix"),
            ("evaluate", ["--beam-size", 1], "option beam-size"),
            ("score", ["--per-word"], "option per-word"),
            *((command, ["--model", early], "the digests of the models' files") for command in words),
            ("translate", ["--model", self.weights, self.weights], "the digests of the models' files"),
        ]
        for command, differs, says in cases:
            with self.subTest(command=command, differs=differs):
                own = ["--model", self.weights] if "--model" not in differs else []
                job = support.command(command, "--model", self.weights, *words[command], ranks=2)
                job[job.index("2")] = "1"
                other = [support.BINARY, command, *own, *words[command], *map(str, differs)]
                result = subprocess.run(
                    [*job, ":", "-np", "1", *other], capture_output=True, stdin=subprocess.DEVNULL, timeout=120, check=False
                )
                self.assertEqual(result.returncode, 76, result.stderr)
                self.assertIn(f"the ranks disagree on {says}", result.stderr.decode())
                self.assertEqual(result.stdout, b"")

    def test_empty_input_and_empty_lines(self):
        self.assertEqual(self.translate(stdin=b""), b"")
        self.assertEqual(self.translate(stdin=b"\n"), b"\n")
        lines = self.translate(stdin=b"\nhalf past seven\n   \n\nthe end").split(b"\n")
        self.assertEqual((len(lines), lines[0], lines[2], lines[3], lines[5]), (6, b"", b"", b"", b""))
        self.assertNotEqual(lines[1], b"")

    def test_odd_lines(self):
        self.assertEqual(
            self.translate(stdin=b"half past seven\r\n"), self.translate(stdin=b"half past seven\n")
        )
        self.assertEqual(self.translate(stdin="日本語 \U0001f600\n".encode()).count(b"\n"), 1)
        self.refuse(65, "translate", "--model", self.weights, stdin=b"good\nK\xe4se\n", says=[":2:", "UTF-8"])

    def test_a_sentence_longer_than_the_model_is_cut_and_told(self):
        result = support.run(
            "translate",
            "--model",
            self.weights,
            "--beam-size",
            1,
            "--max-extra-length",
            0,
            stdin=b"seven " * 3000 + b"\n",
        )
        self.assertEqual((result.returncode, result.stdout.count(b"\n")), (0, 1))
        self.assertIn(b"line 1 has 3,", result.stderr)
        self.assertIn(b"1 of 1 sentences", result.stderr)
        self.assertIn(b"cut", result.stderr)

    def test_statistics_come_last_on_the_standard_error(self):
        result = support.run(
            "translate", "--model", self.weights, "--statistics", "--batch-sentences", 5, stdin=self.source()
        )
        self.assertEqual(result.returncode, 0)
        self.assertEqual(result.stdout, self.translate())
        statistics = json.loads(result.stderr.decode().splitlines()[-1])
        self.assertEqual(sorted(statistics), ["cpu_seconds", "peak_mib", "seconds", "sentences", "tokens"])
        self.assertEqual(statistics["sentences"], 24)
        self.assertGreaterEqual(statistics["tokens"], len(result.stdout.split()))
        self.assertGreater(statistics["seconds"], 0)

    def test_n_best(self):
        lines = self.translate("--n-best", 3, "--beam-size", 4).decode().splitlines()
        best = self.translate("--beam-size", 4).decode().splitlines()
        groups = {}
        for line in lines:
            number, text, score = line.split(" ||| ")
            groups.setdefault(int(number), []).append((text, float(score)))
        self.assertEqual(sorted(groups), list(range(24)))
        for number, hypotheses in groups.items():
            self.assertTrue(1 <= len(hypotheses) <= 3)
            scores = [score for _, score in hypotheses]
            self.assertEqual(scores, sorted(scores, reverse=True))
            self.assertLess(scores[0], 0)
            self.assertEqual(hypotheses[0][0], best[number])

    def test_samples(self):
        options = ("--sample", "--temperature", 1.3, "--top-k", 40, "--top-p", 0.95, "--n-best", 3)
        first = self.translate(*options, "--seed", 3)
        self.assertEqual(self.translate(*options, "--seed", 3), first)
        self.assertNotEqual(self.translate(*options, "--seed", 4), first)
        self.assertEqual(first.count(b"\n"), 72)
        greedy = self.translate("--beam-size", 1)
        self.assertEqual(self.translate("--sample", "--top-k", 1), greedy)
        # A line is drawn as its number in the input says, whatever comes before it.
        source = self.source().splitlines(keepends=True)
        changed = b"".join([b"one\n", *source[1:]])
        got = self.translate(*options, "--seed", 3, stdin=changed).splitlines()
        self.assertEqual(got[3:], first.splitlines()[3:])

    def test_lengths_and_repetition(self):
        long = self.translate("--min-length", 12).decode().splitlines()
        short = self.translate("--max-length", 2).decode().splitlines()
        for long_line, short_line in zip(long, short):
            self.assertGreater(len(long_line), len(short_line))
        for line in self.translate("--no-repeat-ngram", 1, "--min-length", 12).decode().splitlines():
            words = line.split()
            self.assertEqual(len(words), len(set(words)), line)
        self.assertNotEqual(self.translate("--repetition-penalty", 5, "--min-length", 12).decode().splitlines(), long)

    def test_prefixes(self):
        source = self.source().decode().splitlines()
        prefixes = ["der Zug" if i % 2 else "" for i in range(len(source))]
        file = self.write("prefixes", "\n".join(prefixes) + "\n")
        free = self.translate().decode().splitlines()
        got = self.translate("--prefix", file).decode().splitlines()
        for i, line in enumerate(got):
            if prefixes[i]:
                self.assertTrue(line.startswith(prefixes[i]), line)
            else:
                self.assertEqual(line, free[i])
        columns = "".join(f"{a}\t{b}\n" if b else f"{a}\n" for a, b in zip(source, prefixes)).encode()
        options = ("--prefix-column", "--block-lines", 7)
        self.assertEqual(self.translate(*options, stdin=columns).decode().splitlines(), got)
        model = ("translate", "--model", self.weights)
        short = self.write("one-prefix", "a\n")
        self.refuse(65, *model, "--prefix", short, stdin=b"one\ntwo\n", says=["one-prefix", "1 lines"])
        result = support.run(*model, "--prefix", file, stdin=b"one\n")
        self.assertEqual(result.returncode, 65)
        self.assertIn(b"more lines", result.stderr)
        self.refuse(66, *model, "--prefix", self.path("none"), stdin=b"one\n", says="none")
        self.refuse(64, *model, "--prefix", short, "--prefix-column", stdin=b"one\n", says="exclude")

    def test_ensembles(self):
        single = self.translate("--n-best", 2).decode().splitlines()
        twice = self.translate("--n-best", 2, "--model", self.weights).decode().splitlines()
        for got, expected in zip(twice, single):
            got, expected = got.split(" ||| "), expected.split(" ||| ")
            self.assertEqual(got[:2], expected[:2])
            self.assertAlmostEqual(float(got[2]), float(expected[2]), delta=1e-4)
        early = os.path.join(self.model, "checkpoint-00000100.h5")
        self.assertEqual(self.translate("--model", early).count(b"\n"), 24)

    def test_an_ensemble_of_different_vocabularies_is_refused(self):
        other = self.path("other.h5")
        prepared = self.path("other-corpus.h5")
        self.succeed(
            *("prepare", "--train-sets", self.demo_path("train.en"), self.demo_path("train.de")),
            *("--valid-sets", self.demo_path("valid.en"), self.demo_path("valid.de")),
            *("--vocab-size", 280, "--threads", 2, "--output", prepared)
        )
        self.succeed(
            *("train", "--corpus", prepared, "--model-dir", self.path("other")),
            *(*support.TINY_MODEL, "--max-steps", 1)
        )
        self.succeed("export", "--model", self.path("other"), "--output", other)
        for command in (["translate"], ["score", "--source", self.demo_path("test.en"), "--target", self.demo_path("test.de")]):
            says = ["vocabulary", "other.h5", "300 tokens", "280 tokens"]
            self.refuse(78, *command, "--model", self.weights, other, stdin=b"one\n", says=says)

    def test_interactive_answers_every_line_before_the_next(self):
        words = support.command("translate", "--model", self.weights, "--interactive", "--n-best", 2)
        with subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=support.environment()
        ) as process:
            for i, line in enumerate(self.source().splitlines(keepends=True)[:3]):
                process.stdin.write(line)
                process.stdin.flush()
                answer = [process.stdout.readline(), process.stdout.readline()]
                self.assertTrue(all(text.startswith(b"%d ||| " % i) for text in answer), answer)
            process.stdin.close()
            self.assertEqual(process.stdout.read(), b"")
            self.assertEqual(process.wait(60), 0)

    def evaluate(self, *options, **more):
        return self.succeed(
            "evaluate",
            "--model",
            self.weights,
            "--source",
            self.demo_path("test.en"),
            "--reference",
            self.demo_path("test.de"),
            *options,
            **more
        )

    def test_evaluate_agrees_with_translate_and_bleu(self):
        line = self.evaluate("--output", self.path("test.out"))
        self.assertEqual(self.read(self.path("test.out")), self.translate())
        self.assertEqual(
            self.succeed("bleu", "--input", self.path("test.out"), "--reference", self.demo_path("test.de")),
            line,
        )
        self.assertRegex(line.decode(), r"^BLEU\|nrefs:1\|.*tok:13a.* = \d+\.\d+ ")
        result = json.loads(self.evaluate("--json", "--lowercase", "--tokenize", "none"))
        self.assertEqual(result["sentences"], 24)
        self.assertIn("case:lc", result["signature"])
        self.assertTrue(0 <= result["score"] <= 100)

    def test_evaluate_scores_by_the_protocol_of_the_paper_as_bleu_does(self):
        # Compounds and full stops, which only the protocol cuts off on both sides alike.
        references = self.read(self.demo_path("test.de")).decode().splitlines()
        reference = self.write("paper.de", "".join(line.replace(" ", "-") + " .\n" for line in references))
        texts = ["--source", self.demo_path("test.en"), "--reference", reference]
        paper = ["--protocol", "paper", "--language", "de"]
        output = self.path("paper.out")
        evaluate = ["evaluate", "--model", self.weights, *texts, *paper]
        line = self.succeed(*evaluate, "--output", output).decode()
        self.assertEqual(self.read(output), self.translate())
        bleu = ["bleu", "--input", output, "--reference", reference]
        scored = self.succeed(*bleu, *paper).decode()
        # The label of evaluate tells how the translations were made too.
        label, score = scored.split(" = ", 1)
        settings, version = label.rsplit("|", 1)
        self.assertEqual(line, f"{settings}|averaged:1|beam:4|lenpen:0.6|{version} = {score}")
        self.assertNotEqual(score, self.succeed(*bleu).decode().split(" = ", 1)[1])
        result, other = (json.loads(self.succeed(*words, "--json")) for words in (evaluate, [*bleu, *paper]))
        self.assertGreater(float(score.split("/")[0].split()[-1]), 0, "no word is right")
        for key in ("name", "score", "hypothesis_length", "reference_length"):
            self.assertEqual(result[key], other[key], key)
        self.refuse(64, *evaluate[:-2], says="--language")

    @unittest.skipUnless(support.MPIEXEC, "built without MPI")
    def test_evaluate_gives_the_same_file_and_score_on_any_number_of_ranks(self):
        for options in ((), ("--precision", "bf16", "--sample", "--seed", 2), ("--precision", "int8")):
            line = self.evaluate(*options, "--output", self.path("1.out"))
            for ranks in (2, 3, 4):
                output = self.path(f"{ranks}.out")
                self.assertEqual(self.evaluate(*options, "--output", output, ranks=ranks), line)
                self.assertEqual(self.read(output), self.read(self.path("1.out")))

    def test_evaluate_refuses_texts_that_do_not_fit(self):
        short = self.write("short", "one line\n")
        source = self.demo_path("test.en")
        self.refuse(
            65,
            "evaluate",
            "--model",
            self.weights,
            "--source",
            source,
            "--reference",
            short,
            says=["24", "1"],
        )
        self.refuse(
            66,
            "evaluate",
            "--model",
            self.weights,
            "--source",
            source,
            "--reference",
            self.path("none"),
            says="none",
        )
        empty = self.write("empty", "")
        self.refuse(
            65, "evaluate", "--model", self.weights, "--source", empty, "--reference", empty, says="no lines"
        )

    def test_average(self):
        output = self.path("averaged.h5")
        report = json.loads(
            self.succeed("average", "--model-dir", self.model, "--last", 2, "--output", output, "--json")
        )
        self.assertEqual(
            [os.path.basename(path) for path in report["checkpoints"]],
            ["checkpoint-00000200.h5", "checkpoint-00000300.h5"],
        )
        name = "model/encoder/layers/0/self_attention/query/weight"
        values = []
        for path in (*report["checkpoints"], output):
            with h5py.File(path, "r") as file:
                values.append(file[name][:].astype(numpy.float64))
        self.assertTrue(
            numpy.array_equal(
                ((values[0] + values[1]) / 2).astype(numpy.float32), values[2].astype(numpy.float32)
            )
        )
        self.assertEqual(self.translate(model=output).count(b"\n"), 24)
        self.succeed("average", "--checkpoints", *report["checkpoints"], "--output", self.path("chosen.h5"))
        self.assertEqual(self.translate(model=self.path("chosen.h5")), self.translate(model=output))
        self.refuse(66, "average", "--model-dir", self.model, "--last", 9, "--output", output, says=["holds 3 checkpoints", "the last 9", "--last 3,"])

    def test_the_best_checkpoint_is_gone(self):
        run = self.path("gone")
        shutil.copytree(self.model, run)
        best, newest = (os.path.join(run, f"checkpoint-{step:08}.h5") for step in (200, 300))
        with open(os.path.join(run, "best.json"), "w", encoding="utf-8") as file:
            json.dump({"checkpoint": os.path.basename(best), "metric": "loss", "value": 1.0}, file)
        self.translate(model=run)
        os.remove(best)
        self.refuse(66, "translate", "--model", run, says=[f"{best}: is missing", "best.json", f"the newest: {newest}"])
        self.translate(model=newest)
        for name in os.listdir(run):
            if name.startswith("checkpoint-"):
                os.remove(os.path.join(run, name))
        self.refuse(66, "translate", "--model", run, says=[f"{best}: is missing", "best.json", "no other"])

    def test_the_chosen_checkpoint_is_damaged(self):
        run = self.path("damaged-run")
        shutil.copytree(self.model, run)
        sound, newest = (os.path.join(run, f"checkpoint-{step:08}.h5") for step in (200, 300))
        for damaged in (newest, sound):
            content = bytearray(self.read(damaged))
            content[len(content) // 2] ^= 1
            self.write(damaged, bytes(content))
            others = sorted(os.listdir(run))
            left = os.path.join(run, f"checkpoint-{100 if damaged == sound else 200:08}.h5")
            for command in (["translate"], ["export", "--output", self.path("w.h5")]):
                self.refuse(65, *command, "--model", run, says=[newest, "digest", f"{left} is sound", "in place of the folder"])
            self.refuse(65, "average", "--model-dir", run, "--last", 2, "--output", self.path("w.h5"), says=[damaged, "digest", "--checkpoints"])
            self.assertEqual(sorted(os.listdir(run)), others)
            self.translate(model=left)
        with h5py.File(left, "r+") as file:  # as a faulty machine might write it
            file.attrs["parameter_digest"] = numpy.bytes_("0" * 32)
        seal_hdf5(left)
        self.refuse(65, "translate", "--model", run, says=[newest, "digest", "No checkpoint of that folder is sound"])

    def test_another_is_named_where_the_best_is_gone(self):
        run = self.path("best-gone")
        shutil.copytree(self.model, run)
        best, newest, older = (os.path.join(run, f"checkpoint-{step:08}.h5") for step in (400, 300, 200))
        with open(os.path.join(run, "best.json"), "w", encoding="utf-8") as file:
            json.dump({"checkpoint": os.path.basename(best), "metric": "loss", "value": 1.0}, file)
        os.symlink("nowhere", best)
        self.refuse(66, "translate", "--model", run, says=[f"{best}: is missing", f"the newest: {newest}"])
        shutil.copy(self.weights, newest)
        os.truncate(newest, 9)
        self.refuse(66, "translate", "--model", run, says=[f"{best}: is missing", f"the newest: {older}"])
        with open(os.path.join(run, "best.json"), "w", encoding="utf-8") as file:
            json.dump({"checkpoint": "../" + os.path.basename(best)}, file)
        self.refuse(65, "translate", "--model", run, says=["best.json", "a checkpoint of its folder"])

    def test_a_run_folder_holds_what_is_no_checkpoint_of_its_name(self):
        run = self.path("mixed")
        shutil.copytree(self.model, run)
        newest, older = (os.path.join(run, f"checkpoint-{step:08}.h5") for step in (300, 200))
        for source, says in (
            (self.weights, "is named as a checkpoint, but its format is 'ventris weights 1'"),
            (self.path("corpus.h5"), "is named as a checkpoint, but its format is 'ventris-corpus'"),
            (older, "holds step 200, not that of its name"),
        ):
            shutil.copy(source, newest)
            self.refuse_verifying(65, run, [newest, says])
        os.remove(newest)
        os.symlink("nowhere", newest)
        self.refuse_verifying(66, run, [newest])

    def refuse_verifying(self, code, run, says):
        """The sound checkpoints are listed before."""
        result = support.run("inspect", run, "--verify")
        self.assertEqual(result.returncode, code)
        for words in says:
            self.assertIn(words, result.stderr.decode())

    def test_damaged_and_missing_models(self):
        damaged = bytearray(self.read(self.weights))
        damaged[len(damaged) // 2] ^= 1
        file = self.write("damaged.h5", bytes(damaged))
        self.refuse(65, "translate", "--model", file, stdin=b"x\n", says="damaged.h5")
        self.refuse(65, "inspect", file, "--verify", says="damaged.h5")
        self.refuse(66, "translate", "--model", self.path("none.h5"), stdin=b"x\n", says="none.h5")
        os.makedirs(self.path("hollow"), exist_ok=True)
        self.refuse(
            66, "export", "--model", self.path("hollow"), "--output", self.path("w.h5"), says="hollow"
        )
        corpus = self.path("corpus.h5")
        self.refuse(65, "translate", "--model", corpus, stdin=b"x\n", says="corpus.h5")
        self.refuse(73, "export", "--model", self.weights, "--output", self.path("none", "w.h5"), says="none")

    def test_int8_has_the_same_bits_with_all_instructions_and_is_near_f32(self):
        options = ("--precision", "int8", "--n-best", 4)
        expected = self.translate(*options)
        version = self.succeed("--version").decode()
        best, built = re.search(r"^ISA:  (\S+), of (.+)$", version, re.MULTILINE).groups()
        sets = built.split(", ")
        for name in sets[: sets.index(best) + 1]:
            self.assertEqual(self.translate(*options, "--isa", name), expected, name)
            self.assertEqual(self.translate(*options, "--isa", name, variables={"VENTRIS_VNNI": "0"}), expected, name)

        words = ["score", "--model", self.weights, "--source", self.demo_path("test.en"), "--target", self.demo_path("test.de")]
        exact, rounded = (
            [line.split("\t") for line in self.succeed(*words, "--precision", precision).decode().splitlines()]
            for precision in ("f32", "int8")
        )
        self.assertNotEqual(exact, rounded)
        # Of a word, in the mean of a sentence.
        differences = [abs(float(a) - float(b)) / int(length) for (a, length), (b, _) in zip(exact, rounded, strict=True)]
        self.assertLess(max(differences), 0.1)
        self.assertLess(sum(differences) / len(differences), 0.03)

    def test_scores_of_int8_are_those_of_its_translations(self):
        options = ("--precision", "int8", "--length-penalty", 0, "--n-best", 1)
        lines = [line.split(" ||| ") for line in self.translate(*options).decode().splitlines()]
        target = self.write("int8.out", "".join(text + "\n" for _, text, _ in lines))
        words = ["score", "--model", self.weights, "--source", self.demo_path("test.en"), "--target", target]
        scores = [float(line.split("\t")[0]) for line in self.succeed(*words, "--precision", "int8").decode().splitlines()]
        # Where the text comes to other pieces of the vocabulary, as much of what so small a model writes does, the score is of another output.
        near = sum(abs(float(line[2]) - score) < 1e-5 for line, score in zip(lines, scores, strict=True))
        self.assertGreaterEqual(near, len(lines) // 3, list(zip(lines, scores)))

    def test_bf16_translates(self):
        self.assertEqual(self.translate("--precision", "bf16").count(b"\n"), 24)


if __name__ == "__main__":
    unittest.main(verbosity=2)
