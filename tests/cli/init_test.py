# SPDX-License-Identifier: Apache-2.0
"""train --init and its options: a run that begins from another's parameters, optimizer or vocabulary, or from vectors."""

import gzip
import json
import math
import os
import shutil
import unittest

import h5py
import numpy

import support
from newer_files_test import seal_hdf5

STEPS = 10  # of the model that others begin from


def adam(path):
    """The moments of a checkpoint, and the updates before its first step."""
    with h5py.File(path, "r") as file:
        return file["adam/m"][()], file["adam/v"][()], file.attrs.get("initial_updates", 0)


def varint(message, at):
    """A number of a protocol buffer, and where what follows begins."""
    value = shift = 0
    while True:
        value |= (message[at] & 127) << shift
        shift, at = shift + 7, at + 1
        if message[at - 1] < 128:
            return value, at


def fields(message):
    """The fields of a protocol buffer that hold bytes: their numbers, and the bytes."""
    at = 0
    while at < len(message):
        key, at = varint(message, at)
        if key & 7 == 2:
            size, at = varint(message, at)
            yield key >> 3, message[at : at + size]
            at += size
        elif key & 7 == 0:
            _, at = varint(message, at)
        else:
            at += {1: 8, 5: 4}[key & 7]


class Init(support.CommandLineTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.model = cls.train_demo(STEPS)
        cls.corpus = os.path.join(cls.folder, "corpus.h5")

    def arguments(self, name, *options, corpus=None, valid_every=0):
        model = list(support.TINY_MODEL)
        model[model.index("--valid-every") + 1] = valid_every
        return ("train", "--corpus", corpus or self.corpus, "--model-dir", self.path(name), *model, *options)

    def begin(self, name, *options, **more):
        """A run without steps: its checkpoint has what it begins with. Returns its path, and what was said."""
        result = support.run(*self.arguments(name, "--max-steps", 0, *options, **more))
        self.assertEqual(result.returncode, 0, result.stderr)
        return self.path(name, "checkpoint-00000000.h5"), result.stderr.decode()

    def assert_equal(self, got, expected):
        self.assertEqual(list(got), list(expected))
        for name, values in expected.items():
            self.assertTrue(numpy.array_equal(got[name], values), name)

    def pieces(self, corpus):
        """Texts of the tokens of a corpus, in order: of the model's message, each field 1, of which again field 1."""
        with h5py.File(corpus, "r") as file:
            model = file["tokenizer"][()].tobytes()
        return [next(text for field, text in fields(piece) if field == 1).decode()
                for field, piece in fields(model) if field == 1]  # fmt: skip

    def test_begins_with_the_parameters_of_any_kind_of_file(self):
        last = os.path.join(self.model, f"checkpoint-{STEPS:08}.h5")
        expected = support.parameters(last)
        weights, tensors = self.path("weights.h5"), self.path("weights.safetensors")
        self.succeed("export", "--model", self.model, "--output", weights)
        self.succeed("export", "--model", self.model, "--format", "safetensors", "--output", tensors)
        self.write("init.ini", f"init = {last}\n")
        for number, options in enumerate(
            [("--init", name) for name in (last, weights, tensors, self.model)]
            + [("--config", self.path("init.ini"))]
        ):
            with self.subTest(options):
                begun, said = self.begin(f"of-{number}", *options)
                self.assertIn("starting with the parameters of", said)
                self.assert_equal(support.parameters(begun), expected)
                m, v, updates = adam(begun)
                self.assertEqual((m.any(), v.any(), updates), (False, False, 0))

    def test_its_first_validation_is_the_score_of_the_model(self):
        self.succeed(*self.arguments("tuned", "--init", self.model, "--max-steps", 4, valid_every=2))
        with open(self.path("tuned", "metrics.jsonl"), encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        first, *others = [line for line in lines if line["type"] == "validation"]
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
        last = os.path.join(self.model, f"checkpoint-{STEPS:08}.h5")
        options = ("--init", self.model, "--init-optimizer", "keep")
        begun, said = self.begin("kept", *options)
        self.assertIn(f"after {STEPS} updates", said)
        for got, expected in zip(adam(begun)[:2], adam(last)[:2]):
            self.assertTrue(expected.any() and numpy.array_equal(got, expected))
        self.assertEqual(adam(begun)[2], STEPS)
        renamed, _ = self.begin("renamed", "--init", shutil.copy(last, self.path("kept")), "--init-optimizer", "keep")
        self.assertTrue(numpy.array_equal(adam(renamed)[0], adam(last)[0]))
        # The first step by the formulas of Adam, in f64, with the gradient that its first moment tells.
        self.succeed(*self.arguments("stepped", *options, "--max-steps", 1))
        stepped = self.path("stepped", "checkpoint-00000001.h5")
        (m0, v0, _), (m1, v1, updates) = adam(begun), adam(stepped)
        self.assertEqual(updates, STEPS)
        beta1, beta2, epsilon, count = 0.9, 0.98, 1e-9, STEPS + 1
        rate = 32**-0.5 * 20**-1.5
        with h5py.File(stepped, "r") as after, h5py.File(begun, "r") as before:
            p0, p1 = (numpy.array(file["model/embedding"], dtype=float) for file in (before, after))
        size = p0.size  # the embedding is the first tensor of the flat moments
        m0, v0, m1, v1 = (x[:size].astype(float).reshape(p0.shape) for x in (m0, v0, m1, v1))
        gradient = (m1 - beta1 * m0) / (1 - beta1)
        self.assertLess(numpy.abs(v1 - (beta2 * v0 + (1 - beta2) * gradient**2)).max(), 1e-6 * v1.max())
        change = rate * (m1 / (1 - beta1**count)) / (numpy.sqrt(v1 / (1 - beta2**count)) + epsilon)
        self.assertGreater(numpy.abs(change).max(), 0)
        self.assertLess(numpy.abs(p0 - change - p1).max(), 1e-3 * numpy.abs(change).max())
        # A resume goes on with the same number of updates, on any number of ranks.
        for name, parts in (("whole", [(1, 6)]), ("cut", [(1, 3), (2, 6)])):
            for ranks, steps in parts:
                self.succeed(
                    *self.arguments(name, *options, "--max-steps", steps, "--reduction", "reproducible"), ranks=ranks
                )
        self.assert_equal(*(support.parameters(self.path(n, "checkpoint-00000006.h5")) for n in ("cut", "whole")))
        # Which no option needs to say: the checkpoint does.
        for name, more in (("whole", options), ("cut", ())):
            self.succeed(*self.arguments(name, *more, "--max-steps", 8, "--reduction", "reproducible"))
        self.assert_equal(*(support.parameters(self.path(n, "checkpoint-00000008.h5")) for n in ("cut", "whole")))

    def test_keeps_the_optimizer_of_ranks_that_share_it_and_their_average(self):
        options = ("--init", self.model, "--init-optimizer", "keep", "--ema", 0.999, "--reduction", "reproducible")
        states = []
        for name, ranks, more in (("alone", 1, ()), ("all", 2, ()), ("shared", 2, ("--shard-optimizer",))):
            self.succeed(*self.arguments(name, *options, *more, "--max-steps", 3), ranks=ranks)
            with h5py.File(self.path(name, "checkpoint-00000003.h5"), "r") as file:
                found = {}
                file.visititems(lambda n, item, to=found: to.__setitem__(n, item[()]) if isinstance(item, h5py.Dataset) else None)
                states.append(found)
        self.assertTrue(any(name.startswith("ema/") for name in states[0]))
        for other in states[1:]:
            self.assert_equal(other, states[0])

    def test_keeps_the_rows_of_the_tokens_that_both_have(self):
        corpus = self.path("other.h5")
        self.succeed(
            *("prepare", "--train-sets", self.demo_path("train.en"), self.demo_path("train.de"), "--vocab-size", 320),
            *("--tokenizer", "unigram", "--output", corpus),
        )
        self.refuse(
            78,
            *self.arguments("refused", "--init", self.model, corpus=corpus),
            says=["other.h5", "prepare --tokenizer-from", "--init-vocabulary extend"],
        )
        last = os.path.join(self.model, f"checkpoint-{STEPS:08}.h5")
        options = ("--init", last, "--init-vocabulary", "extend", "--init-optimizer", "keep")
        begun, said = self.begin("extended", *options, corpus=corpus)
        random = support.parameters(self.begin("random", corpus=corpus)[0])
        old, new = support.parameters(last), support.parameters(begun)
        theirs, ours = self.pieces(self.corpus), self.pieces(corpus)
        added = [piece for piece in ours if piece not in theirs]
        self.assertTrue(0 < len(added) < len(ours))
        moments = [adam(path)[0] for path in (last, begun)]
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
        demo = ("--train-sets", self.demo_path("train.en"), self.demo_path("train.de"))
        for source in (self.model, self.corpus):
            self.succeed("prepare", *demo, "--tokenizer-from", source, "--output", same)
            self.assertEqual(self.pieces(same), theirs)
        self.begin("matching", "--init", self.model, corpus=same)
        self.refuse(64, "prepare", *demo, "--tokenizer-from", self.model, "--tokenizer-model", "m", "--output", same,
                    says="exclude each other")  # fmt: skip
        self.refuse(66, "prepare", *demo, "--tokenizer-from", self.path("none"), "--output", same, says="none")

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
            begun, said = self.begin(name, "--init-embeddings", file)
            self.assertIn(f"{len(words)} of {support.VOCABULARY - 3} tokens", said)
            got = support.parameters(begun)
            self.assertLess(numpy.abs(got["embedding"] - expected["embedding"]).max(), 1e-7)
            self.assertTrue(numpy.array_equal(numpy.delete(got["embedding"], rows, 0),
                                              numpy.delete(expected["embedding"], rows, 0)))  # fmt: skip
        for code, text, says in (
            (78, "the " + "1 " * 31, ["line 1", "31 numbers", "--d-model is 32"]),
            (78, "2 31\n" + lines[0], ["line 1", "31 numbers", "--d-model is 32"]),
            (65, "3 32\n" + lines[0], ["1 vectors", "says 3"]),
            (65, lines[0] + "\nword " + "1e39 " * 32, ["line 2", "'1e39'"]),
            (65, lines[0] + "\nword 1 2", ["line 2", "3 fields"]),
            (65, lines[0] + "\nword " + "nan " * 32, ["line 2", "'nan'"]),
            (78, "unheard-of " + "1 " * 32, ["none of its 1 entries"]),
        ):
            file = self.write("bad.txt", text)
            for command in ("train", "plan"):
                _, *arguments = self.arguments("bad", "--init-embeddings", file)
                self.refuse(code, command, *arguments, says=["bad.txt", *says])
        self.refuse(66, *self.arguments("bad", "--init-embeddings", self.path("none.txt")), says="none.txt")
        os.mkfifo(self.path("pipe"))
        self.refuse(65, *self.arguments("bad", "--init-embeddings", self.path("pipe")), says="not a regular file")
        small = self.write("small.txt", "\ufeff1 32\n" + words[0] + " 1e-200" * 32)
        _, said = self.begin("small", "--init-embeddings", small)
        self.assertIn("1 of ", said)

    def test_what_does_not_fit_is_refused(self):
        init = ("--init", self.model)
        for options, says in (
            ((*init, "--d-model", 64), ["d_model 32, not 64", "its embedding is [300, 32]", "[300, 64]"]),
            (("--init-optimizer", "keep"), ["--init-optimizer is keep"]),
            (("--init-vocabulary", "extend"), ["--init-vocabulary is extend"]),
            ((*init, "--init-embeddings", "v.txt"), ["--init-embeddings"]),
        ):
            for command in ("train", "plan"):
                arguments = list(self.arguments("refused", *options))
                arguments[0] = command
                if "--d-model" in options:
                    at = arguments.index("--d-model")
                    del arguments[at : at + 2]
                self.refuse(78, *arguments, says=says)
        weights = self.path("plain-weights.h5")
        self.succeed("export", "--model", self.model, "--output", weights)
        for file in (weights, self.path("averaged.h5")):
            if file != weights:
                checkpoint = os.path.join(self.model, f"checkpoint-{STEPS:08}.h5")
                self.succeed("average", "--checkpoints", checkpoint, "--output", file)
            self.refuse(78, *self.arguments("refused", "--init", file, "--init-optimizer", "keep"),
                        says=[file, "no moments"])  # fmt: skip

    def test_an_optimizer_that_training_cannot_have_is_refused(self):
        def first_number(name, value):
            def change(file):
                file[name][0] = value

            return change

        def attribute(name, value):
            return lambda file: file.attrs.modify(name, numpy.int64(value))

        for change, says in (
            (first_number("adam/v", -1.0), "a negative number in /adam/v"),
            (first_number("adam/m", math.nan), "NaN or Inf in /adam/m"),
            (attribute("skipped_steps", STEPS + 1), f"{STEPS + 1} skipped steps at step {STEPS}"),
            (attribute("initial_updates", -STEPS), "initial_updates"),
            (attribute("initial_updates", 2**53), "initial_updates"),
            (attribute("step", 2**62), "in step"),
        ):
            forged = self.path("forged.h5")
            shutil.copyfile(os.path.join(self.model, f"checkpoint-{STEPS:08}.h5"), forged)
            with h5py.File(forged, "r+") as file:
                change(file)
            seal_hdf5(forged)
            self.refuse(65, *self.arguments("refused", "--init", forged, "--init-optimizer", "keep"),
                        says=[forged, says, "--init-optimizer fresh"])  # fmt: skip

    def test_another_corpus_says_how_to_go_on(self):
        other = self.path("longer.h5")
        self.succeed(
            *("prepare", "--train-sets", self.demo_path("valid.en"), self.demo_path("valid.de")),
            *("--tokenizer-from", self.model, "--output", other),
        )
        self.refuse(
            78,
            *("train", "--corpus", other, "--model-dir", self.model, *support.TINY_MODEL, "--max-steps", 2 * STEPS),
            says=["a corpus of digest", f"--init {self.model}/checkpoint-{STEPS:08}.h5 and another --model-dir"],
        )


if __name__ == "__main__":
    unittest.main(verbosity=2)
