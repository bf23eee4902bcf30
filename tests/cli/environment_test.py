# SPDX-License-Identifier: Apache-2.0
"""Libraries and instructions that a run computed with: recorded, and named where they change."""

import json
import unittest

import h5py

import support

SLOW = {"DNNL_MAX_CPU_ISA": "SSE41"}  # every processor has more
CHANGED = "was computed with other libraries or instructions: instruction set from "


class Environment(support.RunTest):
    def recorded(self, name, step):
        with h5py.File(self.checkpoint(name, step), "r") as file:
            return json.loads(file.attrs["environment"].decode())

    def test_a_run_records_them_and_tells_a_start_with_others(self):
        first = self.told(*self.train("run", max_steps=2, digest_every=1), variables=SLOW)
        self.assertNotIn(CHANGED, first)
        slow = self.recorded("run", 2)
        self.assertEqual(slow, json.loads(self.read(self.path("run", "config.json")))["environment"])
        self.assertEqual(set(slow), {"instruction_set", "kernels", "onednn", "compiler", "mpi", "cuda"})
        self.assertNotIn(CHANGED, self.told(*self.train("run", max_steps=4), variables=SLOW))
        messages = self.told(*self.train("run", max_steps=6, digest_every=1))
        now = self.recorded("run", 6)
        self.assertEqual({key for key in now if now[key] != slow[key]}, {"instruction_set"})
        self.assertIn(f"{CHANGED}{slow['instruction_set']} to {now['instruction_set']}.", messages)
        self.assertNotIn("are unknown", messages)  # the options of the last start
        self.assertNotIn(CHANGED, self.told(*self.train("run", max_steps=8)))


if __name__ == "__main__":
    unittest.main()
