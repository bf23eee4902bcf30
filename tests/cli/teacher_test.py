# SPDX-License-Identifier: Apache-2.0
"""train --teacher: a run that learns the distributions of other models beside its labels."""

import json
import os
import re
import shutil
import unittest

import h5py
import numpy

import support

STEPS = 12  # of the teachers


class Network:
    """The Transformer of a weights file or checkpoint with one table of tokens, in f64."""

    def __init__(self, path):
        self.parameters = {name: numpy.array(value, dtype=float) for name, value in support.parameters(path).items()}
        with h5py.File(path, "r") as file:
            self.config = json.loads(file.attrs["config"])

    def linear(self, name, x):
        return x @ self.parameters[name + "/weight"] + self.parameters[name + "/bias"]

    def norm(self, name, x):
        centred = x - x.mean(axis=1, keepdims=True)
        scaled = centred / numpy.sqrt((centred**2).mean(axis=1, keepdims=True) + self.config["layer_norm_epsilon"])
        return scaled * self.parameters[name + "/gamma"] + self.parameters[name + "/beta"]

    def attention(self, name, x, memory, causal):
        heads = self.config["heads"]
        query, key, value = (
            numpy.stack(numpy.split(self.linear(f"{name}/{part}", of), heads, axis=1))
            for part, of in (("query", x), ("key", memory), ("value", memory))
        )
        scores = query @ key.transpose(0, 2, 1) / numpy.sqrt(query.shape[2])
        if causal:
            scores = numpy.where(numpy.tri(len(x), dtype=bool), scores, -numpy.inf)
        return self.linear(name + "/output", numpy.concatenate(list(softmax(scores) @ value), axis=1))

    def sublayer(self, name, x, function):
        if self.config["pre_norm"]:
            return x + function(self.norm(name + "/norm", x))
        return self.norm(name + "/norm", x + function(x))

    def embedded(self, side, ids):
        d = self.config["d_model"]
        places = numpy.arange(len(ids))
        if self.config["learned_positions"]:
            positions = self.parameters[side + "_positions"][: len(ids)]
        else:
            angles = places[:, None] / 10000 ** (2 * numpy.arange(d // 2) / d)
            positions = numpy.stack([numpy.sin(angles), numpy.cos(angles)], axis=2).reshape(len(ids), d)
        return self.parameters["embedding"][ids] * numpy.sqrt(d) + positions

    def stack(self, side, x, memory=None):
        def feed_forward(y):
            return self.linear(name + "/outer", numpy.maximum(self.linear(name + "/inner", y), 0))

        for layer in range(self.config[side + "_layers"]):
            layer = f"{side}/layers/{layer}"
            name = layer + "/self_attention"
            x = self.sublayer(name, x, lambda y, n=name: self.attention(n, y, y, causal=memory is not None))
            if memory is not None:
                name = layer + "/cross_attention"
                x = self.sublayer(name, x, lambda y, n=name: self.attention(n, y, memory, causal=False))
            name = layer + "/feed_forward"
            x = self.sublayer(name, x, feed_forward)
        return self.norm(side + "/norm", x) if self.config["pre_norm"] else x

    def logits(self, source, inputs):
        """[inputs, tokens]."""
        memory = self.stack("encoder", self.embedded("source", source))
        return self.stack("decoder", self.embedded("target", inputs), memory) @ self.parameters["embedding"].T


def softmax(scores):
    powers = numpy.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


class Teacher(support.CommandLineTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.corpus = cls.prepare_demo(train_pairs=80)
        cls.teacher = os.path.join(cls.folder, "teacher.h5")
        cls.other = os.path.join(cls.folder, "other", f"checkpoint-{STEPS:08}.h5")
        shapes = {
            "teacher": ("--d-model", 48, "--d-ff", 80, "--heads", 4, "--encoder-layers", 2),
            "other": ("--pre-norm", "--learned-positions", "--decoder-layers", 1),
        }
        for name, shape in shapes.items():
            result = support.run(*cls.words(name, *shape, "--max-steps", STEPS))
            assert result.returncode == 0, result.stderr.decode()
        result = support.run("export", "--model", os.path.join(cls.folder, "teacher"), "--output", cls.teacher)
        assert result.returncode == 0, result.stderr.decode()

    @classmethod
    def words(cls, name, *options):
        """The words of a run in the folder `name`, whose bits are the same on any number of ranks. Later options win."""
        settings = dict(zip(support.TINY_MODEL[::2], support.TINY_MODEL[1::2]))
        settings |= {"--max-steps": 8, "--save-every": 3, "--digest-every": 1, "--log-every": 1, "--logical-shards": 4}
        settings |= {"--reduction": "reproducible", "--corpus": cls.corpus, "--model-dir": os.path.join(cls.folder, name)}
        words, rest = [], list(options)
        while rest:
            word = rest.pop(0)
            if word in settings:
                settings[word] = rest.pop(0)
            else:
                words.append(word)
        return ["train", *(word for pair in settings.items() for word in pair), *words]

    def lines(self, name):
        return [json.loads(line) for line in self.read(self.path(name, "metrics.jsonl")).splitlines()]

    def digests(self, name, *options, ranks=1):
        """The digests of its steps."""
        self.succeed(*self.words(name, *options), ranks=ranks)
        return {line["step"]: line["digest"] for line in self.lines(name) if "digest" in line}

    def test_the_loss_of_a_step_is_that_of_the_formulas(self):
        # One micro-batch of more rows than logits are computed at a time.
        alike = ("--dropout", 0, "--attention-dropout", 0, "--logical-shards", 1, "--batch-source-tokens", 1500)
        alike += ("--batch-target-tokens", 1500, "--label-smoothing", 0.1)
        self.succeed(*self.words("begin", *alike, "--max-steps", 0))
        begun = Network(self.path("begin", "checkpoint-00000000.h5"))
        with h5py.File(self.corpus, "r") as file:
            tokens, offsets = file["train/tokens"][()].astype(int), file["train/offsets"][()]
        begin, end = 1, 2
        pairs = []
        self.succeed(*self.words("labels", *alike, "--max-steps", 1))
        for line in self.succeed("order", "--model-dir", self.path("labels"), "--steps", 1, "--json").splitlines():
            pair = json.loads(line)["pair"] - 1
            source, target = (tokens[offsets[2 * pair + side] : offsets[2 * pair + side + 1]] for side in (0, 1))
            pairs.append(([*source, end], [begin, *target], [*target, end]))
        count = sum(len(labels) for _, _, labels in pairs)
        self.assertGreater(count, 1100)
        teachers = [Network(self.teacher), Network(self.other)]
        cases = [(teachers[:1], 0.5, 1.0, 8), (teachers[1:], 0.7, 2.0, 3), (teachers, 1.0, 1.5, 0), (teachers, 0.25, 1.0, 256)]
        expected = numpy.zeros(len(cases))
        for source, inputs, labels in pairs:
            logits = begun.logits(source, inputs)
            taught = [teacher.logits(source, inputs) for teacher in teachers]
            log_p = numpy.log(softmax(logits))
            of_label = 0.9 * log_p[numpy.arange(len(labels)), labels] + 0.1 * log_p.mean(axis=1)
            for case, (models, weight, temperature, top_k) in enumerate(cases):
                mean = numpy.mean([softmax(taught[teachers.index(model)] / temperature) for model in models], axis=0)
                if top_k:
                    mean[mean < numpy.sort(mean, axis=1)[:, -top_k][:, None]] = 0
                    mean /= mean.sum(axis=1, keepdims=True)
                soft = (mean * numpy.log(softmax(logits / temperature))).sum(axis=1)
                expected[case] -= ((1 - weight) * of_label + weight * temperature**2 * soft).sum() / count
        for case, (models, weight, temperature, top_k) in enumerate(cases):
            with self.subTest(case):
                paths = [self.teacher if model is teachers[0] else self.other for model in models]
                options = ("--teacher", *paths, "--teacher-weight", weight, "--teacher-temperature", temperature)
                self.succeed(*self.words(f"case-{case}", *alike, "--max-steps", 1, *options, "--teacher-top-k", top_k))
                line, plain = self.lines(f"case-{case}")[0], self.lines("labels")[0]
                self.assertAlmostEqual(line["loss"], expected[case], delta=2e-5)
                self.assertEqual(line["nll"], plain["nll"])
                self.assertNotAlmostEqual(line["loss"], plain["loss"], delta=1e-3)

    def test_the_bits_are_those_of_any_number_of_ranks_and_threads_and_of_a_resumed_run(self):
        for kind, options in (("few", ()), ("all", ("--teacher-top-k", 0, "--teacher-temperature", 2))):
            options = ("--teacher", self.teacher, self.other, *options)
            expected = self.digests(f"{kind}-one", *options)
            self.assertEqual(list(expected), list(range(1, 9)))
            self.assertEqual(self.digests(f"{kind}-two", *options, ranks=2), expected)
            self.assertEqual(self.digests(f"{kind}-four", *options, "--threads", 3, ranks=4), expected)
            self.digests(f"{kind}-parts", *options, "--max-steps", 3)
            self.assertEqual(self.digests(f"{kind}-parts", *options), expected)
            self.assertNotEqual(self.digests("one-teacher", "--teacher", self.other, *options[3:])[1], expected[1])
            shutil.rmtree(self.path("one-teacher"))

    def test_the_bits_are_those_of_any_instruction_set(self):
        for kind, options in (("few", ()), ("all", ("--teacher-top-k", 0, "--teacher-temperature", 2))):
            options = ("--teacher", self.teacher, "--max-steps", 2, *options)
            expected = self.digests(f"{kind}-best", *options)
            for name in re.search(r"ISA: +\S+, of (.*)", self.succeed("--version").decode()).group(1).split(", "):
                result = support.run(*self.words(f"{kind}-{name}", *options, "--isa", name))
                if b"does not have these instructions" in result.stderr:
                    continue
                self.assertEqual(result.returncode, 0, result.stderr)
                got = {line["step"]: line["digest"] for line in self.lines(f"{kind}-{name}") if "digest" in line}
                self.assertEqual(got, expected, name)

    def test_a_weight_of_zero_gives_the_bits_of_none(self):
        plain = self.digests("without")
        self.assertEqual(self.digests("with", "--teacher", self.teacher, "--teacher-weight", 0), plain)
        with h5py.File(self.path("without", "checkpoint-00000008.h5")) as file:
            self.assertNotIn(b"teacher", file.attrs["resume_signature"])
        self.assertNotIn(b"teacher", self.read(self.path("without", "config.json")))

    def test_a_replay_finds_the_teachers(self):
        moved = shutil.copy(self.teacher, self.path("to-move.h5"))
        self.digests("replayed", "--teacher", moved, "--max-steps", 5)
        checkpoint = self.path("replayed", "checkpoint-00000003.h5")
        self.succeed("replay", "--checkpoint", checkpoint)
        os.rename(moved, self.path("moved.h5"))
        self.refuse(66, "replay", "--checkpoint", checkpoint, says=[moved, "--teacher"])
        self.succeed("replay", "--checkpoint", checkpoint, "--teacher", self.path("moved.h5"), ranks=2)
        self.refuse(78, "replay", "--checkpoint", checkpoint, "--teacher", self.other, says="--teacher")

    def test_a_resume_needs_the_same_teachers_wherever_they_are(self):
        options = ("--teacher", self.teacher)
        expected = self.digests("whole", *options)
        self.digests("kept", *options, "--max-steps", 3)
        with h5py.File(self.teacher, "r") as file:
            digest = file.attrs["parameter_digest"].decode()
        self.refuse(78, *self.words("kept"), says=[f"--teacher {digest} (the digest of its parameters)", "has none"])
        self.refuse(78, *self.words("kept", "--teacher", self.other), says=["--teacher", digest, "config.json of the run names"])
        self.refuse(78, *self.words("kept", *options, self.other), says=["--teacher", digest])
        for option, value, kept in (("weight", 0.25, 0.5), ("temperature", 2, 1), ("top-k", 0, 8)):
            option = f"--teacher-{option}"
            self.refuse(78, *self.words("kept", *options, option, value), says=f"{option} {kept}, but this run has {value}")
        copy = shutil.copy(self.teacher, self.path("elsewhere.h5"))
        self.assertEqual(self.digests("kept", "--teacher", copy), expected)
        self.digests("plain", "--max-steps", 3)
        self.refuse(78, *self.words("plain", *options), says=["--teacher none, but this run has", digest])

    def test_a_run_can_be_repeated_from_its_configuration(self):
        options = ("--teacher", self.teacher, self.other, "--teacher-weight", 0.75, "--teacher-temperature", 1.5)
        expected = self.digests("first", *options, "--teacher-top-k", 4)
        with open(self.path("first", "config.json"), encoding="utf-8") as file:
            config = json.load(file)
        self.assertEqual(config["teacher"], [self.teacher, self.other])
        self.succeed("train", "--config", self.path("first", "config.json"), "--model-dir", self.path("second"))
        again = {line["step"]: line["digest"] for line in self.lines("second") if "digest" in line}
        self.assertEqual(again, expected)

    def test_a_run_folder_teaches_by_its_best_checkpoint(self):
        result = support.run(*self.words("of-folder", "--teacher", self.path("teacher"), "--max-steps", 1))
        self.assertEqual(result.returncode, 0, result.stderr)
        with open(self.path("of-folder", "config.json"), encoding="utf-8") as file:
            self.assertEqual(json.load(file)["teacher"], [self.path("teacher", f"checkpoint-{STEPS:08}.h5")])
        said = result.stderr.decode()
        parameters = sum(value.size for value in support.parameters(self.teacher).values())
        self.assertRegex(said, rf"\n  teacher     \S+: {parameters:,} parameters, 2 \+ 2 layers, width 48, 4 heads\n")
        self.assertRegex(said, r"\n +the 8 most probable tokens of its distribution, weight 0.5, temperature 1\n")

    def test_bad_teachers_are_refused_with_one_error(self):
        damaged = self.path("damaged.h5")
        data = bytearray(self.read(self.teacher))
        data[len(data) // 2] ^= 1
        self.write("damaged.h5", bytes(data))
        vocabulary = self.path("vocabulary.h5")
        self.succeed(
            *("prepare", "--train-sets", self.demo_path("train.en"), self.demo_path("train.de")),
            *("--vocab-size", 280, "--output", vocabulary),
        )
        self.succeed(*self.words("foreign", "--corpus", vocabulary, "--max-steps", 1))
        foreign = self.path("foreign", "checkpoint-00000001.h5")
        short = self.path("short", "checkpoint-00000001.h5")
        self.succeed(*self.words("short", "--learned-positions", "--max-positions", 128, "--max-steps", 1))
        with h5py.File(self.corpus, "r") as file:
            longest = int(numpy.diff(file["train/offsets"][()]).max()) + 1
        self.assertLess(longest, 128)
        os.makedirs(self.path("empty"))
        for code, name, says in (
            (66, self.path("missing.h5"), ["missing.h5"]),
            (66, self.path("empty"), ["the folder holds no checkpoint"]),
            (65, damaged, ["damaged.h5"]),
            (65, self.corpus, ["corpus.h5", "expected a checkpoint or a weights file"]),
            (78, foreign, ["--teacher", "280 tokens and 300 tokens", "prepare --tokenizer-from"]),
        ):
            for ranks in (1, 2):
                with self.subTest(name, ranks=ranks):
                    message = self.refuse(code, *self.words("refused", "--teacher", name), says=says, ranks=ranks)
                    self.assertEqual(message.count("error: "), 1, message)
        self.succeed(*self.words("long-enough", "--teacher", short, "--max-steps", 1))
        for words in (("--teacher-weight", 1.5), ("--teacher-temperature", 0), ("--teacher-top-k", 257)):
            self.refuse(64, *self.words("refused", "--teacher", self.teacher, *words), says=words[0])
        self.refuse(78, *self.words("refused", "--teacher-weight", 0.25), says="--teacher is absent; it must be given where --teacher-weight")
        self.refuse(66, *self.words("refused", "--teacher", self.path("nope.h5")), says=f"--teacher {self.path('nope.h5')}: there is no such file")
        for value in ("1e-46", "1e-40", 0):  # as f32 the first is 0, and quotients by the second are not finite
            self.refuse(64, *self.words("refused", "--teacher", self.teacher, "--teacher-temperature", value), says="0.01")
        self.assertFalse(os.path.exists(self.path("refused", "metrics.jsonl")))
        for words in (("--teacher-model", self.teacher), ("--kd-alpha", 0.5)):
            self.refuse(64, *self.words("refused", *words), says="--teacher")

    def test_ranks_with_and_without_teachers_disagree(self):
        for with_teacher in (0, 1):
            ranks = [self.words("some"), self.words("some")]
            ranks[with_teacher] += ["--teacher", self.teacher]
            words = support.command(*ranks[0], ranks=2)
            words[words.index("-np") + 1] = "1"
            process = support.start([*words, ":", "-np", "1", *support.command(*ranks[1])])
            said = process.communicate(timeout=60)[1].decode()
            self.assertEqual(process.returncode, 76, said)
            self.assertIn("the ranks disagree on the number of teachers (--teacher): rank 1 has", said)

    def test_only_sentences_to_train_on_need_positions_of_the_teacher(self):
        self.succeed(*self.words("short", "--learned-positions", "--max-positions", 128, "--max-steps", 1))
        self.write("long.en", b"a " * 200 + b"\n")
        self.write("long.de", b"b " * 200 + b"\n")
        corpus = self.path("long.h5")
        text = ("--train-sets", self.demo_path("train.en"), self.demo_path("train.de"), "--valid-sets", self.path("long.en"), self.path("long.de"))
        self.succeed("prepare", *text, "--tokenizer-from", self.teacher, "--output", corpus)
        teacher = ("--teacher", self.path("short", "checkpoint-00000001.h5"))
        self.succeed(*self.words("long", *teacher, "--corpus", corpus, "--valid-every", 0, "--max-steps", 1))

    def test_plan_and_profile_know_of_them(self):
        def plan(*options):
            words = self.words("planned", *options, "--precision", "f32")
            kept = [word for word in words[1:] if word not in ("--reproducible",)]
            return json.loads(self.succeed("plan", *kept, "--json"))

        kinds = [{part["kind"]: part["bytes"] for part in plan(*options)["memory"]}
                 for options in ((), ("--teacher", self.teacher), ("--teacher", self.teacher, "--teacher-top-k", 0))]  # fmt: skip
        parameters = sum(value.size for value in support.parameters(self.teacher).values())
        self.assertNotIn("parameters of teachers", kinds[0])
        self.assertGreaterEqual(kinds[1]["parameters of teachers"], 4 * parameters)
        self.assertLess(kinds[1]["parameters of teachers"], 4.2 * parameters)
        self.assertGreater(kinds[2]["activations of teachers"], kinds[1]["activations of teachers"] + 4 * 300 * 128)
        self.refuse(66, "plan", *self.words("planned", "--teacher", self.path("none.h5"))[1:], says="none.h5")
        result = support.run(*self.words("profiled", "--teacher", self.teacher, "--profile", "--json"))
        self.assertEqual(result.returncode, 0, result.stderr)
        rows = {row["phase"]: row for row in json.loads(result.stdout)["profile"]["phases"]}
        self.assertGreater(rows["teachers forward"]["model_flops_per_second"], 0)


if __name__ == "__main__":
    unittest.main()
