# SPDX-License-Identifier: Apache-2.0
"""train --tensorboard: event files that say what metrics.jsonl says, whatever happened to the run."""

import datetime
import os
import random
import signal
import struct
import time
import unittest

import event_files
import support


def f32(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def numbers(value, prefix=""):
    """The numbers of an object, by the names that lead to them."""
    for key, member in value.items():
        if isinstance(member, dict):
            yield from numbers(member, f"{prefix}{key}/")
        elif isinstance(member, (int, float)) and not isinstance(member, bool):
            yield prefix + key, member


class TensorBoard(support.RunTest):
    MODEL = [
        *(*support.TINY_MODEL, "--valid-every", 10, "--save-every", 10, "--valid-beam-size", 1, "--valid-max-sentences", 4),
        *("--digest-every", 5, "--valid-script", "sleep .0$(($VENTRIS_STEP % 7 + 1)); echo $VENTRIS_STEP.375"),
    ]

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

    def test_a_run_that_is_killed_at_any_time(self):
        """The scores of a script arrive in other steps than their own; each is there once."""
        moment = random.Random(7)
        for kill in range(5):
            options = ["--tensorboard"] if kill != 3 else []  # a start without the option, which the next one makes up for
            process = support.start(support.command(*self.train("killed", *options, max_steps=100000, log_every=1 + kill % 3)))
            lines, scores = len(self.lines("killed")), self.scores("killed")
            self.wait_for(lambda: len(self.lines("killed")) > lines + 5 and self.scores("killed") > scores, process)  # noqa: B023
            time.sleep(moment.random() * 0.3)
            process.kill()
            self.end_of(process, -signal.SIGKILL)
        step = max(line["step"] for line in self.lines("killed"))
        self.succeed(*self.train("killed", "--tensorboard", max_steps=step + 5))
        self.check_equal("killed")
        scored = {key: value for key, value in self.logged("killed").items() if key[0].startswith("valid_script/")}
        self.assertGreater(len(scored), 2)  # steps after a kill are repeated, and their scores with them
        for (_, of_step), (value, _) in scored.items():
            self.assertEqual(value, f32(of_step + 0.375))

    def scores(self, name):
        return sum(line.get("event") == "valid_script" for line in self.lines(name))

    def test_it_changes_no_bit(self):
        self.succeed(*self.train("plain", max_steps=10))
        self.assertFalse(os.path.exists(self.path("plain", "tensorboard")))
        self.succeed(*self.train("run", "--tensorboard", max_steps=10))
        self.assertEqual(self.digests("run"), self.digests("plain"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
