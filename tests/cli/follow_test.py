# SPDX-License-Identifier: Apache-2.0
"""The program of docs/guide.md by which others follow metrics.jsonl."""

import importlib.util
import json
import os
import re
import subprocess
import sys
import unittest

import support

FAKE_WANDB = '''
import json, os

class Run:
    def __enter__(self): return self
    def __exit__(self, *error): pass
    def log(self, values, step):
        with open(os.environ["LOGGED"], "a") as file:
            file.write(json.dumps([step, values]) + "\\n")

def init(name):
    return Run()
'''


def line_of(step, kind="interval", **values):
    return json.dumps({"step": step, "type": kind, "time": "", **values, "format": "ventris metrics 1"}) + "\n"


class Follow(support.CommandLineTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        with open(os.path.join(support.SOURCE_DIR, "docs", "guide.md"), encoding="utf-8") as file:
            (program,) = re.findall(r"This is `follow.py`:\n\n```python\n(.*?)```", file.read(), re.DOTALL)
        cls.program = os.path.join(cls.folder, "follow.py")
        with open(cls.program, "w", encoding="utf-8") as file:
            file.write(program.replace("seconds=5", "seconds=0.2"))
        os.makedirs(os.path.join(cls.folder, "fake"))
        with open(os.path.join(cls.folder, "fake", "wandb.py"), "w", encoding="utf-8") as file:
            file.write(FAKE_WANDB)
        os.makedirs(os.path.join(cls.folder, "model"))

    def run_state(self, state):
        """As the program does: a reader sees one or the other."""
        self.write("model/status.tmp", json.dumps({"state": state}).encode())
        os.replace(self.path("model", "status.tmp"), self.path("model", "status.json"))

    def log(self, *lines):
        """The log of a run that resumed: it becomes shorter, and keeps its identity."""
        with open(self.path("model", "metrics.jsonl"), "a", encoding="utf-8") as file:
            file.truncate(0)
            file.write("".join(lines))

    def start(self, to, **environment):
        return subprocess.Popen([sys.executable, self.program, "model", to], cwd=self.folder, stderr=subprocess.PIPE,
                                env={**os.environ, **environment})  # fmt: skip

    def test_a_run_that_is_resumed_is_followed_to_its_end(self):
        logged = self.path("logged")
        first = [line_of(10, loss=3, pairs={"news": 5}), line_of(10, "validation", valid_bleu=1.5),
                 line_of(20, loss=2, stage="x"), line_of(30, loss=1.25)]  # fmt: skip
        self.run_state("running")
        self.log(*first, '{"step": 40, "lo')

        def steps():
            with open(logged, encoding="utf-8") as file:
                return [json.loads(line) for line in file]

        process = self.start("wandb", PYTHONPATH=self.path("fake"), LOGGED=logged)
        support.wait_for(lambda: os.path.exists(logged) and len(steps()) == 4, process)
        self.log(*first[:3], line_of(20, "event", event="resumed", ranks=2), line_of(30, loss=1.25), line_of(40, loss=1))
        support.wait_for(lambda: len(steps()) == 5, process)
        self.log(*first[:3], line_of(30, loss=1.25), line_of(40, loss=1), line_of(50, loss=0.5))
        self.run_state("done")
        self.assertEqual(process.wait(timeout=60), 0, process.stderr.read())
        process.stderr.close()
        self.assertEqual(steps(), [[10, {"loss": 3, "pairs/news": 5}], [10, {"valid_bleu": 1.5}], [20, {"loss": 2}],
                                   [30, {"loss": 1.25}], [40, {"loss": 1}], [50, {"loss": 0.5}]])  # fmt: skip

    @unittest.skipUnless(importlib.util.find_spec("mlflow"), "without the Python package mlflow")
    def test_mlflow_has_the_numbers_of_the_log(self):
        import mlflow

        self.run_state("done")
        self.log(line_of(10, loss=3, pairs={"news": 5}), line_of(10, "validation", valid_bleu=1.5), line_of(20, loss=2))
        store = "file://" + self.path("mlruns")
        process = self.start("mlflow", MLFLOW_TRACKING_URI=store, MLFLOW_ALLOW_FILE_STORE="true")
        self.assertEqual(process.wait(timeout=120), 0, process.stderr.read())
        process.stderr.close()
        os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
        client = mlflow.MlflowClient(tracking_uri=store)
        (run,) = client.search_runs([experiment.experiment_id for experiment in client.search_experiments()])
        self.assertEqual(run.info.run_name, "model")
        values = {key: [(metric.step, metric.value) for metric in client.get_metric_history(run.info.run_id, key)]
                  for key in run.data.metrics}  # fmt: skip
        self.assertEqual(values, {"loss": [(10, 3), (20, 2)], "pairs/news": [(10, 5)], "valid_bleu": [(10, 1.5)]})


if __name__ == "__main__":
    unittest.main(verbosity=2)
