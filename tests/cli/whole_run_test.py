# SPDX-License-Identifier: Apache-2.0
"""A run with all that can happen to one: three stages, two validation sets, a script, and five kills. Its log, its
events, its pages and its checkpoints agree, and are those of a run that nothing disturbed."""

import datetime
import html.parser
import json
import os
import struct
import subprocess
import time
import unittest

import event_files
import support

STEPS = 150
PLAN = "first: clean 1 until 30 steps\nboth: clean .5 web .5 until 60 steps\nlast: web 1\n"


class Data(html.parser.HTMLParser):
    """The embedded data of a page."""

    def __init__(self, page):
        super().__init__()
        self.text, self.inside = "", False
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.inside = dict(attributes).get("id") == "data"

    def handle_data(self, data):
        self.text += data if self.inside else ""


class WholeRun(support.CommandLineTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.prepare_demo(train_pairs=400)
        cls.corpus = os.path.join(cls.folder, "mixed.h5")
        sets = []
        for name, begin, end in (("clean", 0, 200), ("web", 200, 400)):
            for side in ("en", "de"):
                with open(f"{cls.folder}/demo/train.{side}", encoding="utf-8") as file:
                    lines = file.readlines()[begin:end]
                with open(f"{cls.folder}/{name}.{side}", "w", encoding="utf-8") as file:
                    file.writelines(lines)
            sets += ["--train-set", name, f"{cls.folder}/{name}.en", f"{cls.folder}/{name}.de"]
        for name, demo in (("news", "valid"), ("talk", "test")):
            sets += ["--valid-set", name, f"{cls.folder}/demo/{demo}.en", f"{cls.folder}/demo/{demo}.de"]
        result = support.run("prepare", *sets, "--tokenizer-from", f"{cls.folder}/corpus.h5", "--output", cls.corpus)
        assert result.returncode == 0, result.stderr.decode()
        with open(f"{cls.folder}/plan", "w", encoding="utf-8") as file:
            file.write(PLAN)
        result = subprocess.run(cls.words("quiet"), capture_output=True, env=support.environment(), check=False)
        assert result.returncode == 0, result.stderr.decode()
        cls.kills = cls.disturbed_run()

    @classmethod
    def words(cls, name):
        settings = dict(zip(support.TINY_MODEL[::2], support.TINY_MODEL[1::2]))
        settings |= {"--schedule": "constant", "--peak-learning-rate": 0.01, "--warmup-steps": 20, "--max-steps": STEPS}
        settings |= {"--reduction": "reproducible", "--logical-shards": 2, "--mix": f"{cls.folder}/plan"}
        settings |= {"--save-every": 10, "--valid-every": 20, "--keep-checkpoints": 40, "--log-every": 5, "--digest-every": 10}
        settings |= {"--valid-max-sentences": 6, "--valid-beam-size": 1, "--valid-metric": "loss"}
        settings |= {"--valid-script": "sleep 0.05; wc -w < $VENTRIS_TRANSLATIONS"}
        flat = [word for pair in settings.items() for word in pair]
        words = ("--corpus", cls.corpus, "--model-dir", f"{cls.folder}/{name}", *flat, "--tensorboard")
        return support.command("train", *words)

    @classmethod
    def disturbed_run(cls):
        """Starts the run again and again, and kills it at five places. Returns how often it was alive to be killed."""
        log = f"{cls.folder}/killed/metrics.jsonl"

        def reached(step):
            try:
                with open(log, encoding="utf-8") as file:
                    return any(json.loads(line)["step"] >= step for line in file if line.endswith("\n"))
            except (FileNotFoundError, ValueError):  # no log yet, or one that is cut at this moment
                return False

        places = [lambda: reached(15), lambda: reached(45), lambda: reached(65), lambda: reached(85), lambda: reached(120)]
        alive = 0
        for place in places:
            with subprocess.Popen(cls.words("killed"), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=support.environment()) as process:
                deadline = time.monotonic() + 60
                while process.poll() is None and not place() and time.monotonic() < deadline:
                    time.sleep(0.001)
                alive += process.poll() is None
                process.kill()
        result = subprocess.run(cls.words("killed"), capture_output=True, env=support.environment(), check=False)
        assert result.returncode == 0, result.stderr.decode()
        return alive

    def lines(self, name):
        return [json.loads(line) for line in self.read(self.path(name, "metrics.jsonl")).splitlines()]

    def interesting(self, name):
        """The lines without times and rates, and without what says of starts and of the script, which runs beside the training."""
        hidden = ("time", "elapsed_seconds", "target_tokens_per_second", "source_tokens_per_second", "phase_seconds")
        lines = [line for line in self.lines(name) if line.get("event") not in ("resumed", "valid_script")]
        return [{key: value for key, value in line.items() if key not in hidden} for line in lines]

    def test_the_disturbed_run_is_the_quiet_one(self):
        self.assertGreaterEqual(self.kills, 4)
        quiet, killed = self.interesting("quiet"), self.interesting("killed")
        self.assertEqual(killed, quiet)
        events = [line.get("event") for line in quiet]
        self.assertEqual(events.count("stage_end"), 2)
        self.assertEqual(sum(line["type"] == "validation" for line in quiet), STEPS // 20 + 1)
        last = f"checkpoint-{STEPS:08}.h5"
        self.assertEqual(support.checkpoint_bits(self.path("killed", last)), support.checkpoint_bits(self.path("quiet", last)))
        self.assertEqual(self.read(self.path("killed", "best.json")), self.read(self.path("quiet", "best.json")))
        for step in range(20, STEPS, 20):
            for name in ("news", "talk"):
                part = os.path.join("valid", f"{step:08}", name + ".txt")
                self.assertEqual(self.read(self.path("killed", part)), self.read(self.path("quiet", part)))

    def test_the_script_scored_what_is_there_once(self):
        for name in ("quiet", "killed"):
            results = [line for line in self.lines(name) if line.get("event") == "valid_script"]
            places = [(line["of_step"], line["set"]) for line in results]
            self.assertEqual(len(places), len(set(places)))
            self.assertLessEqual({(STEPS, "news"), (STEPS, "talk")}, set(places))
            for line in results:
                words = self.read(self.path(name, "valid", f"{line['of_step']:08}", line["set"] + ".txt")).split()
                if "score" in line:
                    self.assertEqual(line["score"], len(words))

    def test_report_and_event_files_say_what_the_log_says(self):
        self.succeed("report", self.path("quiet"), self.path("killed"), "--output", self.path("report.html"))
        runs = json.loads(Data(self.read(self.path("report.html")).decode("ascii")).text)["runs"]
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
            drawn = {(key, step): value for key, of in run["series"].items() for step, value in zip(of["step"], of["value"])}
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
