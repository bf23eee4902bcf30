# SPDX-License-Identifier: Apache-2.0
"""The frame of the stages: limits, outcomes, results, with programs that are shell scripts."""
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest
import unittest.mock

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent / "bench"))

import checks  # noqa: E402
import kit as kits  # noqa: E402
import lease  # noqa: E402
import libraries  # noqa: E402
import measure  # noqa: E402
import sizes  # noqa: E402
import table  # noqa: E402


class Stages(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="ventris-stages-")
        self.addCleanup(shutil.rmtree, self.folder)
        os.makedirs(self.path("results"))
        self.write("kit.json", json.dumps({"cuda_libraries": {}, "glibc": "glibc 2.0"}))
        self.kit = kits.Kit(self.folder, "python3", self.path("work"), self.path("results"), sizes.TRIAL)

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def write(self, name, text):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(self.path(name), 0o755)

    def run_one(self, run, seconds=20.0):
        log = io.StringIO()
        return lease.run_stage(self.kit, lease.Row("one", "A", 20, run, ""), seconds, log), log.getvalue()

    def test_a_late_stage_is_ended_with_all_that_it_started(self):
        pid = self.path("pid")
        begin = time.monotonic()
        outcome, log = self.run_one(lambda kit, stage: stage.run("sh", "-c", f"sleep 60 & echo $! > {pid}; wait"), seconds=0.5)
        self.assertLess(time.monotonic() - begin, 30)
        self.assertEqual(outcome["outcome"], "failed")
        self.assertIn("not finished after", outcome["words"])
        self.assertIn("sleep 60", log)
        with open(pid, encoding="utf-8") as file:
            words = ["ps", "-o", "state=", "-p", file.read().strip()]
        for _ in range(100):  # a busy system ends a killed process later
            state = subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()
            if state in ("", "Z"):
                break
            time.sleep(0.1)
        self.assertIn(state, ("", "Z"))

    def test_no_device_is_told_from_other_failures(self):
        says = "echo 'error: --device cuda: no driver' >&2; exit 69"
        self.write("bin/cuda_tests", "#!/bin/sh\necho 'skipped: no CUDA device can be used: none' >&2\nexit 77\n")
        outcome, _ = self.run_one(lambda kit, stage: stage.run("sh", "-c", says))
        self.assertEqual((outcome["outcome"], outcome["words"]), ("no device", "skipped: no CUDA device can be used: none"))
        outcome, _ = self.run_one(lambda kit, stage: stage.run("sh", "-c", "echo 'no libx.so' >&2; exit 127"))
        self.assertEqual((outcome["outcome"], outcome["words"]), ("failed", "exit code 127: no libx.so"))
        # A program that cannot use the device which others use.
        self.write("bin/cuda_tests", "#!/bin/sh\n")
        self.kit.reason_without_device = None
        outcome, _ = self.run_one(lambda kit, stage: stage.run("sh", "-c", says))
        self.assertEqual(outcome["outcome"], "failed")

    def test_stages_go_on_after_one_that_fails_and_end_with_the_budget(self):
        def fail(kit, stage):
            return {}["nothing"]

        def late(kit, stage):
            return stage.run("sleep", "60")

        rows = [lease.Row("tests", "A", 20, fail, ""), lease.Row("card", "A", 0.1, late, ""), lease.Row("steps", "A", 20, lambda kit, stage: "fine", "")]
        self.assertEqual(lease.run_stages(self.kit, rows, 100.0), ["failed", "failed", "ok"])
        self.assertEqual(sorted(os.listdir(self.path("results"))), ["logs.tar.gz", "measured.json", "summary.md"])
        self.assertEqual(lease.run_stages(self.kit, rows[2:], lease.LEAST_SECONDS / 2), ["no time"])
        with open(self.path("results", "summary.md"), encoding="utf-8") as file:
            self.assertRegex(file.read(), r"\| tests \| failed \| .*KeyError: 'nothing'(.|\n)*not finished after(.|\n)*\| steps \| no time \|")

    def test_results_of_an_earlier_call_stay(self):
        ours = {"rate": 1000.0, "ms": 20.0, "tokens_per_update": 20, "flops": 4e12, "memory": 512}
        self.kit.measured = {"training": {"base": {"ventris": ours}}, "card": {"name": "X100", "date": "2026-11-28", "driver": "1.2", "commit": "abc"}}
        lease.run_stages(self.kit, [lease.Row("steps", "A", 20, lambda kit, stage: stage.note("first"), "")], 100.0)
        other = kits.Kit(self.folder, "python3", self.path("work-b"), self.path("results"), sizes.TRIAL)
        with open(self.path("results", "measured.json"), encoding="utf-8") as file:
            other.measured = json.load(file)

        def eager(kit, stage):
            stage.note("second")
            kit.measured["training"]["base"]["PyTorch, padded"] = {"rate": 500.0, "ms": 40.0, "tokens_per_update": 20, "version": "2.11.0"}

        lease.run_stages(other, [lease.Row("eager", "B", 20, eager, "")], 100.0)
        with open(self.path("results", "summary.md"), encoding="utf-8") as file:
            text = file.read()
        for line in ("### X100, 2026-11-28\n", "driver 1.2, CUDA: unknown, NCCL: unknown, PyTorch 2.11.0, commit abc; ", "| **step, ms** | **20.00** |  |",
                     "| PyTorch, padded, ms; ventris over it | 40.00; 2.00 |  |", "| steps | ok |", "| eager | ok |"):  # fmt: skip
            self.assertIn(line, text)
        with tarfile.open(self.path("results", "logs.tar.gz")) as archive:
            logs = {name: archive.extractfile(f"logs/{name}.log").read().decode() for name in ("steps", "eager")}
        self.assertEqual(logs, {"steps": "first\n", "eager": "second\n"})

    def test_the_first_step_with_another_digest_is_named(self):
        same, other = {1: "a", 2: "b", 3: "c"}, {1: "a", 2: "x", 3: "y"}
        kits.require_equal(("one", "two"), (same, dict(same)))
        with self.assertRaisesRegex(table.Failed, "one and two differ from step 2 on: digests b and x"):
            kits.require_equal(("one", "two"), (same, other))
        for lacking in ({}, {1: "a"}):
            with self.assertRaisesRegex(table.Failed, "digests of"):
                kits.require_equal(("one", "two"), (lacking, same))
        with self.assertRaises(table.Failed):
            kits.require_equal(("one", "two"), ({}, {}))

    def test_variants_are_read(self):
        found = measure.read_variants(HERE / "variants.txt")
        self.assertIn(("launches instead of a graph", "big", ["--no-cuda-graph"], {}), found)
        self.assertIn(("VENTRIS_TUNE_GEMM", "0"), [item for *_, variables in found for item in variables.items()])
        self.write("bad.txt", "# comment\nname | base\n")
        with self.assertRaisesRegex(table.Failed, "bad.txt:2: 'name . preset . options' is expected: name . base"):
            measure.read_variants(self.path("bad.txt"))

    def test_what_a_sanitizer_saw_until_its_time_was_over(self):
        self.write("bin/cuda_tests", "#!/bin/sh\n")
        kit = kits.Kit(self.folder, "python3", self.path("work"), self.path("results"), sizes.Sizes())
        self.write("tools/compute-sanitizer", "#!/bin/sh\necho '[       OK ] Add.One (3 ms)'\n$ENDING\n")
        stage = kits.Stage(kit, "one", 3.0, io.StringIO())
        with unittest.mock.patch.dict(os.environ, PATH=f"{self.path('tools')}:{os.environ['PATH']}", ENDING="sleep 60"):
            with self.assertRaisesRegex(table.Failed, "not finished after 3 s; 0 errors in the 1 tests until then"):
                checks.sanitize("racecheck", "*")(kit, stage)

    def test_libraries_are_found_in_their_places(self):
        self.write("given/libone.so.1", "")
        self.write("packages/nvidia/cu13/lib/libtwo.so.2", "")
        self.write("packages/nvidia/cu13/lib/libthree.so.4", "")
        self.write("python", f"#!/bin/sh\necho {self.path('packages')}\n")
        before = os.environ.get("LD_LIBRARY_PATH")
        self.addCleanup(lambda: os.environ.pop("LD_LIBRARY_PATH") if before is None else os.environ.update(LD_LIBRARY_PATH=before))
        os.environ["LD_LIBRARY_PATH"] = self.path("given")
        needed = {"libone.so.1": ["ventris"], "libtwo.so.2": ["ventris"], "libthree.so.3": ["ventris", "cuda_tests"]}
        found, folders, report = libraries.find_all(needed, [self.path("python"), self.path("no-python")])
        self.assertEqual(found, {"libone.so.1": self.path("given/libone.so.1"), "libtwo.so.2": self.path("packages/nvidia/cu13/lib/libtwo.so.2"),
                                 "libthree.so.3": None})
        self.assertEqual(folders, [self.path("packages/nvidia/cu13/lib")])
        other = self.path("packages/nvidia/cu13/lib/libthree.so.4")
        self.assertIn(f"libthree.so.3: not found; needed by ventris, cuda_tests\n  other versions: {other}\n", report)
        self.assertIn(f"  LD_LIBRARY_PATH: {self.path('given')}\n", report)

    def test_the_calls_fit_into_a_lease(self):
        self.assertEqual([row.call for row in lease.STAGES], sorted(row.call for row in lease.STAGES))
        for call, budget in lease.BUDGETS.items():
            self.assertLessEqual(sum(row.limit for row in lease.STAGES if row.call == call and row.name != lease.OF_THE_REST), budget)
        self.assertLessEqual(sum(lease.BUDGETS.values()), 720)  # of 900; the rest is the start of the machine and what is carried there

    def test_the_list_shows_the_limits(self):
        printed = subprocess.run([HERE / "lease.sh", "--list"], capture_output=True, text=True, check=True).stdout
        for row in lease.STAGES:
            self.assertRegex(printed, rf"(?m)^{row.call} +{row.name} +{row.limit}  ")
        refused = subprocess.run([HERE / "lease.sh", self.path("none.tar.xz")], capture_output=True, text=True, check=False)
        self.assertEqual(refused.returncode, 66)
        self.assertIn("none.tar.xz", refused.stderr)
        self.write("bad.tar.xz", "no archive")
        refused = subprocess.run([HERE / "lease.sh", self.path("bad.tar.xz")], capture_output=True, text=True, check=False)
        self.assertEqual(refused.returncode, 65)
        self.assertIn("bad.tar.xz is no archive", refused.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
