# SPDX-License-Identifier: Apache-2.0
"""train --tie, with one vocabulary and with one for each side: what is one table, and what a new run takes from a model."""

import json
import os
import unittest

import numpy
import support

SIZES = {"source": 150, "target": 180}
STEPS = 6
TABLES = {
    "all": ["embedding"],
    "decoder": ["source_embedding", "target_embedding"],
    "none": ["output/weight", "source_embedding", "target_embedding"],
}


def tables_of(parameters):
    return sorted(name for name in parameters if "embedding" in name or name == "output/weight")


class Tie(support.RunTest):
    MODEL = [*support.TINY_MODEL, "--reduction", "reproducible", "--logical-shards", 4]

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.one, cls.two = cls.corpus, cls.path("two.h5")
        text = [cls.demo_path(name) for name in ("train.en", "train.de", "valid.en", "valid.de")]
        sizes = [word for side, size in SIZES.items() for word in (f"--{side}-vocab-size", size)]
        cls.made("prepare", "--train-sets", *text[:2], "--valid-sets", *text[2:], *sizes, "--output", cls.two)
        cls.models = {}
        for corpus, tie in (("one", "decoder"), ("two", "decoder"), ("two", "none")):
            name = f"{corpus}-{tie}"
            cls.models[name] = cls.path("of-" + name)
            cls.made(*cls.words("of-" + name, corpus, max_steps=STEPS, tie=tie, save_every=STEPS // 2))

    @classmethod
    def words(cls, name, corpus, *options, **settings):
        return cls.train(name, *options, corpus=getattr(cls, corpus), **settings)

    def begin(self, name, corpus, *options, **settings):
        """A run without steps: the parameters that it begins with, and what was said."""
        said = self.told(*self.words(name, corpus, *options, **settings, max_steps=0))
        return support.parameters(self.checkpoint(name, 0)), said

    def last(self, name):
        return self.checkpoint("of-" + name, STEPS)

    def test_tables_by_corpus_and_option(self):
        for corpus, given, tie in (
            ("one", {}, "all"),
            ("one", {"tie": "none"}, "none"),
            ("two", {}, "decoder"),
            ("two", {"tie": "none"}, "none"),
        ):
            name = "-".join([corpus, *given.values(), "begun"])
            with self.subTest(name):
                parameters, said = self.begin(name, corpus, **given)
                self.assertEqual(tables_of(parameters), sorted(TABLES[tie]))
                for table in TABLES[tie]:
                    side = "source" if table == "source_embedding" else "target"
                    rows = SIZES[side] if corpus == "two" else support.VOCABULARY
                    self.assertEqual(parameters[table].shape, (rows, 32), table)
                config = json.loads(self.read(self.path(name, "config.json")))
                self.assertEqual((config.get("tie", "all"), config["model"].get("tie", "all")), (tie, tie))
                self.assertEqual(config["model"].get("source_vocab_size"), SIZES["source"] if corpus == "two" else None)
                plan = json.loads(self.succeed("plan", *self.words("planned", corpus, **given)[1:], "--json"))
                self.assertEqual(plan["parameters"], sum(values.size for values in parameters.values()))
        for command in ("train", "plan"):
            says = ["--tie is all", "150 tokens", "180 tokens", "--tie decoder or --tie none"]
            self.refuse(78, command, *self.words("refused", "two", tie="all")[1:], says=says)

    def test_bits_do_not_depend_on_ranks_or_a_resume(self):
        for name in self.models:
            corpus, tie = name.split("-")
            half = "half-" + name
            self.succeed(*self.words(half, corpus, max_steps=STEPS // 2, tie=tie), ranks=2 if support.MPIEXEC else 1)
            self.succeed(*self.words(half, corpus, max_steps=STEPS))  # the checkpoint says which
            self.assert_same_parameters(half, "of-" + name, STEPS)

    def test_models_translate_score_and_are_written_alike_in_every_file(self):
        source, target = self.demo_path("test.en"), self.demo_path("test.de")
        with open(source, "rb") as file:
            text = file.read()
        for name, model in self.models.items():
            expected = self.succeed("translate", "--model", model, stdin=text)
            files = {extension: self.path(f"{name}.{extension}") for extension in ("h5", "safetensors")}
            for extension, path in files.items():
                form = () if extension == "h5" else ("--format", "safetensors")
                self.succeed("export", "--model", model, *form, "--output", path)
                self.assertEqual(self.succeed("translate", "--model", path, stdin=text), expected)
            scored = self.succeed("score", "--model", model, "--source", source, "--target", target)
            self.assertEqual(self.succeed("score", "--model", files["h5"], "--source", source, "--target", target), scored)
            both = self.succeed("translate", "--model", model, "--model", model, stdin=text)
            self.assertEqual(both.count(b"\n"), expected.count(b"\n"))
        self.refuse(78, "translate", "--model", self.models["one-decoder"], "--model", self.models["two-decoder"], stdin=text,
                    says=["one vocabulary for both sides", "the second one for each"])  # fmt: skip

    def test_a_run_begins_with_tables_that_were_one(self):
        tied, _ = self.begin("tied", "one")
        for tie, model in (("decoder", self.path("tied")), ("none", self.path("tied")), ("none", self.models["one-decoder"])):
            theirs = tied if model == self.path("tied") else support.parameters(self.last("one-decoder"))
            ours, _ = self.begin(f"apart-{tie}-{os.path.basename(model)}", "one", tie=tie, init=model)
            for parameter, values in ours.items():
                origin = parameter
                if parameter not in theirs:
                    origin = "target_embedding" if "target_embedding" in theirs else "embedding"
                self.assertTrue(numpy.array_equal(values, theirs[origin]), parameter)
        for model, options, says in (
            ("one-decoder", {"tie": "all"}, ["--tie decoder", "Give --tie decoder or none"]),
            ("one-decoder", {"tie": "none", "init_optimizer": "keep"}, ["--init-optimizer keep", "--tie decoder"]),
        ):
            for command in ("train", "plan"):
                self.refuse(78, command, *self.words("refused", "one", init=self.models[model], **options)[1:], says=says)

    def test_a_run_takes_the_tokens_of_each_side(self):
        seed = {"seed": 5}  # of new rows: otherwise those of tokens that no text has would be those of the model
        says = ["another tokenizer of targets", "--init-vocabulary extend"]
        self.refuse(78, *self.words("refused", "two", init=self.models["one-decoder"]), says=says)
        for direction, corpus, model in (("apart", "two", "one-decoder"), ("together", "one", "two-decoder")):
            ours, said = self.begin("extended-" + direction, corpus, init=self.models[model], init_vocabulary="extend", tie="decoder", **seed)
            theirs = support.parameters(self.last(model))
            fresh = self.begin("random-" + direction, corpus, tie="decoder", **seed)[0]
            for side in SIZES:
                table = side + "_embedding"
                with open(self.path("extended-" + direction, f"new-{side}-tokens.txt"), encoding="utf-8") as file:
                    added = file.read().split("\n")[:-1]
                rows = len(ours[table])
                self.assertIn(f"{rows - len(added)} of {rows} {side} tokens keep their embedding", said)
                kept = [bool((theirs[table] == row).all(axis=1).any()) for row in ours[table]]
                new = [bool((row == begun).all()) for row, begun in zip(ours[table], fresh[table])]
                self.assertEqual(kept, [not is_new for is_new in new])
                self.assertEqual(sum(new), len(added))
                self.assertGreater(sum(kept), 20)
            for parameter in ours:
                if not parameter.endswith("_embedding"):
                    self.assertTrue(numpy.array_equal(ours[parameter], theirs[parameter]), parameter)


if __name__ == "__main__":
    unittest.main()
