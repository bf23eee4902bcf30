# SPDX-License-Identifier: Apache-2.0
"""ventris score: log-probabilities of given translations."""

import json
import math
import unittest

import support

class Score(support.CommandLineTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.model = cls.train_demo(steps=100)

    def score(self, *options, source=None, target=None, **more):
        source = source or self.demo_path("test.en")
        target = target or self.demo_path("test.de")
        return self.succeed(
            "score", "--model", self.model, "--source", source, "--target", target, *options, **more
        )

    def test_every_form_of_output_says_the_same(self):
        result = support.run(
            *("score", "--model", self.model, "--source", self.demo_path("test.en")),
            *("--target", self.demo_path("test.de"))
        )
        plain = [line.split("\t") for line in result.stdout.decode().splitlines()]
        self.assertEqual(len(plain), 24)
        words = [line.split("\t") for line in self.score("--per-word").decode().splitlines()]
        objects = [json.loads(line) for line in self.score("--json", "--per-word").splitlines()]
        brief = [json.loads(line) for line in self.score("--json").splitlines()]
        total, count = 0.0, 0
        for (sum_text, length), with_words, entry, short in zip(plain, words, objects, brief):
            self.assertEqual(with_words[:2], [sum_text, length])
            pairs = [word.rsplit("=", 1) for word in with_words[2].split(" ")]
            self.assertEqual([word for word, _ in pairs], entry["tokens"])
            self.assertEqual((len(pairs), entry["length"]), (int(length), int(length)))
            self.assertEqual(pairs[-1][0], "</s>")
            for (_, text), value in zip(pairs, entry["log_probabilities"]):
                self.assertLessEqual(value, 0)
                self.assertAlmostEqual(float(text), value, delta=1e-6)
            self.assertAlmostEqual(math.fsum(entry["log_probabilities"]), entry["log_probability"], delta=1e-4)
            self.assertAlmostEqual(float(sum_text), entry["log_probability"], delta=1e-6)
            self.assertEqual(short, {"length": int(length), "log_probability": entry["log_probability"]})
            total += entry["log_probability"]
            count += int(length)
        perplexity = float(result.stderr.decode().split("perplexity ")[1])
        self.assertAlmostEqual(perplexity, math.exp(-total / count), delta=1e-3 * perplexity)

    def test_does_not_depend_on_batches_threads_or_ranks(self):
        for precision in ("f32", "bf16", "int8"):
            options = ("--precision", precision, "--per-word")
            expected = self.score(*options)
            for other in (("--batch-rows", 1), ("--batch-rows", 40), ("--batch-sentences", 3), ("--threads", 2)):
                self.assertEqual(self.score(*options, *other), expected, (precision, other))
            for ranks in (2, 3) if support.MPIEXEC else ():
                self.assertEqual(self.score(*options, ranks=ranks), expected, (precision, ranks))

    def test_equals_the_score_of_the_search(self):
        words = ("translate", "--model", self.model, "--n-best", 1, "--length-penalty", 0)
        lines = [line.split(" ||| ") for line in self.succeed(*words, stdin=self.read(self.demo_path("test.en"))).decode().splitlines()]
        scores = self.score(target=self.write("best", "".join(text + "\n" for _, text, _ in lines))).decode().splitlines()
        # Where the text comes to other pieces of the vocabulary, as much of what so small a model writes does, the score is of another output.
        near = sum(abs(float(score.split("\t")[0]) - float(of_search)) < 1e-4 for score, (_, _, of_search) in zip(scores, lines, strict=True))
        self.assertGreaterEqual(near, len(lines) // 3, list(zip(scores, lines)))

    def test_odd_input(self):
        source = self.write("odd.en", b"half past seven\r\n\n" + b"seven " * 3000)
        target = self.write("odd.de", "\nhalb acht\nsieben")
        result = support.run("score", "--model", self.model, "--source", source, "--target", target)
        lines = result.stdout.decode().splitlines()
        self.assertEqual((result.returncode, len(lines)), (0, 3))
        self.assertEqual(lines[0].split("\t")[1], "1")
        self.assertIn("odd.en:3 has", result.stderr.decode())
        self.assertIn("1 of 6 sentences were cut", result.stderr.decode())
        empty = self.write("empty", "")
        self.assertEqual(self.score(source=empty, target=empty), b"")

    def test_refuses_what_does_not_fit(self):
        words = ["score", "--model", self.model, "--source", self.demo_path("test.en"), "--target"]
        self.refuse(65, *words, self.write("short", "one\n"), says=["24", "short has 1"])
        self.refuse(66, *words, self.path("none"), says="none")
        self.refuse(65, *words, self.write("latin", b"K\xe4se\n"), says=["latin:1", "UTF-8"])
        self.refuse(64, *words[:3], says="--source is required")


if __name__ == "__main__":
    unittest.main(verbosity=2)
