# SPDX-License-Identifier: Apache-2.0
"""A run with all that can happen to one: three stages, two validation sets, a script, and five kills. Its log, its
translations and its checkpoints are those of a run that nothing disturbed."""

import os
import unittest

import support

STEPS = 150
PLAN = "first: clean 1 until 30 steps\nboth: clean .5 web .5 until 60 steps\nlast: web 1\n"


class WholeRun(support.RunTest):
    MODEL = [
        *(*support.TINY_MODEL, "--schedule", "constant", "--peak-learning-rate", 0.01, "--warmup-steps", 20, "--max-steps", STEPS),
        *("--reduction", "reproducible", "--logical-shards", 2, "--save-every", 10, "--valid-every", 20, "--keep-checkpoints", 40),
        *("--log-every", 5, "--digest-every", 10, "--valid-max-sentences", 6, "--valid-beam-size", 1, "--valid-metric", "loss"),
        *("--valid-script", "sleep 0.05; wc -w < $VENTRIS_TRANSLATIONS"),
    ]

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        sets = []
        for name, begin, end in (("clean", 0, 200), ("web", 200, 400)):
            texts = {side: cls.read(cls.demo_path(f"train.{side}")).splitlines(True)[begin:end] for side in ("en", "de")}
            sets += ["--train-set", name, *(cls.write(f"{name}.{side}", b"".join(lines)) for side, lines in texts.items())]
        for name, demo in (("news", "valid"), ("talk", "test")):
            sets += ["--valid-set", name, cls.demo_path(f"{demo}.en"), cls.demo_path(f"{demo}.de")]
        tokenizer, cls.corpus = cls.corpus, cls.path("mixed.h5")
        cls.made("prepare", *sets, "--tokenizer-from", tokenizer, "--output", cls.corpus)
        cls.plan = cls.write("plan", PLAN)
        cls.made(*cls.train("quiet", mix=cls.plan))
        cls.kills = cls.disturbed_run()

    @classmethod
    def disturbed_run(cls):
        """Starts the run again and again, and kills it at five places. Returns how often it was alive to be killed."""
        words = cls.train("killed", mix=cls.plan)
        alive = 0
        for step in (15, 45, 65, 85, 120):
            reached = lambda step=step: any(line["step"] >= step for line in cls.lines("killed"))
            process = support.start(support.command(*words))
            support.wait_for(reached, process)
            alive += process.poll() is None
            process.kill()
            process.communicate()
        cls.made(*words)
        return alive

    def interesting(self, name):
        """The lines without times and rates, and without what says of starts and of the script, which runs beside the training."""
        hidden = ("time", "elapsed_seconds", "target_tokens_per_second", "source_tokens_per_second")
        lines = [line for line in self.lines(name) if line.get("event") not in ("resumed", "valid_script")]
        return [{key: value for key, value in line.items() if key not in hidden} for line in lines]

    def test_the_disturbed_run_is_the_quiet_one(self):
        self.assertGreaterEqual(self.kills, 4)
        quiet, killed = self.interesting("quiet"), self.interesting("killed")
        self.assertEqual(killed, quiet)
        events = [line.get("event") for line in quiet]
        self.assertEqual(events.count("stage_end"), 2)
        self.assertEqual(sum(line["type"] == "validation" for line in quiet), STEPS // 20 + 1)
        self.assert_same_checkpoints("killed", "quiet", STEPS)
        self.assertEqual(self.read(self.path("killed", "best.json")), self.read(self.path("quiet", "best.json")))
        for step in range(20, STEPS, 20):
            for name in ("news", "talk"):
                part = os.path.join("valid", f"{step:08}", name + ".txt")
                self.assertEqual(self.read(self.path("killed", part)), self.read(self.path("quiet", part)))


if __name__ == "__main__":
    unittest.main(verbosity=2)
