# SPDX-License-Identifier: Apache-2.0
"""Several corpora, mixed by a plan of stages: train --mix, order, plan, and runs that are killed at the borders of stages."""

import json
import os
import signal
import unittest

import h5py

import support

PLAN = "warm: bt 1 until 7 steps\nboth: clean .3 bt .7 until clean 1\ncalm: clean 1 bt 1 until stalled 1\nend: clean 1\n"
BATCH = ["--batch-source-tokens", 512, "--batch-target-tokens", 512, "--logical-shards", 4]


def interesting(lines):
    """Lines of metrics.jsonl without what depends on the time and on where starts began."""
    hidden = ("time", "elapsed_seconds", "target_tokens_per_second", "source_tokens_per_second")
    return [{key: value for key, value in line.items() if key not in hidden} for line in lines if line.get("event") != "resumed"]


class Mix(support.RunTest):
    MODEL = [
        *(*support.TINY_MODEL, "--decoder-layers", 1, *BATCH, "--dropout", 0.2, "--reduction", "reproducible", "--max-steps", 60),
        *("--valid-every", 5, "--valid-max-sentences", 2, "--valid-metric", "bleu", "--valid-beam-size", 1),
        *("--save-every", 6, "--log-every", 1, "--keep-checkpoints", 100),
    ]
    CORPUS = {"train_pairs": 300}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.plan = cls.write("plan.txt", PLAN)
        cls.tokenizer = cls.corpus
        cls.corpus = cls.mixed_corpus("mixed.h5", ("clean", 0, 100), ("bt", 100, 300))
        cls.made(*cls.train("quiet", mix=cls.plan))

    @classmethod
    def mixed_corpus(cls, name, *corpora):
        """A corpus file with these corpora, each lines [begin, end) of the demo."""
        words = ["--valid-sets", cls.demo_path("valid.en"), cls.demo_path("valid.de"), "--tokenizer-from", cls.tokenizer]
        for corpus, begin, end in corpora:
            texts = {side: cls.read(cls.demo_path(f"train.{side}")).splitlines(True)[begin:end] for side in ("en", "de")}
            words += ["--train-set", corpus, *(cls.write(f"{name}.{corpus}.{side}", b"".join(lines)) for side, lines in texts.items())]
        cls.made("prepare", *words, "--threads", 1, "--output", cls.path(name))
        return cls.path(name)

    def log_of(self, name):
        return interesting(self.lines(name))

    def state_of(self, name, step=60):
        with h5py.File(self.checkpoint(name, step), "r") as file:
            kept = ("step", "epoch", "epoch_index", "mix", "parameter_digest", "resume_signature", "best_step")
            return {key: file.attrs[key] for key in kept}

    def ends(self, name="quiet"):
        return {line["ended_stage"]: line["step"] for line in self.log_of(name) if "ended_stage" in line}

    def pairs(self, *words):
        """The pairs of training steps."""
        text = self.succeed("inspect", *words).decode()
        return [json.loads(line) for line in text.splitlines()]

    def test_a_kill_at_any_border_of_stages_changes_no_bit(self):
        ends = self.ends()
        for number, step in enumerate((ends["warm"], ends["both"] + 1, ends["calm"] - 1)):
            name = f"killed-{step}"
            words = self.train(name, mix=self.plan)
            process = support.start(support.command(*words))
            support.wait_for(lambda name=name, step=step: any(line["step"] >= step for line in self.lines(name)), process)
            process.send_signal(signal.SIGKILL if number else signal.SIGUSR1)
            self.end_of(process)
            self.succeed(*words)
            self.assertEqual(self.state_of(name), self.state_of("quiet"), step)
            self.assertEqual(self.log_of(name), self.log_of("quiet"), step)

    @unittest.skipUnless(support.MPIEXEC, "built without MPI")
    def test_any_number_of_ranks_has_the_same_stages_and_bits(self):
        self.succeed(*self.train("ranks", mix=self.plan, max_steps=20), ranks=3)
        self.succeed(*self.train("ranks", mix=self.plan), ranks=2)
        self.assertEqual(self.state_of("ranks"), self.state_of("quiet"))
        without = [{k: v for k, v in line.items() if not k.startswith("valid_")} for line in self.log_of("ranks")]
        quiet = [{k: v for k, v in line.items() if not k.startswith("valid_")} for line in self.log_of("quiet")]
        self.assertEqual(without, quiet)

    def test_inspect_shows_what_the_steps_saw(self):
        ends = self.ends()
        order = self.pairs(self.path("quiet"), "--steps", "1:60")
        counts = {}
        seen = {}
        for line in order:
            counts.setdefault(line["step"], {"clean": 0, "bt": 0})[line["corpus"]] += 1
            seen.setdefault((line["corpus"], line["epoch"]), []).append(line["pair"])
            stage = next((name for name, step in ends.items() if line["step"] <= step), "end")
            self.assertEqual(line["stage"], stage)
        for pairs in seen.values():
            self.assertEqual(len(pairs), len(set(pairs)))
        self.assertEqual(sorted(seen["clean", 0]), list(range(1, 101)))
        total = {"clean": 0, "bt": 0}
        for line in self.log_of("quiet"):
            if line["type"] == "interval":
                total = {corpus: total[corpus] + count for corpus, count in counts[line["step"]].items()}
                self.assertEqual(line["pairs"], total, line["step"])
        with open(self.path("mixed.h5.bt.en"), encoding="utf-8") as file:
            sentences = file.read().splitlines()
        drawn = next(line for line in order if line["corpus"] == "bt")
        self.assertEqual(drawn["source"], sentences[drawn["pair"] - 1])
        part = self.pairs(self.path("quiet"), "--steps", "20:22")
        self.assertEqual(part, [line for line in order if 20 <= line["step"] <= 22])

    def test_the_configuration_of_a_run_has_its_plan(self):
        config = self.path("quiet", "config.json")
        again = ["train", "--config", config, "--model-dir", self.path("again"), "--max-steps", 12]
        self.succeed(*again)
        self.assertEqual(self.state_of("again", 12), self.state_of("quiet", 12))

    def test_bad_plans_are_refused_with_their_place(self):
        for text, says in (
            ("clean 1 until\n", "plan, line 1: 'until' is followed by 0 words"),
            ("dirty 1\n", f"which {self.corpus} does not have; its corpora are clean, bt"),
            ("{}", "plan: is not a JSON object with the options of a run"),
        ):
            result = support.run(*self.train("refused", mix=self.write("plan", text)))
            self.assertIn(result.returncode, (65, 78), text)
            self.assertIn(says, result.stderr.decode())
            self.assertFalse(os.path.exists(self.path("refused", "config.json")))
        self.refuse(66, *self.train("refused", mix=self.path("nothing")), says="nothing")


if __name__ == "__main__":
    unittest.main()
