# SPDX-License-Identifier: Apache-2.0
"""train --on-spike: a run whose loss rises too far goes back to a checkpoint, and on with a lower learning rate."""

import json
import os
import random
import signal
import subprocess
import time
import unittest

import support

# A rate that rises until the loss does: the bits, and so the spikes, are those of every processor.
DIVERGES = ("--schedule", "constant", "--peak-learning-rate", 2, "--warmup-steps", 150, "--reduction", "reproducible")
BACK = ("--on-spike", "rollback")


class Rollbacks(support.CommandLineTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.corpus = cls.prepare_demo(train_pairs=400)

    def words(self, name, *options, steps=150):
        settings = dict(zip(support.TINY_MODEL[::2], support.TINY_MODEL[1::2]))
        settings |= dict(zip(DIVERGES[::2], DIVERGES[1::2]))
        settings |= {"--max-steps": steps, "--save-every": 10, "--keep-checkpoints": 30, "--log-every": 5, "--digest-every": 10}
        settings |= {"--logical-shards": 2} | dict(zip(options[::2], options[1::2]))
        flat = [word for pair in settings.items() for word in pair]
        return ["train", "--corpus", self.corpus, "--model-dir", self.path(name), *flat]

    def metrics(self, name):
        return [json.loads(line) for line in self.read(self.path(name, "metrics.jsonl")).splitlines()]

    def digests(self, name):
        """Of a run that has ended: the digests of its steps, each of which the log has once, in order."""
        lines = self.metrics(name)
        steps = [line["step"] for line in lines]
        self.assertEqual(steps, sorted(steps))
        intervals = [line["step"] for line in lines if line["type"] == "interval"]
        self.assertEqual(len(intervals), len(set(intervals)))
        return [(line["step"], line["digest"]) for line in lines if line["type"] == "digest"]

    def rollbacks(self, name):
        return json.loads(self.read(self.path(name, "rollbacks.json")))["rollbacks"]

    @classmethod
    def undisturbed(cls, test):
        """The folder of a run that went back at least twice."""
        if not hasattr(cls, "digests_of_undisturbed"):
            test.succeed(*test.words("undisturbed", *BACK))
            cls.digests_of_undisturbed = test.digests("undisturbed")
        return cls.digests_of_undisturbed

    def test_a_run_goes_back_and_ends_well(self):
        self.undisturbed(self)
        rollbacks = self.rollbacks("undisturbed")
        self.assertGreaterEqual(len(rollbacks), 1)
        events = [line for line in self.metrics("undisturbed") if line.get("event") == "rollback"]
        self.assertEqual([event["step"] for event in events], [rollback["to_step"] for rollback in rollbacks])
        rates = {line["step"]: line["learning_rate"] for line in self.metrics("undisturbed") if "learning_rate" in line}
        factor = 1
        for rollback, event in zip(rollbacks, events):
            self.assertEqual(rollback["to_step"] % 10, 0)
            self.assertLessEqual(rollback["to_step"], rollback["begin"] - 10)
            self.assertEqual(rollback["from_step"], rollback["begin"] + 4)
            self.assertFalse(rollback["pending"])
            factor *= rollback["rate"]
            self.assertEqual(event["rate"], factor)
        for step, rate in rates.items():
            factor = 0.5 ** sum(rollback["to_step"] < step for rollback in rollbacks)
            self.assertAlmostEqual(rate, factor * 2 * step / 150)
        losses = [line["loss"] for line in self.metrics("undisturbed") if "loss" in line]
        self.assertLess(max(losses), 3 * losses[0])
        intervals = [line for line in self.metrics("undisturbed") if line["type"] == "interval"]
        elapsed = [line["elapsed_seconds"] for line in intervals]
        self.assertEqual(elapsed, sorted(elapsed))
        # All of the time of the run is in one phase, and what was lost by going back is in neither.
        spent = [sum(line["phase_seconds"].values()) for line in intervals]
        for before, after, phases in zip([0, *elapsed], elapsed, spent):
            self.assertAlmostEqual(after - before, phases, delta=0.02)
        self.succeed("report", self.path("undisturbed"), "--output", self.path("report.html"))
        self.assertIn(b'"rollback"', self.read(self.path("report.html")))

    def test_spikes_are_ignored_by_default(self):
        self.succeed(*self.words("ignored"))
        self.assertFalse(os.path.exists(self.path("ignored", "rollbacks.json")))
        self.assertGreater(max(line["loss"] for line in self.metrics("ignored") if "loss" in line), 20)

    def test_ranks_and_owners_go_back_alike(self):
        expected = self.undisturbed(self)
        self.succeed(*self.words("ranks", *BACK), ranks=2)
        self.assertEqual(self.digests("ranks"), expected)
        self.succeed(*self.words("owners", *BACK), "--shard-optimizer", ranks=2)
        self.assertEqual(self.digests("owners"), expected)

    def test_a_stop_within_a_spike_changes_nothing(self):
        expected = self.undisturbed(self)
        first = self.rollbacks("undisturbed")[0]
        for steps in (first["from_step"] - 2, first["from_step"] - 1):
            self.succeed(*self.words("within", *BACK, steps=steps))
        self.succeed(*self.words("within", *BACK))
        self.assertEqual(self.digests("within"), expected)

    def test_checkpoints_of_stops_are_no_places_to_go_back_to(self):
        """Newer ones than that of --save-every, and old enough."""
        expected = self.undisturbed(self)
        first = self.rollbacks("undisturbed")[0]
        stop = first["begin"] - 10
        self.assertGreater(stop, first["to_step"])
        for steps in (4, stop):
            self.succeed(*self.words("stopped", *BACK, steps=steps))
        self.succeed(*self.words("stopped", *BACK))
        self.assertEqual(self.digests("stopped"), expected)
        self.assertEqual(self.rollbacks("stopped"), self.rollbacks("undisturbed"))

    def test_a_run_killed_between_the_record_and_its_effects_goes_back_at_the_next_start(self):
        expected = self.undisturbed(self)
        first = self.rollbacks("undisturbed")[0]
        self.succeed(*self.words("recorded", *BACK, steps=first["from_step"] - 1))
        self.write("recorded/rollbacks.json", json.dumps({"format": "ventris rollbacks 1", "rollbacks": [first | {"pending": True}]}))
        later = self.path("recorded", f"checkpoint-{first['from_step'] - 1:08}.h5")
        self.assertTrue(os.path.exists(later))
        self.succeed(*self.words("recorded", *BACK, steps=first["to_step"] + 1))
        self.assertFalse(os.path.exists(later))
        self.succeed(*self.words("recorded", *BACK))
        self.assertEqual(self.digests("recorded"), expected)
        events = [line["step"] for line in self.metrics("recorded") if line.get("event") == "rollback"]
        self.assertEqual(events, [rollback["to_step"] for rollback in self.rollbacks("undisturbed")])

    def test_a_run_that_is_killed_again_and_again_comes_to_the_same_bits(self):
        expected = self.undisturbed(self)
        chance = random.Random(5)
        command = [support.BINARY, *map(str, self.words("killed", *BACK))]
        for _ in range(6):
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(chance.uniform(0.2, 1.2))
            process.send_signal(signal.SIGKILL)
            process.wait()
        self.succeed(*self.words("killed", *BACK))
        self.assertEqual(self.digests("killed"), expected)

    def test_what_cannot_go_back_ends_with_the_reason(self):
        self.refuse(77, *self.words("once", *BACK, "--max-rollbacks", 1, "--rollback-rate", 1), says=["1 time", "--max-rollbacks", "last checkpoint"])
        self.assertEqual(len(self.rollbacks("once")), 1)
        self.refuse(77, *self.words("once", *BACK, "--max-rollbacks", 1), says="--max-rollbacks")  # the same at every start
        self.refuse(77, *self.words("none", *BACK, "--save-every", 1000), says=["no checkpoint of --save-every of at least 10 steps before", "--save-every"])
        self.refuse(77, *self.words("stops", "--on-spike", "stop"), says="times its mean before, in 5 steps in a row from step")
        self.refuse(78, *self.words("never", *BACK, "--save-every", 0), says=["--save-every", "--on-spike rollback"])

    def test_a_record_that_is_no_record_is_refused(self):
        self.succeed(*self.words("record", *BACK, steps=10))
        for text in ("", "{}", '{"rollbacks": [{"to_step": 5}]}', '{"rollbacks": 3}'):
            self.write("record/rollbacks.json", text)
            self.refuse(65, *self.words("record", *BACK), says=["rollbacks.json", "restore it"])
        self.write("record/rollbacks.json", '{"format": "ventris rollbacks 2", "rollbacks": []}')
        self.refuse(65, *self.words("record", *BACK), says="newer ventris")


if __name__ == "__main__":
    unittest.main()
