# SPDX-License-Identifier: Apache-2.0
"""train --tensorboard: event files that say what metrics.jsonl says, whatever happened to the run."""

import datetime
import json
import os
import random
import signal
import struct
import time
import unittest

import event_files
import support

try:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
except ImportError:
    EventAccumulator = None


def f32(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def numbers(value, prefix=""):
    """The numbers of an object, by the names that lead to them."""
    for key, member in value.items():
        if isinstance(member, dict):
            yield from numbers(member, f"{prefix}{key}/")
        elif isinstance(member, (int, float)) and not isinstance(member, bool):
            yield prefix + key, member


class TensorBoard(support.CommandLineTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.corpus = cls.prepare_demo()

    def train(self, name, steps, *options, log_every=5, valid_every=10):
        model = support.TINY_MODEL[: support.TINY_MODEL.index("--valid-every")]
        return ["train", "--corpus", self.corpus, "--model-dir", self.path(name), *model, "--max-steps", steps, "--threads", 1,
                "--log-every", log_every, "--valid-every", valid_every, "--save-every", 10, "--valid-beam-size", 1,
                "--valid-max-sentences", 4, *options]  # fmt: skip

    def lines(self, name):
        return [json.loads(line) for line in self.read(self.path(name, "metrics.jsonl")).splitlines()]

    def events(self, name):
        return list(event_files.events(self.path(name, "tensorboard")))

    def logged(self, name):
        """The numbers of the log, by (tag, step), with the time of their line: the scores of a script at the steps of
        their validations."""
        found = {}
        for line in self.lines(name):
            if line.get("event") == "valid_script" and "score" in line:
                line = {"type": "", "time": line["time"], "step": line["of_step"], "valid_script/" + line["set"]: line["score"]}
            if line["type"] != "event":
                when = datetime.datetime.strptime(line["time"], "%Y-%m-%dT%H:%M:%S.%f%z").timestamp()
                step = line.pop("step")
                for key, value in numbers(line):
                    self.assertNotIn((key, step), found)
                    found[key, step] = f32(value), round(when, 3)
        return found

    def check_equal(self, name):
        """The events are the log, and none is there twice."""
        scalars, steps = {}, []
        for step, when, tag, value in self.events(name):
            if not tag.startswith("valid_script/"):
                steps.append(step)
            self.assertNotIn((tag, step), scalars)
            scalars[tag, step] = value, round(when, 3)
        self.assertEqual(steps, sorted(steps))
        self.assertEqual(scalars, self.logged(name))
        self.assertTrue(scalars)

    def digests(self, name):
        return {line["step"]: line["digest"] for line in self.lines(name) if "digest" in line}

    def test_numbers(self):
        self.succeed(*self.train("plain", 20, "--digest-every", 5))
        self.assertFalse(os.path.exists(self.path("plain", "tensorboard")))
        self.succeed(*self.train("run", 20, "--digest-every", 5, "--tensorboard"))
        self.assertEqual(self.digests("run"), self.digests("plain"))
        self.check_equal("run")

    def test_a_run_that_is_killed_at_any_time(self):
        moment = random.Random(7)
        for kill in range(6):
            process = support.start(support.command(*self.train("killed", 100000, "--tensorboard", log_every=1)))
            lines = len(self.read(self.path("killed", "metrics.jsonl")).splitlines()) if kill else 0
            support.wait_for(lambda: self.has_lines("killed", lines + 5), process)  # noqa: B023
            time.sleep(moment.random() * 0.5)
            process.kill()
            process.communicate()
            self.assertEqual(process.returncode, -signal.SIGKILL)
        step = max(line["step"] for line in self.lines("killed"))
        # A start without the option, which the last one makes up for.
        self.succeed(*self.train("killed", step + 5, log_every=1))
        self.succeed(*self.train("killed", step + 10, "--tensorboard", log_every=1))
        self.check_equal("killed")
        resumed = [line for line in self.lines("killed") if line.get("event") == "resumed"]
        self.assertIn("killed", {line["previous_state"] for line in resumed})

    def test_scores_of_a_script(self):
        """They arrive in other steps than their own; a run that is killed while they do has each once."""
        moment = random.Random(3)
        script = 'sleep .0$(($VENTRIS_STEP % 7 + 1)); [ $VENTRIS_STEP = 40 ] && exit 3; echo $VENTRIS_STEP.375'
        options = ("--valid-script", script)
        for kill in range(8):
            tensorboard = ("--tensorboard",) if kill != 4 else ()
            words = self.train("scripts", 100000, *options, *tensorboard, log_every=3 + kill % 3)
            process = support.start(support.command(*words))
            scores = self.scores("scripts")
            support.wait_for(lambda: self.scores("scripts") > scores + 2, process)  # noqa: B023
            time.sleep(moment.random() * 0.3)
            process.kill()
            process.communicate()
            self.assertEqual(process.returncode, -signal.SIGKILL)
        step = max(line["step"] for line in self.lines("scripts"))
        self.succeed(*self.train("scripts", step + 5, *options, "--tensorboard"))
        self.check_equal("scripts")
        scored = {key: value for key, value in self.logged("scripts").items() if key[0].startswith("valid_script/")}
        self.assertGreater(len(scored), 10)  # steps after a kill are repeated, and their scores with them
        for (_, of_step), (value, _) in scored.items():
            self.assertEqual(value, f32(of_step + 0.375))
        late = [line for line in self.lines("scripts") if line.get("event") == "valid_script" and line["step"] > line["of_step"]]
        self.assertTrue(late, "none came late: the test tells nothing")
        self.assertNotIn(("valid_script/valid", 40), scored)

    def scores(self, name):
        path = self.path(name, "metrics.jsonl")
        return self.read(path).count(b'"valid_script"') if os.path.exists(path) else 0

    def has_lines(self, name, count):
        path = self.path(name, "metrics.jsonl")
        return os.path.exists(path) and len(self.read(path).splitlines()) >= count

    @unittest.skipUnless(EventAccumulator, "without the Python package tensorboard")
    def test_tensorboard_reads_what_we_wrote(self):
        self.succeed(*self.train("read", 20, "--tensorboard"))
        self.succeed(*self.train("read", 30, "--tensorboard"))
        accumulator = EventAccumulator(self.path("read", "tensorboard"), size_guidance={"scalars": 0})
        accumulator.Reload()
        tags = accumulator.Tags()
        scalars = {(tag, event.step): (event.value, round(event.wall_time, 3))
                   for tag in tags["scalars"] for event in accumulator.Scalars(tag)}  # fmt: skip
        self.assertEqual(scalars, self.logged("read"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
