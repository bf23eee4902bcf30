# SPDX-License-Identifier: Apache-2.0
"""Runs that were stopped anywhere and went on have the digests of runs that were not; what is not resumed."""

import json
import glob
import os
import signal
import unittest

import support

LAST = 12  # an epoch and a half of the corpus


class Resume(support.RunTest):
    def run_to(self, name, step, **options):
        self.succeed(*self.train(name, max_steps=step, digest_every=1, **options))

    def test_runs_that_stopped_after_every_step(self):
        for name, options in (("f32", {"clip_norm": 1}), ("bf16", {"precision": "bf16"})):
            with self.subTest(name):
                self.run_to(name, LAST, ema=0.9, **options)
                self.assertEqual(len(set(self.digests(name).values())), LAST)
                for step in (1, 2, 3, 7, 8, 11, LAST):  # an epoch ends after eight
                    self.run_to(name + "-parts", step, ema=0.9, **options)
                self.assertEqual(self.digests(name + "-parts"), self.digests(name))

    @unittest.skipUnless(support.EMULATED, "built without the emulated device")
    def test_runs_that_stopped_on_the_emulated_device(self):
        small = {"d_model": 16, "d_ff": 32, "batch_source_tokens": 192, "batch_target_tokens": 192, "device": "cuda"}
        for precision in ("f32", "bf16"):
            name = "cuda-" + precision
            for folder, stops in ((name, (3,)), (name + "-parts", (1, 3))):
                for step in stops:
                    words = self.train(folder, max_steps=step, digest_every=1, precision=precision, **small)
                    self.succeed(*words, binary=support.EMULATED, variables={"VENTRIS_EMULATED_DEVICES": 1})
            self.assertEqual(self.digests(name + "-parts"), self.digests(name))

    def check_interrupted(self, name, holds, steps, **options):
        """A run that gets a signal once `holds(folder, pid)` and then goes on has the digests of one that was not
        interrupted."""
        self.run_to(name + "-whole", steps, **options)
        for number in (signal.SIGTERM, signal.SIGKILL):
            folder = f"{name}-{number.name}"
            words = self.train(folder, max_steps=steps, digest_every=1, **options)
            process = support.start(support.command(*words))
            self.wait_for(lambda folder=folder, process=process: holds(folder, process.pid), process)
            process.send_signal(number)
            self.end_of(process, -number if number == signal.SIGKILL else 75)
            self.succeed(*words)
            self.assertEqual(self.digests(folder), self.digests(name + "-whole"))
            self.assertEqual(len(self.digests(folder)), steps)

    def test_a_run_that_was_interrupted_while_it_validated(self):
        # The line of a step that is validated stands there before the validation begins.
        validates = lambda name, _: any(line["step"] == 4 for line in self.lines(name))
        self.check_interrupted("validates", validates, 10, valid_every=4, valid_beam_size=8, save_every=3)

    def test_a_run_that_was_interrupted_while_it_saved(self):
        def written_files(folder, pid):
            """Those that have no name yet, or a temporary one."""
            for descriptor in glob.glob(f"/proc/{pid}/fd/*"):
                try:
                    target = os.readlink(descriptor)
                except FileNotFoundError:  # closed in the meantime
                    continue
                if target.startswith(os.path.realpath(folder) + "/") and (target.endswith(" (deleted)") or ".tmp." in target):
                    yield target

        saves = lambda name, pid: self.checkpoints(name) and any(written_files(self.path(name), pid))
        self.check_interrupted("saves", saves, 30, save_every=1, keep_checkpoints=2, d_model=64, d_ff=256)

    def test_a_run_that_began_from_a_file_goes_on_from_its_own_newest(self):
        self.run_to("one-run", LAST)
        expected = self.digests("one-run")
        self.run_to("trunk", 4)
        trunk = self.checkpoint("trunk", 4)
        for last in (6, 8):
            self.run_to("branch", last, resume=trunk)
        self.succeed("train", "--config", self.path("branch", "config.json"), "--max-steps", 10)
        kept = self.path("kept.h5")
        os.rename(trunk, kept)  # the trunk goes on and removes it
        self.run_to("branch", LAST, resume=trunk)
        self.assertEqual(self.digests("branch"), {step: digest for step, digest in expected.items() if step > 4})
        # Of a run that began otherwise, newer checkpoints are not its own.
        self.run_to("trunk", 6)
        os.rename(kept, trunk)
        for name, begin in (("branch", self.checkpoint("trunk", 6)), ("trunk", trunk)):
            self.refuse(78, *self.train(name, max_steps=LAST, resume=begin), says="is newer than")
        # Where all else is damaged it begins there again.
        self.run_to("damaged", 6, resume=trunk)
        os.truncate(self.checkpoint("damaged", 6), 1000)
        told = self.told(*self.train("damaged", max_steps=8, resume=trunk, digest_every=1))
        self.assertIn(f"resuming from {trunk} at step 4", told)
        self.assertIn(f"{self.checkpoint('damaged', 6)}: its length is 1000 bytes, but ", told)
        self.assertEqual(self.digests("damaged")[8], expected[8])

    def test_a_best_checkpoint_that_is_not_there_is_looked_for_anew(self):
        valid = {"valid_every": 2, "save_every": 2, "keep_checkpoints": 20}
        best = lambda: json.loads(self.read(self.path("validated", "best.json")))["checkpoint"]
        self.run_to("validated", 8, **valid)
        os.remove(self.path("validated", best()))
        told = self.told(*self.train("validated", max_steps=10, **valid))
        self.assertIn("the search for the best starts again", told)
        self.assertEqual(best(), "checkpoint-00000010.h5")
        self.assertNotIn("the search for the best", self.told(*self.train("validated", max_steps=12, **valid)))


if __name__ == "__main__":
    unittest.main(verbosity=2)
