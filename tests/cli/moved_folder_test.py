# SPDX-License-Identifier: Apache-2.0
"""A run folder that is moved or replaced while a run works in it, and one on a file system without locks, where flock fails."""

import os
import shutil
import signal
import unittest

import support

FAULTS = os.environ.get("VENTRIS_FAULTS", "")


class MovedFolder(support.RunTest):
    def files_of(self, name):
        """Names, bytes and times of a folder."""
        return {
            entry.name: (self.read(entry.path), entry.stat().st_mtime_ns) for entry in os.scandir(self.path(name))
        }

    def start(self, name, saved, ranks=1, variables=None, **options):
        """A run that would take long, once that many checkpoints of it are there."""
        settings = {"max_steps": 1000000, "save_every": 5, "keep_checkpoints": 2, "valid_every": 7, **options}
        words = support.command(*self.train(name, **settings), ranks=ranks)
        process = support.start(words, **(variables or {}))
        self.addCleanup(process.kill)
        self.wait_for(lambda: len(self.checkpoints(name)) >= saved, process)
        return process

    def end(self, process, name):
        message = self.end_of(process, 74)
        self.assertIn(self.path(name), message)
        self.assertRegex(message, "the (run )?folder .*was moved, removed or replaced")
        return message

    def test_a_folder_that_is_moved_away_ends_the_run_and_what_was_saved_goes_on(self):
        process = self.start("moved", 2)
        os.rename(self.path("moved"), self.path("old"))
        message = self.end(process, "moved")
        self.assertFalse(os.path.exists(self.path("moved")))
        self.assertIn(f"is now {self.path('old')}", message)
        step = int(self.checkpoints("old")[-1][-11:-3])
        self.succeed(*self.train("old", max_steps=step + 2))

    def test_a_folder_that_is_removed_ends_the_run_and_is_said_to_be_gone(self):
        for name, settings in (("saved", {}), ("trained", {"save_every": 0})):
            with self.subTest(name):
                process = self.start(name, 0 if settings else 1, **settings)
                self.wait_for(lambda name=name: self.lines(name), process)
                support.stop(process)
                shutil.rmtree(self.path(name))
                process.send_signal(signal.SIGCONT)
                message = self.end_of(process, 74).splitlines()[-1]
                self.assertIn(f"the run folder {self.path(name)} was removed with its checkpoints while this run used it", message)
                self.assertFalse(os.path.exists(self.path(name)))

    def test_a_run_writes_nothing_into_the_folder_that_took_the_place_of_its_own(self):
        self.succeed(*self.train("next", max_steps=3, digest_every=1))
        process = self.start("run", 2)
        support.stop(process)
        os.rename(self.path("run"), self.path("run-old"))
        os.rename(self.path("next"), self.path("run"))
        before = self.files_of("run")
        process.send_signal(signal.SIGCONT)
        self.end(process, "run")
        self.assertEqual(self.files_of("run"), before)
        self.succeed(*self.train("run", max_steps=6, digest_every=1))
        self.assertEqual(len(self.digests("run")), 6)

    @unittest.skipUnless(FAULTS, "built with a sanitizer, which wants to be the first library")
    def test_a_save_under_way_gets_no_name_in_the_other_folder(self):
        self.succeed(*self.train("other", max_steps=3))
        log = self.path("calls")
        faults = {"LD_PRELOAD": FAULTS, "VENTRIS_FAULT_PREFIX": self.path("saves"), "VENTRIS_FAULT_LOG": log,
                  "VENTRIS_FAULT_CALL": "fsync", "VENTRIS_FAULT_AT": 12, "VENTRIS_FAULT": "wait",
                  "VENTRIS_FAULT_SECONDS": 2}  # fmt: skip
        process = self.start("saves", 1, variables=faults, log_every=1000000, valid_every=0)
        self.wait_for(lambda: len(self.read(log).splitlines()) >= 12, process)
        os.rename(self.path("saves"), self.path("saves-old"))
        os.rename(self.path("other"), self.path("saves"))
        before = self.files_of("saves")
        self.end(process, "saves")
        self.assertEqual(self.files_of("saves"), before)


@unittest.skipUnless(FAULTS, "built with a sanitizer, which wants to be the first library")
class NoLocks(support.RunTest):
    def without_locks(self, name, error="ENOLCK", call="flock"):
        return {"LD_PRELOAD": FAULTS, "VENTRIS_FAULT_PREFIX": self.path(name), "VENTRIS_FAULT_CALL": call,
                "VENTRIS_FAULT_AT": 1, "VENTRIS_FAULT_STICKY": 1, "VENTRIS_FAULT": error}  # fmt: skip

    def start(self, name):
        process = support.start(
            support.command(*self.train(name, max_steps=1000000, save_every=5, log_every=100000)),
            **self.without_locks(name),
        )
        self.addCleanup(process.kill)
        running = lambda: self.status(name)["state"] == "running" and os.path.exists(self.path(name, ".lease"))
        self.wait_for(running, process)
        return process

    def test_a_run_says_so_and_leaves_nothing(self):
        for error in ("ENOLCK", "ENOSYS"):
            name = error.lower()
            said = self.told(*self.train(name, max_steps=2), variables=self.without_locks(name, error))
            self.assertIn(f"the file system of {self.path(name)} has no locks (flock: ", said)
            self.assertFalse(os.path.exists(self.path(name, ".lease")))

    def test_a_second_run_on_this_host_and_on_another_is_refused(self):
        process = self.start("run")
        words = self.train("run", max_steps=1000000)
        self.refuse(73, *words, variables=self.without_locks("run"), says=[self.path("run"), f"process {process.pid} on"])
        self.assertIsNone(process.poll())
        process.send_signal(signal.SIGTERM)
        self.end_of(process, 75)
        self.succeed(*self.train("run", max_steps=self.status("run")["step"] + 1), variables=self.without_locks("run"))


if __name__ == "__main__":
    unittest.main()
