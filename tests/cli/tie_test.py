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


class Tie(support.CommandLineTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.one = cls.prepare_demo()
        cls.two = os.path.join(cls.folder, "two.h5")
        text = [cls.folder + "/demo/" + name for name in ("train.en", "train.de", "valid.en", "valid.de")]
        sizes = [word for side, size in SIZES.items() for word in (f"--{side}-vocab-size", size)]
        result = support.run("prepare", "--train-sets", *text[:2], "--valid-sets", *text[2:], *sizes, "--output", cls.two)
        assert result.returncode == 0, result.stderr.decode(errors="replace")
        cls.models = {}
        for corpus, tie in (("one", "decoder"), ("two", "decoder"), ("two", "none")):
            name = f"{corpus}-{tie}"
            cls.models[name] = os.path.join(cls.folder, "of-" + name)
            words = cls.words(cls, cls.models[name], corpus, "--max-steps", STEPS, "--tie", tie, "--save-every", STEPS // 2)
            result = support.run(*words)
            assert result.returncode == 0, result.stderr.decode(errors="replace")

    def words(self, model, corpus, *options):
        return ("train", "--corpus", getattr(self, corpus), "--model-dir", model, *support.TINY_MODEL,
                "--reduction", "reproducible", "--logical-shards", 4, *options)  # fmt: skip

    def begin(self, name, corpus, *options):
        """A run without steps: the parameters that it begins with, and what was said."""
        result = support.run(*self.words(self.path(name), corpus, "--max-steps", 0, *options))
        self.assertEqual(result.returncode, 0, result.stderr.decode())
        return support.parameters(self.path(name, "checkpoint-00000000.h5")), result.stderr.decode()

    def last(self, name):
        return os.path.join(self.models[name], f"checkpoint-{STEPS:08}.h5")

    def test_tables_by_corpus_and_option(self):
        for corpus, option, tie in (
            ("one", (), "all"),
            ("one", ("--tie", "all"), "all"),
            ("one", ("--tie", "none"), "none"),
            ("two", (), "decoder"),
            ("two", ("--tie", "none"), "none"),
        ):
            name = "-".join([corpus, *option[1:], "begun"])
            with self.subTest(name):
                parameters, said = self.begin(name, corpus, *option)
                self.assertEqual(tables_of(parameters), sorted(TABLES[tie]))
                for table, values in parameters.items():
                    if table in ("embedding", *TABLES["none"]):
                        side = "source" if table == "source_embedding" else "target"
                        rows = SIZES[side] if corpus == "two" else support.VOCABULARY
                        self.assertEqual(values.shape, (rows, 32), table)
                self.assertEqual("--tie" in said.split("\n  corpus")[0], tie != "all")
                if corpus == "two":
                    self.assertRegex(said, r"source tokens of a vocabulary of 150 and \S+ target tokens of a vocabulary of 180")
                with open(self.path(name, "config.json"), encoding="utf-8") as file:
                    config = json.load(file)
                self.assertEqual((config.get("tie", "all"), config["model"].get("tie", "all")), (tie, tie))
                self.assertEqual(config["model"].get("source_vocab_size"), SIZES["source"] if corpus == "two" else None)
                inspected = json.loads(self.succeed("inspect", self.path(name, "checkpoint-00000000.h5"), "--json"))
                self.assertEqual(inspected["config"].get("tie", "all"), tie)
                plan = json.loads(self.succeed("plan", *self.words(self.path("planned"), corpus, *option)[1:], "--json"))
                self.assertEqual(plan["parameters"], sum(values.size for values in parameters.values()))
        same = [support.checkpoint_bits(self.path(name, "checkpoint-00000000.h5")) for name in ("one-begun", "one-all-begun")]
        self.assertEqual(*same)
        for command in ("train", "plan"):
            self.refuse(78, command, *self.words(self.path("refused"), "two", "--tie", "all")[1:],
                        says=["--tie is all", "150 tokens", "180 tokens", "--tie decoder or --tie none"])  # fmt: skip

    def test_bits_do_not_depend_on_ranks_or_a_resume(self):
        for name in self.models:
            corpus, tie = name.split("-")
            expected = support.parameters(self.last(name))
            half = self.path("half-" + name)
            self.succeed(*self.words(half, corpus, "--max-steps", STEPS // 2, "--tie", tie))
            self.succeed(*self.words(half, corpus, "--max-steps", STEPS))  # the checkpoint says which
            runs = [half]
            if support.MPIEXEC:
                runs.append(self.path("ranks-" + name))
                self.succeed(*self.words(runs[-1], corpus, "--max-steps", STEPS, "--tie", tie), ranks=2)
            for run in runs:
                found = support.parameters(os.path.join(run, f"checkpoint-{STEPS:08}.h5"))
                for parameter, values in expected.items():
                    self.assertTrue(numpy.array_equal(found[parameter], values), (run, parameter))
            other = "none" if tie == "decoder" else "decoder"
            self.refuse(78, *self.words(half, corpus, "--max-steps", STEPS + 1, "--tie", other),
                        says=f"--tie {tie}, but this run has {other}")  # fmt: skip

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
                self.assertRegex(self.succeed("inspect", path, "--verify").decode(), "3 probes give the expected")
            scored = self.succeed("score", "--model", model, "--source", source, "--target", target)
            self.assertEqual(self.succeed("score", "--model", files["h5"], "--source", source, "--target", target), scored)
            for precision in ("bf16", "int8"):
                path = self.path(f"{name}-{precision}.h5")
                self.succeed("export", "--model", model, "--precision", precision, "--output", path)
                types = {
                    entry["name"].split("model/")[-1]: entry["type"]
                    for entry in json.loads(self.succeed("inspect", path, "--json"))["datasets"]
                }
                for table in TABLES[name.split("-")[1]]:
                    self.assertEqual(types[table], {"bf16": "bf16", "int8": "i8"}[precision])
                self.succeed("inspect", path, "--verify")
                self.succeed("translate", "--model", path, "--precision", precision, stdin=text)
            average = self.path(name + "-average.h5")
            checkpoints = [os.path.join(model, f"checkpoint-{step:08}.h5") for step in (STEPS // 2, STEPS)]
            told = self.succeed("average", "--checkpoints", *checkpoints, "--output", average).decode()
            self.assertIn("average of 2 checkpoints\n", told)
            parameters = [support.parameters(path) for path in (*checkpoints, average)]
            for parameter, mean in parameters[2].items():
                wanted = (parameters[0][parameter].astype(float) + parameters[1][parameter]) / 2
                self.assertLess(numpy.abs(mean - wanted).max(), 1e-7, parameter)
            both = self.succeed("translate", "--model", model, "--model", model, stdin=text)
            self.assertEqual(both.count(b"\n"), expected.count(b"\n"))
        self.refuse(78, "translate", "--model", self.models["one-decoder"], "--model", self.models["two-decoder"], stdin=text,
                    says=["one vocabulary for both sides", "the second one for each"])  # fmt: skip

    def test_tables_are_frozen_by_name(self):
        model = self.models["two-none"]
        for frozen in (["source_embedding"], ["output/weight"], TABLES["none"], ["source_embedding", "encoder/*"]):
            name = self.path("frozen-" + str(len(frozen)) + frozen[0].replace("/", "-"))
            self.succeed(*self.words(name, "two", "--tie", "none", "--init", model, "--max-steps", 2, "--freeze", *frozen))
            before, after = (support.parameters(path) for path in (self.last("two-none"), os.path.join(name, "checkpoint-00000002.h5")))
            for parameter in TABLES["none"]:
                self.assertEqual(numpy.array_equal(before[parameter], after[parameter]), parameter in frozen, (frozen, parameter))
        self.refuse(78, *self.words(self.path("no"), "two", "--freeze", "embedding"), says=["matches embedding", "source_embedding"])

    def test_a_run_begins_with_tables_that_were_one(self):
        tied, _ = self.begin("tied", "one")
        for tie, model in (("decoder", self.path("tied")), ("none", self.path("tied")), ("none", self.models["one-decoder"])):
            theirs = tied if model == self.path("tied") else support.parameters(self.last("one-decoder"))
            ours, _ = self.begin(f"apart-{tie}-{os.path.basename(model)}", "one", "--tie", tie, "--init", model)
            for parameter, values in ours.items():
                origin = parameter
                if parameter not in theirs:
                    origin = "target_embedding" if "target_embedding" in theirs else "embedding"
                self.assertTrue(numpy.array_equal(values, theirs[origin]), parameter)
        for model, options, says in (
            ("one-decoder", ("--tie", "all"), ["--tie decoder", "Give --tie decoder or none"]),
            ("two-none", ("--init-vocabulary", "extend"), ["--tie none", "Give --tie none"]),
            ("one-decoder", ("--tie", "none", "--init-optimizer", "keep"), ["--init-optimizer keep", "--tie decoder"]),
        ):
            for command in ("train", "plan"):
                words = self.words(self.path("refused"), "one", "--init", self.models[model], *options)[1:]
                self.refuse(78, command, *words, says=says)

    def test_a_run_takes_the_tokens_of_each_side(self):
        seed = ("--seed", 5)  # of new rows: otherwise those of tokens that no text has would be those of the model
        random, _ = self.begin("random-two", "two", *seed)
        self.refuse(78, *self.words(self.path("refused"), "two", "--init", self.models["one-decoder"]),
                    says=["another tokenizer of targets", "--init-vocabulary extend"])  # fmt: skip
        extend = ("--init-vocabulary", "extend")
        for direction, corpus, model in (("apart", "two", "one-decoder"), ("together", "one", "two-decoder")):
            tie = ("--tie", "decoder") if corpus == "one" else ()
            ours, said = self.begin("extended-" + direction, corpus, "--init", self.models[model], *extend, *tie, *seed)
            theirs = support.parameters(self.last(model))
            fresh = random if corpus == "two" else self.begin("random-one", "one", *tie, *seed)[0]
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

    def test_vectors_for_each_side(self):
        vector = " ".join(["0.5"] * 32)
        for side, word in (("source", "the"), ("target", "\u2581")):
            self.write(side + ".txt", f"{word} {vector}\n")
        plain, _ = self.begin("plain", "two", "--tie", "none")
        options = ("--init-embeddings", self.path("source.txt"), self.path("target.txt"))
        found, said = self.begin("vectors", "two", "--tie", "none", *options)
        for table in TABLES["none"]:
            changed = (found[table] != plain[table]).any(axis=1).sum()
            self.assertEqual(changed, 1 if table.split("_")[0] in ("source", "target") else 0, table)
        for side in ("source", "target"):
            self.assertIn(f"tokens of the {side} vocabulary start with one of the 1 vectors", said)
        both, _ = self.begin("vectors-of-one", "one", "--tie", "decoder", "--init-embeddings", self.path("source.txt"))
        for table in TABLES["decoder"]:
            self.assertEqual(int((both[table] == both[table][:, :1]).all(axis=1).sum()), 1, table)
        for corpus, given, says in (
            ("two", options[:2], ["--init-embeddings", "give two files"]),
            ("one", options, ["--tie all", "give one file"]),
            ("two", (*options, "--init", self.models["two-decoder"]), ["--init-embeddings", "absent with --init"]),
            ("two", (*options, self.path("source.txt")), ["--init-embeddings is 3 files"]),
        ):
            for command in ("train", "plan"):
                self.refuse(78, command, *self.words(self.path("refused"), corpus, *given)[1:], says=says)


if __name__ == "__main__":
    unittest.main()
