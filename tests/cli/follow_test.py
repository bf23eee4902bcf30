# SPDX-License-Identifier: Apache-2.0
"""The program of docs/guide.md by which others follow metrics.jsonl, with modules in the place of wandb and mlflow."""

import json
import os
import re
import subprocess
import sys
import unittest

import support

# What the program calls of either, under the names of both.
FAKE = '''
import json, os

class Run:
    def __enter__(self): return self
    def __exit__(self, *error): pass
    def log(self, values, step):
        with open(os.environ["LOGGED"], "a") as file:
            file.write(json.dumps([step, values]) + "\\n")

def init(name):
    return Run()

def start_run(run_name):
    return Run()

def log_metrics(values, step):
    Run().log(values, step)
'''


def line_of(step, kind="interval", **values):
    return json.dumps({"step": step, "type": kind, "time": "", **values, "format": "ventris metrics 1"}) + "\n"


class Follow(support.CommandLineTest):
    def run_state(self, state):
        """As the program does: a reader sees one or the other."""
        self.write("model/status.tmp", json.dumps({"state": state}))
        os.replace(self.path("model", "status.tmp"), self.path("model", "status.json"))

    def log(self, *lines):
        """The log of a run that resumed: it becomes shorter, and keeps its identity."""
        with open(self.path("model", "metrics.jsonl"), "a", encoding="utf-8") as file:
            file.truncate(0)
            file.write("".join(lines))

    def test_a_run_that_is_resumed_is_followed_to_its_end(self):
        with open(os.path.join(support.SOURCE_DIR, "docs", "guide.md"), encoding="utf-8") as file:
            (program,) = re.findall(r"This is `follow.py`:\n\n```python\n(.*?)```", file.read(), re.DOTALL)
        program = self.write("follow.py", program.replace("seconds=5", "seconds=0.2"))
        os.mkdir(self.path("model"))
        first = [line_of(10, loss=3, pairs={"news": 5}), line_of(10, "validation", valid_bleu=1.5),
                 line_of(20, loss=2, stage="x"), line_of(30, loss=1.25)]  # fmt: skip
        for to in ("wandb", "mlflow"):
            self.write(f"{to}.py", FAKE)
            logged = self.write(f"{to}.logged", "")
            self.run_state("running")
            self.log(*first, '{"step": 40, "lo')

            def steps(logged=logged):
                return [json.loads(line) for line in self.read(logged).splitlines()]

            environment = {**os.environ, "PYTHONPATH": self.folder, "LOGGED": logged}
            process = subprocess.Popen([sys.executable, program, "model", to], cwd=self.folder, stderr=subprocess.PIPE, env=environment)
            support.wait_for(lambda steps=steps: len(steps()) == 4, process)
            self.log(*first[:3], line_of(20, "event", event="resumed", ranks=2), line_of(30, loss=1.25), line_of(40, loss=1))
            support.wait_for(lambda steps=steps: len(steps()) == 5, process)
            self.log(*first[:3], line_of(30, loss=1.25), line_of(40, loss=1), line_of(50, loss=0.5))
            self.run_state("done")
            self.assertEqual(process.wait(timeout=600), 0, process.stderr.read())
            process.stderr.close()
            self.assertEqual(steps(), [[10, {"loss": 3, "pairs/news": 5}], [10, {"valid_bleu": 1.5}], [20, {"loss": 2}],
                                       [30, {"loss": 1.25}], [40, {"loss": 1}], [50, {"loss": 0.5}]])  # fmt: skip


if __name__ == "__main__":
    unittest.main(verbosity=2)
