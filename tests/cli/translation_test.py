# SPDX-License-Identifier: Apache-2.0
"""A trained model in use: export, average, translate, evaluate, on one and two ranks."""

import json
import os
import re
import shutil
import subprocess
import unittest


import support


class TrainedModel(support.RunTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.model = cls.path("model")
        words = cls.train("model", max_steps=300, save_every=100, learning_rate_scale=0.5)
        cls.made(*words, ranks=2 if support.MPIEXEC else 1)
        cls.early, cls.newest = cls.checkpoint("model", 100), cls.checkpoint("model", 300)
        cls.weights = cls.path("weights.h5")
        cls.made("export", "--model", cls.model, "--output", cls.weights)
        cls.source, cls.reference = cls.demo_path("test.en"), cls.demo_path("test.de")
        # Of many options some lines are enough.
        cls.few = b"".join(cls.read(cls.source).splitlines(True)[:8])

    def translate(self, *options, model=None, stdin=None, **more):
        stdin = self.read(self.source) if stdin is None else stdin
        return self.succeed("translate", "--model", model or self.weights, *options, stdin=stdin, **more)

    def evaluate(self, *options, **more):
        return self.succeed("evaluate", "--model", self.weights, "--source", self.source, "--reference", self.reference, *options, **more)

    def test_weights_checkpoint_run_folder_and_an_export_of_an_export_translate_alike(self):
        expected = self.translate()
        self.assertEqual(expected.count(b"\n"), 24)
        self.assertGreater(len(set(expected.splitlines())), 3)
        self.succeed("export", "--model", self.weights, "--output", self.path("again.h5"))
        for model in (self.newest, self.model, self.path("again.h5")):
            self.assertEqual(self.translate(model=model), expected)

    def test_results_do_not_depend_on_blocks_batches_threads_or_ranks(self):
        for precision in ("f32", "bf16", "int8"):
            for how in (("--beam-size", 4, "--n-best", 4), ("--sample", "--n-best", 2)):
                options = ("--precision", precision, *how)
                expected = self.translate(*options, stdin=self.few)
                others = [("--block-lines", 5, "--batch-sentences", 3), ("--batch-rows", 1), ("--threads", 3, "--batch-rows", 30), ("--interactive",)]
                for other in others:
                    self.assertEqual(self.translate(*options, *other, stdin=self.few), expected, (options, other))
                if support.MPIEXEC:
                    self.assertEqual(self.translate(*options, stdin=self.few, ranks=3), expected, options)
        backwards = b"".join(reversed(self.few.splitlines(keepends=True)))
        self.assertEqual(self.translate(stdin=backwards).splitlines()[::-1], self.translate(stdin=self.few).splitlines())

    @unittest.skipUnless(support.MPIEXEC, "built without MPI")
    def test_ranks_that_differ_are_refused(self):
        texts = ["--source", self.source]
        words = {"translate": [], "evaluate": [*texts, "--reference", self.reference], "score": [*texts, "--target", self.reference]}
        for command, differs, says in (
            ("translate", ["--max-length", 6], "option max-length"),
            ("evaluate", ["--beam-size", 1], "option beam-size"),
            ("score", ["--per-word"], "option per-word"),
            ("translate", ["--model", self.early], "the digests of the models' files"),
        ):
            with self.subTest(command=command, differs=differs):
                job = support.command(command, "--model", self.weights, *words[command], ranks=2)
                job[job.index("2")] = "1"
                own = ["--model", self.weights] if "--model" not in differs else []
                other = ["-np", "1", support.BINARY, command, *own, *words[command], *map(str, differs)]
                result = subprocess.run([*job, ":", *other], capture_output=True, stdin=subprocess.DEVNULL, timeout=600, check=False)
                self.assertEqual(result.returncode, 76, result.stderr)
                self.assertIn(f"the ranks disagree on {says}", result.stderr.decode())
                self.assertEqual(result.stdout, b"")

    def test_odd_input(self):
        self.assertEqual(self.translate(stdin=b""), b"")
        lines = self.translate(stdin=b"\nhalf past seven\r\n   \n\nhalf past seven").split(b"\n")
        self.assertEqual((len(lines), lines[0], lines[2], lines[3], lines[5]), (6, b"", b"", b"", b""))
        self.assertEqual(lines[1], lines[4])
        self.assertNotEqual(lines[1], b"")
        self.assertEqual(self.translate(stdin="日本語 \U0001f600\n".encode()).count(b"\n"), 1)
        self.refuse(65, "translate", "--model", self.weights, stdin=b"good\nK\xe4se\n", says=[":2:", "UTF-8"])
        said = self.told("translate", "--model", self.weights, "--beam-size", 1, "--max-extra-length", 0, stdin=b"seven " * 3000 + b"\n")
        self.assertIn("line 1 has 3,", said)
        self.assertIn("1 of 1 sentences", said)

    def test_n_best(self):
        best = self.translate("--beam-size", 4).decode().splitlines()
        groups = {}
        for line in self.translate("--n-best", 3, "--beam-size", 4).decode().splitlines():
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
        options = ("--sample", "--temperature", 1.3, "--top-k", 40, "--top-p", 0.95, "--n-best", 3, "--seed")
        first = self.translate(*options, 3)
        self.assertEqual(first.count(b"\n"), 72)
        self.assertNotEqual(self.translate(*options, 4), first)
        self.assertEqual(self.translate("--sample", "--top-k", 1), self.translate("--beam-size", 1))
        # A line is drawn as its number in the input says, whatever comes before it.
        changed = b"".join([b"one\n", *self.read(self.source).splitlines(keepends=True)[1:]])
        self.assertEqual(self.translate(*options, 3, stdin=changed).splitlines()[3:], first.splitlines()[3:])

    def test_prefixes(self):
        source = self.read(self.source).decode().splitlines()
        prefixes = ["der Zug" if i % 2 else "" for i in range(len(source))]
        file = self.write("prefixes", "\n".join(prefixes) + "\n")
        free = self.translate().decode().splitlines()
        got = self.translate("--prefix", file).decode().splitlines()
        for i, line in enumerate(got):
            self.assertTrue(line.startswith(prefixes[i]) if prefixes[i] else line == free[i], line)
        columns = "".join(f"{a}\t{b}\n" if b else f"{a}\n" for a, b in zip(source, prefixes)).encode()
        self.assertEqual(self.translate("--prefix-column", "--block-lines", 7, stdin=columns).decode().splitlines(), got)
        model, short = ("translate", "--model", self.weights), self.write("one-prefix", "a\n")
        self.refuse(65, *model, "--prefix", short, stdin=b"one\ntwo\n", says=["one-prefix", "1 lines"])
        self.assertIn("more lines", self.told(*model, "--prefix", file, stdin=b"one\n", code=65))
        self.refuse(66, *model, "--prefix", self.path("none"), stdin=b"one\n", says="none")
        self.refuse(64, *model, "--prefix", short, "--prefix-column", stdin=b"one\n", says="exclude")

    def test_ensembles(self):
        single = self.translate("--n-best", 2).decode().splitlines()
        twice = self.translate("--n-best", 2, "--model", self.weights).decode().splitlines()
        for got, expected in zip(twice, single):
            got, expected = got.split(" ||| "), expected.split(" ||| ")
            self.assertEqual(got[:2], expected[:2])
            self.assertAlmostEqual(float(got[2]), float(expected[2]), delta=1e-4)
        self.assertEqual(self.translate("--model", self.early).count(b"\n"), 24)
        # Of different vocabularies it is refused.
        sides = ("--train-sets", self.demo_path("train.en"), self.demo_path("train.de"))
        corpus = self.path("other-corpus.h5")
        self.succeed("prepare", *sides, "--vocab-size", 280, "--threads", 2, "--output", corpus)
        self.succeed(*self.train("other", corpus=corpus, max_steps=1))
        other = self.checkpoint("other", 1)
        for command in (["translate"], ["score", "--source", self.source, "--target", self.reference]):
            says = ["vocabulary", other, "300 tokens", "280 tokens"]
            self.refuse(78, *command, "--model", self.weights, other, stdin=b"one\n", says=says)

    def test_interactive_answers_every_line_before_the_next(self):
        words = support.command("translate", "--model", self.weights, "--interactive", "--n-best", 2)
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=support.environment()) as process:
            for i, line in enumerate(self.few.splitlines(keepends=True)[:3]):
                process.stdin.write(line)
                process.stdin.flush()
                answer = [process.stdout.readline(), process.stdout.readline()]
                self.assertTrue(all(text.startswith(b"%d ||| " % i) for text in answer), answer)
            process.stdin.close()
            self.assertEqual(process.stdout.read(), b"")
            self.assertEqual(process.wait(60), 0)

    def test_evaluate_agrees_with_translate_and_bleu(self):
        line = self.evaluate("--output", self.path("test.out"))
        self.assertEqual(self.read(self.path("test.out")), self.translate())
        self.assertEqual(self.succeed("bleu", "--input", self.path("test.out"), "--reference", self.reference), line)
        result = json.loads(self.evaluate("--json", "--lowercase", "--tokenize", "none"))
        self.assertEqual(result["sentences"], 24)
        self.assertIn("case:lc", result["signature"])

    def test_evaluate_scores_by_the_protocol_of_the_paper_as_bleu_does(self):
        # Compounds and full stops, which only the protocol cuts off on both sides alike.
        references = self.read(self.reference).decode().splitlines()
        reference = self.write("paper.de", "".join(line.replace(" ", "-") + " .\n" for line in references))
        output, paper = self.path("paper.out"), ["--protocol", "paper", "--language", "de"]
        evaluate = ["evaluate", "--model", self.weights, "--source", self.source, "--reference", reference, *paper]
        line = self.succeed(*evaluate, "--output", output).decode()
        bleu = ["bleu", "--input", output, "--reference", reference]
        # The label of evaluate tells how the translations were made too.
        label, score = self.succeed(*bleu, *paper).decode().split(" = ", 1)
        settings, version = label.rsplit("|", 1)
        self.assertEqual(line, f"{settings}|averaged:1|beam:4|lenpen:0.6|{version} = {score}")
        self.assertNotEqual(score, self.succeed(*bleu).decode().split(" = ", 1)[1])
        self.refuse(64, *evaluate[:-2], says="--language")

    @unittest.skipUnless(support.MPIEXEC, "built without MPI")
    def test_evaluate_gives_the_same_file_and_score_on_any_number_of_ranks(self):
        for options in ((), ("--precision", "bf16", "--sample", "--seed", 2)):
            line = self.evaluate(*options, "--output", self.path("1.out"))
            self.assertEqual(self.evaluate(*options, "--output", self.path("3.out"), ranks=3), line)
            self.assertEqual(self.read(self.path("3.out")), self.read(self.path("1.out")))

    def copied_run(self, name, best=None):
        """A copy of the run, and its checkpoints; its best.json names the one of this step."""
        shutil.copytree(self.model, self.path(name))
        if best:
            record = {"checkpoint": f"checkpoint-{best:08}.h5", "metric": "loss", "value": 1.0}
            self.write(f"{name}/best.json", json.dumps(record))
        return self.path(name), *(self.checkpoint(name, step) for step in (100, 200, 300))

    def test_the_best_checkpoint_is_gone(self):
        run, _, best, newest = self.copied_run("gone", best=200)
        self.translate(model=run)
        os.remove(best)
        self.refuse(66, "translate", "--model", run, says=[f"{best}: is missing", "best.json", f"the newest: {newest}"])
        os.symlink("nowhere", best)
        shutil.copy(self.weights, newest)
        os.truncate(newest, 9)
        self.refuse(66, "translate", "--model", run, says=[f"{best}: is missing", f"the newest: {self.checkpoint('gone', 100)}"])
        self.write("gone/best.json", json.dumps({"checkpoint": "../" + os.path.basename(best)}))
        self.refuse(65, "translate", "--model", run, says=["best.json", "a checkpoint of its folder"])

    def test_damaged_and_missing_models(self):
        damaged = bytearray(self.read(self.weights))
        damaged[len(damaged) // 2] ^= 1
        file = self.write("damaged.h5", bytes(damaged))
        os.makedirs(self.path("hollow"), exist_ok=True)
        output = ("--output", self.path("w.h5"))
        for code, words, says in (
            (65, ("translate", "--model", file), "damaged.h5"),
            (65, ("inspect", file, "--verify"), "damaged.h5"),
            (66, ("translate", "--model", self.path("none.h5")), "none.h5"),
            (66, ("export", "--model", self.path("hollow"), *output), "hollow"),
            (65, ("translate", "--model", self.corpus), "corpus.h5"),
            (73, ("export", "--model", self.weights, "--output", self.path("none", "w.h5")), "none"),
        ):
            self.refuse(code, *words, stdin=b"x\n", says=says)

    def test_int8_has_the_same_bits_with_all_instructions_and_is_near_f32(self):
        options = ("--precision", "int8", "--n-best", 4)
        expected = self.translate(*options, stdin=self.few)
        best, built = re.search(r"^ISA:  (\S+), of (.+)$", self.succeed("--version").decode(), re.MULTILINE).groups()
        sets = built.split(", ")
        for name in sets[: sets.index(best) + 1]:
            for vnni in ("0", "1"):
                variables = {"VENTRIS_ISA": name, "VENTRIS_VNNI": vnni}
                self.assertEqual(self.translate(*options, stdin=self.few, variables=variables), expected, name)
        words = ["score", "--model", self.weights, "--source", self.source, "--target", self.reference, "--precision"]
        exact, rounded = ([line.split("\t") for line in self.succeed(*words, precision).decode().splitlines()] for precision in ("f32", "int8"))
        self.assertNotEqual(exact, rounded)
        # Of a word, in the mean of a sentence.
        differences = [abs(float(a) - float(b)) / int(length) for (a, length), (b, _) in zip(exact, rounded, strict=True)]
        self.assertLess(max(differences), 0.1)

    def test_statistics_come_last_on_the_standard_error(self):
        said = self.told("translate", "--model", self.weights, "--statistics", stdin=self.few)
        statistics = json.loads(said.splitlines()[-1])
        self.assertEqual(sorted(statistics), ["cpu_seconds", "peak_mib", "seconds", "sentences", "tokens"])
        self.assertEqual(statistics["sentences"], 8)


if __name__ == "__main__":
    unittest.main(verbosity=2)
