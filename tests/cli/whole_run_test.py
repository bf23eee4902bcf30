# SPDX-License-Identifier: Apache-2.0
"""A run with all that can happen to one: three stages, two validation sets, a script, and five kills. Its log, its
events, its pages and its checkpoints agree, and are those of a run that nothing disturbed."""

import datetime
import os
import struct
import unittest

import event_files
import support
from pages import Page

STEPS = 150
PLAN = "first: clean 1 until 30 steps\nboth: clean .5 web .5 until 60 steps\nlast: web 1\n"


class WholeRun(support.RunTest):
    MODEL = [
        *(*support.TINY_MODEL, "--schedule", "constant", "--peak-learning-rate", 0.01, "--warmup-steps", 20, "--max-steps", STEPS),
        *("--reduction", "reproducible", "--logical-shards", 2, "--save-every", 10, "--valid-every", 20, "--keep-checkpoints", 40),
        *("--log-every", 5, "--digest-every", 10, "--valid-max-sentences", 6, "--valid-beam-size", 1, "--valid-metric", "loss"),
        *("--valid-script", "sleep 0.05; wc -w < $VENTRIS_TRANSLATIONS", "--tensorboard"),
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

    def test_report_and_event_files_say_what_the_log_says(self):
        self.succeed("report", self.path("quiet"), self.path("killed"), "--output", self.path("report.html"))
        runs = Page(self.read(self.path("report.html")).decode("ascii")).data["runs"]
        for run, name in zip(runs, ("quiet", "killed")):
            logged, seen = {}, {}
            for line in self.lines(name):
                if line["type"] == "event":
                    continue
                when = datetime.datetime.strptime(line["time"], "%Y-%m-%dT%H:%M:%S.%f%z").timestamp()
                sets = {f"{set}/{key}": value for set, scores in line.get("sets", {}).items() for key, value in scores.items()}
                for key, value in (line | sets).items():
                    if isinstance(value, (int, float)) and key != "step":
                        logged[key, line["step"]] = value
                        seen[key, line["step"]] = round(when, 3)
            places = ("epoch", "target_tokens", "elapsed_seconds")
            drawn = {(key, step): value for key, of in run["series"].items() if not key.endswith("/script")
                     for step, value in zip(of["step"], of["value"])}  # fmt: skip
            self.assertEqual(drawn, {place: value for place, value in logged.items() if place[0] not in places})
            scalars = [((tag.removeprefix("sets/"), step), value) for step, _, tag, value in event_files.events(self.path(name, "tensorboard"))]
            events = {place: value for place, value in scalars if place in logged}
            self.assertEqual(events, {place: struct.unpack("<f", struct.pack("<f", value))[0] for place, value in logged.items()})
            kinds = [mark["kind"] for mark in run["marks"]]
            events = [line.get("event") for line in self.lines(name)]
            for kind, event in (("end of stage", "stage_end"), ("restart", "resumed")):
                self.assertEqual(kinds.count(kind), events.count(event), (name, run["marks"]))
            self.assertEqual({samples["set"] for samples in run["samples"]}, {"news", "talk"})
        self.assertEqual(runs[0]["series"]["loss"]["value"], runs[1]["series"]["loss"]["value"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
