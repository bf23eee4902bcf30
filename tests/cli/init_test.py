# SPDX-License-Identifier: Apache-2.0
"""train --init and its options: a run that begins from another's parameters, optimizer or vocabulary, or from vectors."""

import gzip
import json
import math
import os
import unittest

import h5py
import numpy

import proto
import support

STEPS = 10  # of the model that others begin from


def adam(path):
    """The moments of a checkpoint, and the updates before its first step."""
    found = support.datasets(path, "adam")
    with h5py.File(path, "r") as file:
        return found["m"], found["v"], file.attrs.get("initial_updates", 0)


class Init(support.RunTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.model = cls.path("model")
        cls.made(*cls.train("model", max_steps=STEPS, learning_rate_scale=0.5))
        cls.last = cls.checkpoint("model", STEPS)

    def begin(self, name, **settings):
        """A run without steps: its checkpoint has what it begins with. Returns its path, and what was said."""
        said = self.told(*self.train(name, max_steps=0, **settings))
        return self.checkpoint(name, 0), said

    def assert_equal(self, got, expected):
        self.assertEqual(list(got), list(expected))
        for name, values in expected.items():
            self.assertTrue(numpy.array_equal(got[name], values), name)

    def pieces(self, corpus):
        """Texts of the tokens of a corpus, in order."""
        with h5py.File(corpus, "r") as file:
            return proto.pieces(file["tokenizer"][()].tobytes())

    def test_begins_with_the_parameters_of_any_kind_of_file(self):
        expected = support.parameters(self.last)
        weights, tensors = self.path("weights.h5"), self.path("weights.safetensors")
        for file in (weights, tensors):
            self.succeed("export", "--model", self.model, "--output", file)
        for number, file in enumerate((self.last, weights, tensors, self.model)):
            with self.subTest(file):
                begun, said = self.begin(f"of-{number}", init=file)
                self.assertIn("starting with the parameters of", said)
                self.assert_equal(support.parameters(begun), expected)
                m, v, updates = adam(begun)
                self.assertEqual((m.any(), v.any(), updates), (False, False, 0))

    def test_its_first_validation_is_the_score_of_the_model(self):
        self.succeed(*self.train("tuned", init=self.model, max_steps=4, valid_every=2))
        first, *others = [line for line in self.lines("tuned") if line["type"] == "validation"]
        self.assertEqual([first["step"]] + [line["step"] for line in others], [0, 2, 4])
        source, target = self.demo_path("valid.en"), self.demo_path("valid.de")
        scores = self.succeed("score", "--model", self.model, "--source", source, "--target", target)
        scores = numpy.array([line.split()[:2] for line in scores.decode().splitlines()], dtype=float).sum(axis=0)
        self.assertAlmostEqual(math.log(first["valid_perplexity"]), -scores[0] / scores[1], delta=2e-6)
        evaluated = self.succeed(
            *("evaluate", "--model", self.model, "--source", source, "--reference", target, "--json")
        )
        self.assertAlmostEqual(first["valid_bleu"], json.loads(evaluated)["score"], delta=1e-9)
        # It is no candidate for the best.
        with open(self.path("tuned", "best.json"), encoding="utf-8") as file:
            self.assertNotIn("checkpoint-00000000", file.read())

    def test_keeps_the_optimizer(self):
        options = {"init": self.model, "init_optimizer": "keep"}
        begun, said = self.begin("kept", **options)
        self.assertIn(f"after {STEPS} updates", said)
        for got, expected in zip(adam(begun)[:2], adam(self.last)[:2]):
            self.assertTrue(expected.any() and numpy.array_equal(got, expected))
        self.assertEqual(adam(begun)[2], STEPS)
        # Its first step counts on from there: other bits than with fresh moments.
        self.succeed(*self.train("stepped", **options, max_steps=1))
        self.succeed(*self.train("fresh", init=self.model, max_steps=1))
        self.assertEqual((adam(self.checkpoint("stepped", 1))[2], adam(self.checkpoint("fresh", 1))[2]), (STEPS, 0))
        kept, fresh = (support.parameters(self.checkpoint(name, 1))["embedding"] for name in ("stepped", "fresh"))
        self.assertFalse(numpy.array_equal(kept, fresh))

    def test_a_run_that_kept_the_optimizer_has_the_same_bits_on_any_ranks_and_after_a_resume(self):
        common = {"reduction": "reproducible", "ema": 0.999}
        options = {**common, "init": self.model, "init_optimizer": "keep"}
        several = 2 if support.MPIEXEC else 1
        self.succeed(*self.train("whole", **options, max_steps=6))
        self.succeed(*self.train("cut", "--shard-optimizer", **options, max_steps=3), ranks=several)
        self.succeed(*self.train("cut", **common, max_steps=6), ranks=several)  # of the options the checkpoint tells
        self.assert_same_checkpoints("cut", "whole", 6, lambda path: support.datasets(path, "model", "adam", "ema"))

    def test_keeps_the_rows_of_the_tokens_that_both_have(self):
        corpus = self.path("other.h5")
        self.succeed(
            *("prepare", "--train-sets", self.demo_path("train.en"), self.demo_path("train.de"), "--vocab-size", 320),
            *("--tokenizer", "unigram", "--output", corpus),
        )
        says = ["other.h5", "prepare --tokenizer-from", "--init-vocabulary extend"]
        self.refuse(78, *self.train("refused", init=self.model, corpus=corpus), says=says)
        begun, said = self.begin("extended", init=self.last, init_vocabulary="extend", init_optimizer="keep", corpus=corpus)
        random = support.parameters(self.begin("random", corpus=corpus)[0])
        old, new = support.parameters(self.last), support.parameters(begun)
        theirs, ours = self.pieces(self.corpus), self.pieces(corpus)
        added = [piece for piece in ours if piece not in theirs]
        self.assertTrue(0 < len(added) < len(ours))
        moments = [adam(path)[0] for path in (self.last, begun)]
        for row, piece in enumerate(ours):
            expected = random["embedding"][row] if piece in added else old["embedding"][theirs.index(piece)]
            self.assertTrue(numpy.array_equal(new["embedding"][row], expected), piece)
            moment = moments[1][32 * row : 32 * row + 32]
            there = 0 if piece in added else moments[0][32 * theirs.index(piece) :][:32]
            self.assertTrue(numpy.array_equal(moment, numpy.broadcast_to(there, 32)), piece)
        del old["embedding"], new["embedding"]
        self.assert_equal(new, old)
        self.assertEqual(self.read(self.path("extended", "new-tokens.txt")).decode().split("\n")[:-1], added)
        self.assertIn(f"{len(ours) - len(added)} of {len(ours)} tokens keep their embedding", said)
        # The tokenizer of the model makes a corpus that fits it.
        same = self.path("same.h5")
        demo = ("--train-sets", self.demo_path("valid.en"), self.demo_path("valid.de"))
        for source in (self.corpus, self.model):
            self.succeed("prepare", *demo, "--tokenizer-from", source, "--output", same)
            self.assertEqual(self.pieces(same), theirs)
        self.begin("matching", init=self.model, corpus=same)
        says = ["a corpus of digest", f"--init {self.last} and another --model-dir"]
        self.refuse(78, *self.train("model", corpus=same, max_steps=2 * STEPS), says=says)

    def test_takes_vectors(self):
        pieces = self.pieces(self.corpus)
        words = [piece[1:] for piece in pieces if piece.startswith("\u2581") and piece[1:].isalpha()][:20]
        vectors = numpy.random.default_rng(7).normal(size=(len(words) + 1, 32)).astype(numpy.float32)
        lines = [" ".join([word, *map(str, vector)]) for word, vector in zip([*words, "unheard-of"], vectors)]
        plain, _ = self.begin("plain")
        expected = support.parameters(plain)
        rows = [pieces.index("\u2581" + word) for word in words]
        factor = 32**-0.5 / math.sqrt((vectors[:-1].astype(float) ** 2).mean())
        expected["embedding"][rows] = (factor * vectors[:-1].astype(float)).astype(numpy.float32)
        glove = self.write("glove.txt.gz", gzip.compress("\n".join(lines).encode()))
        word2vec = self.write("word2vec.txt", "\n".join([f"{len(lines)} 32", *lines]) + "\n")
        of_pieces = self.write("pieces.txt", "\n".join(["\u2581" + line for line in lines]))
        for name, file in (("glove", glove), ("word2vec", word2vec), ("of-pieces", of_pieces)):
            begun, said = self.begin(name, init_embeddings=file)
            self.assertIn(f"{len(words)} of {support.VOCABULARY - 3} tokens", said)
            got = support.parameters(begun)["embedding"]
            self.assertLess(numpy.abs(got - expected["embedding"]).max(), 1e-7)
            self.assertTrue(numpy.array_equal(numpy.delete(got, rows, 0), numpy.delete(expected["embedding"], rows, 0)))
        for code, text, says in (
            (78, "the " + "1 " * 31, ["line 1", "31 numbers", "--d-model is 32"]),
            (65, "3 32\n" + lines[0], ["1 vectors", "says 3"]),
            (65, lines[0] + "\nword " + "1e39 " * 32, ["line 2", "'1e39'"]),
            (65, lines[0] + "\nword 1 2", ["line 2", "3 fields"]),
            (78, "unheard-of " + "1 " * 32, ["none of its 1 entries"]),
        ):
            file = self.write("bad.txt", text)
            self.refuse(code, *self.train("bad", init_embeddings=file), says=["bad.txt", *says])
        os.mkfifo(self.path("pipe"))
        self.refuse(65, *self.train("bad", init_embeddings=self.path("pipe")), says="not a regular file")

    def test_what_does_not_fit_is_refused(self):
        weights = self.path("plain-weights.h5")
        self.succeed("export", "--model", self.model, "--output", weights)
        for settings, says in (
            ({"init": self.model, "d_model": 64}, ["d_model 32, not 64"]),
            ({"init_optimizer": "keep"}, ["--init-optimizer is keep"]),
            ({"init_vocabulary": "extend"}, ["--init-vocabulary is extend"]),
            ({"init": self.model, "init_embeddings": "v.txt"}, ["--init-embeddings"]),
            ({"init": weights, "init_optimizer": "keep"}, [weights, "no moments"]),
        ):
            self.refuse(78, *self.train("refused", **settings), says=says)


if __name__ == "__main__":
    unittest.main(verbosity=2)
