# SPDX-License-Identifier: Apache-2.0
"""Several corpora, mixed by a plan of stages: train --mix, order, plan, and runs that are killed at the borders of stages."""

import json
import os
import shutil
import signal
import unittest

import h5py

import support

PLAN = "warm: bt 1 until 7 steps\nboth: clean .3 bt .7 until clean 1\ncalm: clean 1 bt 1 until stalled 1\nend: clean 1\n"
BATCH = ["--batch-source-tokens", 512, "--batch-target-tokens", 512, "--logical-shards", 4]
OPTIONS = [
    *("--encoder-layers", 1, "--decoder-layers", 1, "--d-model", 32, "--d-ff", 64, "--heads", 2, *BATCH),
    *("--warmup-steps", 20, "--dropout", 0.2, "--threads", 1, "--reduction", "reproducible", "--max-steps", 60),
    *("--valid-every", 5, "--valid-max-sentences", 2, "--valid-metric", "bleu", "--valid-beam-size", 1),
    *("--save-every", 6, "--log-every", 1, "--keep-checkpoints", 100),
]
OPUS = """
datasets:
  clean: clean.tsv
  bt: bt.tsv.gz
stages: [start, end]
start:
  - clean 0.3
  - bt 0.7
  - until clean 2
end:
  - clean 1.0
  - until clean inf
seed: 1111
"""


def interesting(lines):
    """Lines of metrics.jsonl without what depends on the time and on where starts began."""
    hidden = ("time", "elapsed_seconds", "target_tokens_per_second", "source_tokens_per_second", "phase_seconds")
    return [{key: value for key, value in line.items() if key not in hidden} for line in lines if line.get("event") != "resumed"]


class MixTest(support.CommandLineTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.prepare_demo(train_pairs=300)
        cls.corpus = cls.mixed_corpus("mixed.h5", ("clean", 0, 100), ("bt", 100, 300))
        with open(f"{cls.folder}/plan.txt", "w", encoding="utf-8") as file:
            file.write(PLAN)
        cls.plan = f"{cls.folder}/plan.txt"
        words = cls.words("quiet")
        result = support.run(*words)
        assert result.returncode == 0, result.stderr.decode()
        cls.quiet_log = result.stderr.decode()

    @classmethod
    def mixed_corpus(cls, name, *corpora):
        """A corpus file with these corpora, each lines [begin, end) of the demo."""
        sets = []
        for corpus, begin, end in corpora:
            sides = []
            for side in ("en", "de"):
                with open(f"{cls.folder}/demo/train.{side}", encoding="utf-8") as file:
                    lines = file.readlines()[begin:end]
                sides.append(f"{cls.folder}/{name}.{corpus}.{side}")
                with open(sides[-1], "w", encoding="utf-8") as file:
                    file.writelines(lines)
            sets += ["--train-set", corpus, *sides]
        valid = [f"{cls.folder}/demo/valid.{side}" for side in ("en", "de")]
        tokenizer = ["--tokenizer-from", f"{cls.folder}/corpus.h5"]
        words = ["prepare", *sets, "--valid-sets", *valid, *tokenizer, "--threads", 1, "--output", f"{cls.folder}/{name}"]
        result = support.run(*words)
        assert result.returncode == 0, result.stderr.decode()
        return f"{cls.folder}/{name}"

    @classmethod
    def words(cls, name, *options):
        """The command line of a run in the folder `name`; options take the place of those of OPTIONS."""
        given = ["--corpus", cls.corpus, "--model-dir", f"{cls.folder}/{name}", "--mix", cls.plan, *OPTIONS, *options]
        return ["train", *(word for pair in dict(zip(given[::2], given[1::2])).items() for word in pair)]

    def log_of(self, name):
        with open(self.path(name, "metrics.jsonl"), encoding="utf-8") as file:
            return interesting(json.loads(line) for line in file)

    def state_of(self, name, step=60):
        with h5py.File(self.path(name, f"checkpoint-{step:08d}.h5"), "r") as file:
            kept = ("step", "epoch", "epoch_index", "mix", "parameter_digest", "resume_signature", "best_step")
            return {key: file.attrs[key] for key in kept}

    def ends(self, name="quiet"):
        return {line["ended_stage"]: line["step"] for line in self.log_of(name) if "ended_stage" in line}

    def pairs(self, *words):
        """The pairs of training steps."""
        text = self.succeed("inspect", *words, "--json").decode()
        return [json.loads(line) for line in text.splitlines()]


class Mix(MixTest):
    def test_stages_follow_one_another_and_are_recorded(self):
        ends = self.ends()
        self.assertEqual(list(ends), ["warm", "both", "calm"])
        self.assertEqual(ends["warm"], 7)
        self.assertEqual(ends["calm"] % 5, 0)
        state = json.loads(self.state_of("quiet")["mix"])
        self.assertEqual({stage["stage"]: stage["step"] for stage in state["ended"]}, ends)
        self.assertEqual(state["stage"], 3)
        for stage, step in ends.items():
            self.assertIn(f"stage {stage} has ended at step {step} (until ", self.quiet_log)
        intervals = [line for line in self.log_of("quiet") if line["type"] == "interval"]
        pairs = {line["step"]: line["pairs"] for line in intervals}
        self.assertEqual(pairs[7]["clean"], 0)
        self.assertGreaterEqual(pairs[ends["both"]]["clean"], 100)
        self.assertLess(pairs[ends["both"] - 1]["clean"], 100)
        self.assertEqual(pairs[60]["bt"], pairs[ends["calm"]]["bt"])

    def test_a_kill_at_any_border_of_stages_changes_no_bit(self):
        ends = self.ends()
        moments = sorted({step + by for step in ends.values() for by in (-1, 0, 1)})
        for number, step in enumerate(moments):
            name = f"killed-{step}"
            process = support.start(support.command(*self.words(name)))
            log = self.path(name, "metrics.jsonl")
            reached = f'"step":{step},"type":"interval"'.encode()
            support.wait_for(lambda log=log, reached=reached: os.path.exists(log) and reached in self.read(log), process)
            process.send_signal(signal.SIGKILL if number % 3 else signal.SIGUSR1)
            process.communicate(timeout=60)
            self.succeed(*self.words(name))
            self.assertEqual(self.state_of(name), self.state_of("quiet"), step)
            self.assertEqual(self.log_of(name), self.log_of("quiet"), step)

    @unittest.skipUnless(support.MPIEXEC, "built without MPI")
    def test_any_number_of_ranks_has_the_same_stages_and_bits(self):
        self.succeed(*self.words("ranks", "--max-steps", 20), ranks=3)
        self.succeed(*self.words("ranks"), ranks=2)
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
        table = self.succeed("inspect", self.path("quiet"), "--steps", "20").decode().splitlines()
        self.assertEqual(table[0].split("\t")[:4], ["step", "shard", "stage", "corpus"])
        self.assertEqual(len(table) - 1, sum(line["step"] == 20 for line in part))

    def test_inspect_refuses_steps_that_it_cannot_show(self):
        self.refuse(64, "inspect", self.corpus, "--steps", "5:4", says="expected A:B")
        self.refuse(64, "inspect", self.corpus, "--steps", 5, "--corpus", self.corpus, says="is for a run folder")
        self.refuse(64, "inspect", self.corpus, "--seed", 3, says=["--seed", "--steps"])
        self.refuse(64, "inspect", self.corpus, "--steps", 5, "--verify", says=["--steps", "--verify"])
        self.refuse(64, "inspect", self.path("quiet"), "--steps", 1, "--seed", 3, says="leave out --seed")
        self.refuse(64, "inspect", self.path("quiet"), "--steps", "60:61", says="has recorded 60 steps")

    def test_inspect_says_how_to_name_a_corpus_that_was_moved(self):
        corpus = shutil.copyfile(self.path("corpus.h5"), self.path("moves.h5"))
        self.succeed("train", "--corpus", corpus, "--model-dir", self.path("moves"), *support.TINY_MODEL, "--max-steps", 1)
        os.rename(corpus, self.path("moved.h5"))
        words = ("inspect", self.path("moves"), "--steps", 1)
        self.refuse(66, *words, says=[corpus, "give its new path with --corpus"])
        self.succeed(*words, "--corpus", self.path("moved.h5"))

    def test_other_corpora_of_a_file_do_not_change_the_order_of_one(self):
        more = self.mixed_corpus("more.h5", ("first", 200, 240), ("clean", 0, 100), ("last", 240, 300), ("bt", 100, 300))
        plan = self.write("two.txt", "clean 1 bt 2")
        pairs = []
        for name, corpus in (("two", self.corpus), ("four", more)):
            self.succeed(*self.words(name, "--corpus", corpus, "--mix", plan, "--max-steps", 20))
            pairs.append(self.pairs(self.path(name), "--steps", "1:20"))
        self.assertEqual(*pairs)

    def test_a_plan_shows_its_stages(self):
        shown = json.loads(self.succeed("plan", "--corpus", self.corpus, "--mix", self.plan, *BATCH, "--json"))
        self.assertEqual([stage["stage"] for stage in shown["stages"]], ["warm", "both", "calm", "end"])
        self.assertEqual(shown["stages"][0], {"stage": "warm", "end": "until 7 steps", "steps": 7})
        both = self.ends()["both"] - 7
        self.assertAlmostEqual(shown["stages"][1]["steps"], both, delta=0.15 * both)
        self.assertNotIn("steps", shown["stages"][2])
        text = self.succeed("plan", "--corpus", self.corpus, "--mix", self.plan, *BATCH).decode()
        self.assertRegex(text, r"\n  stage both +\d+  about  until clean 1\n")

    def test_a_configuration_of_opustrainer_is_the_same_plan(self):
        opus = self.write("opus.yml", OPUS)
        ours = self.write("ours.txt", "start: clean .3 bt .7 until clean 2\nend: clean 1\n")
        pairs = []
        for name, plan in (("ours", ours), ("opus", opus)):
            result = support.run(*self.words(name, "--mix", plan, "--max-steps", 40, "--valid-every", 0))
            self.assertEqual(result.returncode, 0, result.stderr)
            pairs.append(self.pairs(self.path(name), "--steps", "1:40"))
        self.assertEqual(*pairs)
        self.assertIn("the paths of datasets are not used", result.stderr.decode())
        self.assertIn("not used: seed (--seed is that of the run)", result.stderr.decode())
        upper = self.write("upper.yml", OPUS + "modifiers:\n- UpperCase: 0.1\n")
        self.refuse(78, *self.words("upper", "--mix", upper), says=["upper.yml", "modifier UpperCase", "ventris prepare"])

    def test_the_configuration_of_a_run_has_its_plan(self):
        config = self.path("quiet", "config.json")
        again = ["train", "--config", config, "--model-dir", self.path("again"), "--max-steps", 12]
        self.succeed(*again)
        self.assertEqual(self.state_of("again", 12), self.state_of("quiet", 12))
        self.succeed(*self.words("same", "--mix", config, "--max-steps", 12))
        self.assertEqual(self.state_of("same", 12), self.state_of("quiet", 12))

    def test_bad_plans_are_refused_with_their_place(self):
        for text, says in (
            ("clean 1 until\n", "plan, line 1: 'until' is followed by 0 words"),
            ("dirty 1\n", "which {corpus} does not have; its corpora are clean, bt"),
            ("clean 1\nbt 1\n", "plan: stage 1: has no end"),
            ("", "plan: has no stage"),
            ("{}", "plan: is not a JSON object with the options of a run"),
            ("x" * 70000, "plan"),
        ):
            plan = self.write("plan", text)
            words = self.words("refused", "--mix", plan)
            result = support.run(*words)
            self.assertIn(result.returncode, (65, 78), text[:50])
            self.assertIn(says.format(corpus=self.corpus), result.stderr.decode())
            self.assertFalse(os.path.exists(self.path("refused", "config.json")))
        self.refuse(66, *self.words("refused", "--mix", self.path("nothing")), says="nothing")
        self.refuse(78, *self.words("quiet", "--mix", self.write("plan", "clean 1\n"), "--max-steps", 61),
                    says=["is in stage 4 of its plan, whose stage 1 is 'warm: bt 1 until 7 steps'"])  # fmt: skip


if __name__ == "__main__":
    unittest.main()
