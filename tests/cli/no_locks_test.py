# SPDX-License-Identifier: Apache-2.0
"""Run folders on file systems without locks, where flock fails."""

import json
import os
import signal
import unittest

import support

FAULTS = os.environ.get("VENTRIS_FAULTS", "")


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
